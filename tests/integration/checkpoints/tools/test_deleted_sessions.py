"""Calls whose session or database was deleted."""

import pytest
from django.db import connections

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import MigrationsMissing, SessionNotFound
from checkpoints.models import Session, ToolCall
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import start_session


def test_session_deleted_while_a_tool_runs(cp: SyncCheckpointer) -> None:
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
    """Dispatch in a child process after the tables were dropped, without owning the session."""
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


def test_ownership_check_of_a_deleted_session_raises_typed_errors(start_child: StartChild, fresh_url: str) -> None:
    assert start_child(dispatch_without_tables, url=fresh_url).result() == "MigrationsMissing"
