"""Calls whose session, or whose database, is gone."""

import pytest
from django.db import connections

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import MigrationsMissing, SessionNotFound
from checkpoints.models import Session, ToolCall
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import start_session


def test_session_that_is_deleted_while_a_tool_runs(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool
    def clean() -> str:
        cp.finish_session("s", "cancelled")
        cp.delete_session("s")
        return "clean"

    with pytest.raises(SessionNotFound):
        registry.dispatch("clean", {}, "call_1")
    assert (Session.objects.count(), ToolCall.objects.count()) == (0, 0)


def dispatch_without_tables(url: str) -> str:
    """In a process of its own: the tables go away under a checkpointer that does not own the session."""
    with SyncCheckpointer.open(url, migrate=True) as cp:
        registry = ToolRegistry(checkpointer=start_session(cp), session_id="another")
        registry.tool(name="pay")(lambda: "paid")
        tables = connections[cp.store.using]
        with tables.cursor() as cursor:
            cursor.execute('ALTER TABLE "checkpoints_session" RENAME TO "elsewhere"')
        try:
            registry.dispatch("pay", {}, "call_1")
        except MigrationsMissing as error:
            return type(error).__name__
        finally:
            with tables.cursor() as cursor:
                cursor.execute('ALTER TABLE "elsewhere" RENAME TO "checkpoints_session"')
    return "nothing"


def test_who_owns_a_session_is_asked_with_typed_errors(start_child: StartChild, fresh_url: str) -> None:
    assert start_child(dispatch_without_tables, url=fresh_url).result() == "MigrationsMissing"
