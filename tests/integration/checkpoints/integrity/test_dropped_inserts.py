"""A database that drops what is inserted, by a trigger, gives a typed error, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from django.db import connection, models

from checkpoints import SyncCheckpointer, ValueCodec, guard
from checkpoints.exceptions import (
    ApprovalRequired,
    CheckpointCorrupted,
    IntegrityError,
    ResultNotRecorded,
    RowNotStored,
)
from checkpoints.models import (
    AuditEvent,
    CallValue,
    Checkpoint,
    Decision,
    Message,
    Run,
    Segment,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_altered_database import make_registry, run_sql
from tests.integration.checkpoints.session_setups import conversation, start_session

paid: list[int] = []


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    paid.clear()


@contextmanager
def trigger_that_drops_inserts(model: type[models.Model]) -> Iterator[None]:
    """Let the database drop each row that is inserted into a table, without an error."""
    table = model._meta.db_table
    if connection.vendor == "sqlite":
        run_sql(f"CREATE TRIGGER drops BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
        drop = ["DROP TRIGGER drops"]
    else:
        run_sql(
            "CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
            f"CREATE TRIGGER drops BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION drop_row()",
        )
        drop = [f"DROP TRIGGER drops ON {table}", "DROP FUNCTION drop_row"]
    try:
        yield
    finally:
        run_sql(*drop)


def dispatch(cp: SyncCheckpointer) -> None:
    make_registry(cp, paid).dispatch("pay", {"order": 18}, "call_2")


def ask(cp: SyncCheckpointer) -> None:
    make_registry(cp, paid, requires_approval=True).dispatch("pay", {"order": 18}, "call_2")


def approve(cp: SyncCheckpointer) -> None:
    cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)


def run_with_value(cp: SyncCheckpointer) -> None:
    codec = ValueCodec(lambda value: ("text", value.encode()), lambda stored: stored[1].decode())
    guard(cp, "s", "mail", {}, "call_3", lambda _: "sent", codec=codec)


def save(cp: SyncCheckpointer) -> None:
    cp.save_checkpoint("s", conversation("ab"), {}, 0)


ACTS: dict[str, tuple[type[models.Model], Callable[[SyncCheckpointer], object]]] = {
    "the run of a session": (Run, lambda cp: cp.start_session("t")),
    "the audit of a session": (AuditEvent, lambda cp: cp.start_session("t")),
    "the segment of a session": (Segment, lambda cp: cp.start_session("t")),
    "a version": (Checkpoint, save),
    "messages": (Message, save),
    "a call": (ToolCall, dispatch),
    "a call that asks": (ToolCall, ask),
    "the audit of a call that asks": (AuditEvent, ask),
    "a decision": (Decision, approve),
    "the audit of a decision": (AuditEvent, approve),
    "a value": (CallValue, run_with_value),
    "a workflow": (Workflow, lambda cp: cp.workflow("s", "books").step("enter", str.upper, "entry")),
    "a step": (WorkflowStep, lambda cp: cp.workflow("s", "books").step("enter", str.upper, "entry")),
    "the session of a fork": (Session, lambda cp: cp.fork_session("s", "t")),
    "the segment of a fork": (Segment, lambda cp: cp.fork_session("s", "t")),
    "the run of a fork": (Run, lambda cp: cp.fork_session("s", "t")),
    "the calls of a fork": (ToolCall, lambda cp: cp.fork_session("s", "t")),
}


#: Saves on PostgreSQL are one statement, which does not count what it has inserted.
COUNTED = [name for name in ACTS if connection.vendor == "sqlite" or name not in {"a version", "messages"}]


@pytest.mark.parametrize("name", COUNTED)
def test_dropped_insert_is_a_typed_error(open_checkpointer: Open, name: str) -> None:
    model, act = ACTS[name]
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("a"), {}, 0)
    make_registry(cp, []).dispatch("pay", {"order": 1}, "call_0")
    with suppress(ApprovalRequired):
        make_registry(cp, paid, requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    rows = plain(model).count()
    with trigger_that_drops_inserts(model), pytest.raises((IntegrityError, ResultNotRecorded)) as caught:
        act(cp)
    error = caught.value if isinstance(caught.value, IntegrityError) else caught.value.__cause__
    assert isinstance(error, IntegrityError)
    assert error.table == model._meta.db_table
    assert (paid, plain(model).count()) == ([], rows)
    assert not Session.objects.filter(quarantined_at__isnull=False).exists()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="on SQLite the save itself refuses a dropped row")
@pytest.mark.parametrize("model", [Checkpoint, Message])
def test_load_notices_what_was_dropped_from_a_save(open_checkpointer: Open, model: type[models.Model]) -> None:
    cp = start_session(open_checkpointer())
    with trigger_that_drops_inserts(model), suppress(IntegrityError):
        save(cp)
    with pytest.raises((IntegrityError, CheckpointCorrupted)):
        open_checkpointer().load_latest("s")


@contextmanager
def view_in_place_of_decisions() -> Iterator[None]:
    """Let a view stand in the place of the table of decisions, which stores what is inserted, and returns no key."""
    columns = [str(field.column) for field in Decision._meta.concrete_fields]
    names, values = ", ".join(columns), ", ".join(f"NEW.{column}" for column in columns)
    insert = f"INSERT INTO real_decision ({names}) VALUES ({values});"  # noqa: S608 - names of a model
    run_sql(
        "PRAGMA legacy_alter_table = ON",
        "ALTER TABLE checkpoints_decision RENAME TO real_decision",
        "CREATE VIEW checkpoints_decision AS SELECT * FROM real_decision",
        f"CREATE TRIGGER inserts INSTEAD OF INSERT ON checkpoints_decision BEGIN {insert} END",
    )
    try:
        yield
    finally:
        run_sql(
            "DROP VIEW checkpoints_decision",
            "ALTER TABLE real_decision RENAME TO checkpoints_decision",
            "PRAGMA legacy_alter_table = OFF",
        )


@pytest.mark.skipif(connection.vendor == "postgresql", reason="on PostgreSQL the trigger of a view returns the key")
def test_view_in_place_of_a_table_is_a_typed_error(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    with suppress(ApprovalRequired):
        make_registry(cp, paid, requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    with view_in_place_of_decisions(), pytest.raises(RowNotStored, match="a view in its place"):
        approve(cp)
    assert plain(ToolCall).get().status == "awaiting_approval"
    assert not plain(Decision).exists()
