"""Rows of one session whose keys were exchanged: what names a key then belongs to another row."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, models

from checkpoints import SyncCheckpointer, ValueCodec, guard
from checkpoints.exceptions import IntegrityError, SessionQuarantined
from checkpoints.integrity import verify_session_rows
from checkpoints.models import CallValue, Decision, Join, PausedTask, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import create_sealed_session, plain
from tests.integration.checkpoints.session_setups import start_session

_AS_TEXT = ValueCodec(lambda value: ("text", value.encode()), lambda stored: stored[1].decode())


def exchange_keys(model: type[models.Model], first: Any, second: Any) -> None:
    """Exchange the keys of two rows; the rows that name them are left as they are."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        for before, after in ((first, -1), (second, first), (-1, second)):
            cursor.execute(f"UPDATE {table} SET id = %s WHERE id = %s", [after, before])  # noqa: S608 - of a model


@pytest.fixture
def unchecked_keys(transactional_db: None) -> Any:
    """Let the keys of rows be changed that others name, as an attacker can who owns the tables."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA foreign_keys = OFF")
        else:
            cursor.execute("SET session_replication_role = replica")
    yield
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA foreign_keys = ON")
        else:
            cursor.execute("SET session_replication_role = DEFAULT")


@pytest.fixture
def cp(open_checkpointer: Open) -> SyncCheckpointer:
    return start_session(open_checkpointer())


@pytest.mark.usefixtures("unchecked_keys")
def test_value_of_another_call_is_not_replayed(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    for number in (1, 2):
        guard(cp, "s", "mail", {"n": number}, f"call_{number}", lambda args: f"sent {args['n']}", codec=_AS_TEXT)
    exchange_keys(ToolCall, *ToolCall.objects.order_by("pk").values_list("pk", flat=True))
    assert CallValue.objects.count() == 2
    with pytest.raises(IntegrityError):
        guard(cp, "s", "mail", {"n": 1}, "call_1", lambda _: "sent again", codec=_AS_TEXT)
    cp.close()
    with pytest.raises((IntegrityError, SessionQuarantined)):
        open_checkpointer().resume("s")


@pytest.mark.usefixtures("unchecked_keys")
@pytest.mark.parametrize("model", [ToolCall, Decision, PausedTask, Join], ids=lambda model: model.__name__)
def test_changed_key_of_a_row_that_others_name_is_detected(open_checkpointer: Open, model: type[models.Model]) -> None:
    create_sealed_session(open_checkpointer, "s")
    session = Session.objects.get(session_id="s")
    verify_session_rows.verify_records_and_hash_live_call_keys("default", session)
    key = plain(model).filter(session=session).order_by("pk").values_list("pk", flat=True)[0]
    exchange_keys(model, key, key + 1000)
    with pytest.raises(IntegrityError):
        verify_session_rows.verify_records_and_hash_live_call_keys("default", session)
