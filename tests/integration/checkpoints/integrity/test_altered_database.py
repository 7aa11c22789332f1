"""A database that hides rows, counts keys backwards or changes what is written gives no approval and no second run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, IntegrityError
from checkpoints.framework_states import state_store
from checkpoints.framework_states.state_store import NewState
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.session_setups import conversation, start_session


def make_registry(cp: SyncCheckpointer, paid: list[int], **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    def pay(order: int) -> str:
        paid.append(order)
        return f"paid {order}"

    registry.tool(side_effects={"mutate"}, **options)(pay)
    return registry


def run_sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def trigger_that_sets(model: type[models.Model], event: str, assignment: str) -> Iterator[None]:
    """Let the database set a column of each row of a table that is written."""
    table = model._meta.db_table
    if connection.vendor == "sqlite":
        change = f"UPDATE {table} SET {assignment} WHERE id = NEW.id;"  # noqa: S608 - literals of this file
        run_sql(f"CREATE TRIGGER alters AFTER {event} ON {table} BEGIN {change} END")
        drop = ["DROP TRIGGER alters"]
    else:
        body = f"BEGIN NEW.{assignment}; RETURN NEW; END"
        run_sql(
            f"CREATE FUNCTION alter_row() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
            f"CREATE TRIGGER alters BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION alter_row()",
        )
        drop = [f"DROP TRIGGER alters ON {table}", "DROP FUNCTION alter_row"]
    try:
        yield
    finally:
        run_sql(*drop)


@contextmanager
def keys_of_live_calls_may_repeat() -> Iterator[None]:
    unique = [one for one in ToolCall._meta.constraints if one.name.startswith("one_live_call")]
    with connection.schema_editor() as editor:
        for constraint in unique:
            editor.remove_constraint(ToolCall, constraint)
    try:
        yield
    finally:
        for model in (Decision, ToolCall):
            plain(model).all()._raw_delete("default")
        with connection.schema_editor() as editor:
            for constraint in unique:
                editor.add_constraint(ToolCall, constraint)


def hide_live_calls_from_lookups(execute: Callable[..., Any], sql: str, parameters: Any, *more: Any) -> Any:
    """Mark calls as failed before each statement that looks a key up, and put them back after it."""
    if not (sql.startswith("SELECT") and '"idempotency_key" = %s' in sql):
        return execute(sql, parameters, *more)
    run_sql("UPDATE checkpoints_toolcall SET status = 'failed' WHERE status = 'completed'")
    found = execute(sql, parameters, *more)
    run_sql("UPDATE checkpoints_toolcall SET status = 'completed' WHERE status = 'failed'")
    return found


@pytest.mark.parametrize("options", [{}, {"requires_approval": True}], ids=["at once", "after an approval"])
def test_call_that_is_hidden_from_lookups_alone_does_not_run_again(
    open_checkpointer: Open, witness: Path, options: dict[str, Any]
) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    registry = make_registry(cp, paid, **options)
    with suppress(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    if options:
        cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)
        registry.dispatch("pay", {"order": 17}, "call_1")
    with keys_of_live_calls_may_repeat():
        with connection.execute_wrapper(hide_live_calls_from_lookups), pytest.raises(IntegrityError, match="lookup"):
            registry.dispatch("pay", {"order": 17}, "call_2")
        assert paid == [17]
        assert plain(ToolCall).count() == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="keys of SQLite cannot count backwards")
def test_vote_that_was_withdrawn_does_not_count_if_keys_of_decisions_count_backwards(open_checkpointer: Open) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    with suppress(ApprovalRequired):
        make_registry(cp, paid, requires_approval=True, approvals=2).dispatch("pay", {"order": 17}, "call_1")
    acts = [(cp.approve_call, "alice", 3000), (cp.withdraw_decision, "alice", 2000), (cp.approve_call, "bob", 1000)]
    for revision, (act, actor, key) in enumerate(acts, 1):
        run_sql(f"SELECT setval(pg_get_serial_sequence('checkpoints_decision', 'id'), {key})")
        act("s", "call_1", actor=actor, reason="I looked.", revision=revision)
    assert list(plain(Decision).order_by("-pk").values_list("actor", "final")) == [
        ("alice", False),
        ("alice", False),
        ("bob", False),
    ]
    assert plain(ToolCall).get().status == "awaiting_approval"


@pytest.mark.parametrize(
    ("model", "event", "assignment"),
    [
        (Decision, "INSERT", "actor = 'mallory'"),
        (Decision, "INSERT", "reason = 'another'"),
        (Decision, "INSERT", "created_at = '2025-01-01 00:00:00'"),
        (ToolCall, "UPDATE", "status = 'failed'"),
        (ToolCall, "UPDATE", "sentence = 'another'"),
        (Session, "UPDATE", "status = 'completed'"),
    ],
)
def test_what_the_database_makes_of_a_decision_gets_no_seal(
    open_checkpointer: Open, model: type[models.Model], event: str, assignment: str
) -> None:
    cp = start_session(open_checkpointer())
    with suppress(ApprovalRequired):
        make_registry(cp, [], requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    with trigger_that_sets(model, event, assignment), pytest.raises(IntegrityError) as caught:
        cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)
    assert caught.value.table == model._meta.db_table
    assert plain(ToolCall).get().status == "awaiting_approval"
    assert not plain(Decision).exists()
    assert AuditEvent.objects.filter(kind="decided").count() == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoints_toolcall SET result = '\"forged\"'",
        "UPDATE checkpoints_toolcall SET status = 'failed'",
        "UPDATE checkpoints_toolcall SET tool = 'mail'",
        "DELETE FROM checkpoints_toolcall",
    ],
)
def test_call_that_is_altered_while_a_fork_copies_it_gets_no_seal(open_checkpointer: Open, statement: str) -> None:
    cp = start_session(open_checkpointer())
    make_registry(cp, []).dispatch("pay", {"order": 17}, "call_1")
    cp.save_checkpoint("s", conversation("ab"), {}, 0)

    def alter_calls_before_they_are_copied(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if sql.startswith("INSERT INTO") and "checkpoints_toolcall" in sql and "SELECT" in sql:
            run_sql(statement)
        return execute(sql, *more)

    with (
        connection.execute_wrapper(alter_calls_before_they_are_copied),
        pytest.raises(IntegrityError, match="while a fork copied it"),
    ):
        cp.fork_session("s", "fork")
    assert not plain(Session).filter(session_id="fork").exists()


@contextmanager
def names_of_sessions_are_compared_in_any_case() -> Iterator[None]:
    if connection.vendor == "sqlite":
        with collation_in_schema("NOT NULL COLLATE NOCASE"):
            yield
        return
    column = "ALTER TABLE checkpoints_session ALTER COLUMN session_id TYPE varchar(255) COLLATE"
    run_sql(
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"{column} any_case",
    )
    try:
        yield
    finally:
        run_sql(f'{column} "default"', "DROP COLLATION any_case")


@contextmanager
def collation_in_schema(wanted: str) -> Iterator[None]:
    """Let SQLite compare names of sessions with another collation, by its own table of the schema."""

    def replace(before: str, after: str) -> None:
        column = '"session_id" varchar(255) '
        run_sql(
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_schema SET sql = replace(sql, '{column}{before}', '{column}{after}') "  # noqa: S608
            "WHERE name = 'checkpoints_session'",
            "PRAGMA writable_schema = RESET",
            "REINDEX",
        )

    replace("NOT NULL", wanted)
    try:
        yield
    finally:
        replace(wanted, "NOT NULL")


READS: dict[str, Callable[[SyncCheckpointer], object]] = {
    "resume": lambda cp: cp.resume("s"),
    "list_checkpoints": lambda cp: cp.list_checkpoints("s"),
    "load_latest": lambda cp: cp.load_latest("s"),
    "load": lambda cp: cp.load("s", 1),
    "messages": lambda cp: cp.messages("s"),
    "messages of a version": lambda cp: cp.messages("s", version=1),
    "state": lambda cp: state_store.load_state(cp.store, "s", "", None),
    "states": lambda cp: list(state_store.iterate_states(cp.store, "s")),
}


@pytest.mark.parametrize("read", READS)
def test_session_with_another_name_is_not_read_if_the_database_compares_names_in_another_way(
    open_checkpointer: Open, read: str
) -> None:
    cp = start_session(start_session(open_checkpointer(), "S"))
    cp.save_checkpoint("S", conversation("ab"), {}, 0)
    state = NewState("", "1", "", "run", ("json", b"{}"), ("json", b"{}"), {"a": 1}, {"a": ("json", b"1")}, ["a"])
    state_store.save_state_and_transcript_version(cp.store, "S", state)
    cp.close()
    plain(Session).filter(session_id="s").update(session_id="away")
    with names_of_sessions_are_compared_in_any_case(), pytest.raises(IntegrityError, match="lookup of 's'"):
        READS[read](open_checkpointer())
