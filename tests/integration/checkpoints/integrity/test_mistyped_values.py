"""Values of another type than their column, which SQLite stores: each is found by its table, row and column."""

from __future__ import annotations

import gc
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from io import StringIO
from typing import Any, TypeAlias

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, models, transaction
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointCorrupted, CheckpointsError, IntegrityError, QuarantineStays
from checkpoints.framework_states import state_store
from checkpoints.framework_states.state_store import NewState
from checkpoints.integrity import mistyped_values, quarantine, verify_and_quarantine_sessions
from checkpoints.integrity.verify_session_rows import VerificationCounts
from checkpoints.models import (
    AuditEvent,
    Blob,
    Checkpoint,
    Decision,
    FrameworkState,
    LateResult,
    Message,
    PeerCall,
    Segment,
    Session,
    ToolCall,
)
from checkpoints.versions.version_seals_and_transcript_verification import verified_transcripts
from harness_site.accounts.models import TokenRole
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, create_sealed_session, plain
from tests.integration.checkpoints.session_setups import conversation, interrupt_call, start_session
from tests.support.api_client import make_token
from tests.support.exhaustive_mode import EXHAUSTIVE, choose_each, mark_all_but_each
from tests.support.factories import make_call, make_checkpoint, make_session, make_user
from tests.support.page_text import visible_text

Column: TypeAlias = "tuple[type[models.Model], models.Field[Any, Any]]"
on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL stores no other type than the column's"
)


def store_value(model: type[models.Model], column: str | None, value: Any, pk: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'UPDATE {model._meta.db_table} SET "{column}" = %s WHERE id = %s', [value, pk])  # noqa: S608


@contextmanager
def unchecked_keys() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
    yield
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = ON")


def list_other_values(field: models.Field[Any, Any]) -> list[Any]:
    """List values that SQLite stores in the column of a field as they are, and that are none of it."""
    kind = (field.rel_db_type(connection) or "").split("(")[0]
    if kind in {"varchar", "text"}:
        return [b"\xff\x00"]
    if kind == "BLOB":
        return ["text", 5, 1.5]
    return ["text", b"\xff\x00"] if kind in {"bool", "decimal"} else ["text", b"\xff\x00", 1.5]


def list_columns() -> list[Column]:
    return [
        (model, field)
        for model in SEALED_TABLES
        for field in model._meta.concrete_fields
        if not field.primary_key and (model is Session or field.name != "session")
    ]


def list_columns_of_each_type(
    tables: Collection[type[models.Model]] = SEALED_TABLES,
) -> Collection[Column]:
    """List one column of each type in each table, or in an exhaustive run all columns."""
    columns = [(model, field) for model, field in list_columns() if model in tables]
    return columns if EXHAUSTIVE else {(of, field.get_internal_type()): (of, field) for of, field in columns}.values()


def choose_share(columns: Iterable[Column], uses: Iterable[str], use: str, *, divisor: int) -> list[Column]:
    """Choose the columns to try with a use: each with one of `divisor` uses, in an exhaustive run with all."""
    return list(columns) if EXHAUSTIVE else list(columns)[list(uses).index(use) % divisor :: divisor]


def find_last_row(model: type[models.Model], session_pk: int) -> Any:
    rows = plain(model).filter(pk=session_pk) if model is Session else plain(model).filter(session=session_pk)
    return rows.order_by("pk").values_list("pk", flat=True).last()


@pytest.fixture(scope="module")
def rows() -> Iterator[sqlite3.Connection]:
    """Copy in memory of the database with the rows of the session, which the first test creates for all."""
    with closing(sqlite3.connect(":memory:")) as rows:
        yield rows


class Setup:
    """Session with a row in every sealed table, and its database, which can be put back."""

    def __init__(
        self, open_checkpointer: Open, client: Client, rows: sqlite3.Connection, kept: sqlite3.Connection
    ) -> None:
        self.open, self.client, self.kept = open_checkpointer, client, kept
        if rows.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            self._create_rows()
            connection.connection.backup(rows)
        rows.backup(connection.connection)
        self.pk: int = Session.objects.get(session_id="s").pk
        self.call = find_last_row(ToolCall, self.pk)
        self.cp = open_checkpointer()
        client.force_login(make_user())
        self.token = make_token(TokenRole.AGENT)
        connection.connection.backup(kept)

    def _create_rows(self) -> None:
        opened: list[SyncCheckpointer] = []

        def open_and_remember() -> SyncCheckpointer:
            opened.append(self.open())
            return opened[-1]

        create_sealed_session(open_and_remember, "s")
        for checkpointer in opened:
            checkpointer.close()  # else its heartbeat writes the session's row while that is altered

    def put_back(self) -> None:
        self.kept.backup(connection.connection)
        verified_transcripts.clear()


@pytest.fixture
def setup(open_checkpointer: Open, client: Client, rows: sqlite3.Connection) -> Iterator[Setup]:
    with closing(sqlite3.connect(":memory:")) as kept, unchecked_keys():
        yield Setup(open_checkpointer, client, rows, kept)
    gc.collect()  # queries that an error ended are freed while their database is open


@on_sqlite
def test_rows_of_the_library_have_the_types_of_their_columns(setup: Setup) -> None:
    pks = list(Session.objects.values_list("pk", flat=True))
    assert list(mistyped_values.iterate_mistyped_values_of_sessions("default", pks)) == []


@on_sqlite
@pytest.mark.parametrize("time", ["2026-12-31 23:59:59.999999", "2026-12-31 23:59:59.9995", "2028-02-29 00:00:00"])
def test_time_at_the_end_of_a_second_is_a_time(setup: Setup, time: str) -> None:
    for model, field in list_columns():
        if isinstance(field, models.DateTimeField):
            store_value(model, field.column, time, find_last_row(model, setup.pk))
    assert list(mistyped_values.iterate_mistyped_values_of_sessions("default", [setup.pk])) == []


@on_sqlite
@pytest.mark.parametrize("model", mark_all_but_each(4, SEALED_TABLES), ids=lambda model: model.__name__)
def test_value_of_another_type_is_found_in_every_column(setup: Setup, model: type[models.Model]) -> None:
    row, fields = find_last_row(model, setup.pk), [field for of, field in list_columns() if of is model]
    for field in fields:
        with transaction.atomic():
            store_value(model, field.column, list_other_values(field)[0], row)
            found = list(mistyped_values.iterate_mistyped_values_of_sessions("default", [setup.pk]))
            transaction.set_rollback(True)
        assert [(each.table, each.row, each.column) for each in found] == [
            (model._meta.db_table, str(row), field.column)
        ]
    assert fields


@on_sqlite
@pytest.mark.parametrize("model", mark_all_but_each(4, SEALED_TABLES, first=2), ids=lambda model: model.__name__)
def test_value_of_another_type_is_a_problem_of_its_column(setup: Setup, model: type[models.Model]) -> None:
    """One column of each type with one value, or in an exhaustive run each column with each value."""
    row, tried = find_last_row(model, setup.pk), 0
    for number, (_, field) in enumerate(list_columns_of_each_type([model])):
        values = list_other_values(field)
        for value in values if EXHAUSTIVE else [values[number % len(values)]]:
            store_value(model, field.column, value, row)
            checked = verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_unreadable(
                "default", [setup.pk], VerificationCounts()
            )
            found = [(problem.table, problem.row, problem.why) for each in checked for problem in each.problems]
            assert len(found) == 1, (field.column, value, found)
            assert found[0][:2] == (model._meta.db_table, str(row))
            assert f"its column {field.column} holds" in found[0][2]
            assert plain(Session).filter(pk=setup.pk, quarantined_at__isnull=False).exists()
            setup.put_back()
            tried += 1
    assert tried


def resume_and_close(setup: Setup) -> None:
    with closing(setup.open()) as cp:
        cp.resume("s")


READS: dict[str, Callable[[Setup], Any]] = {
    "load_latest": lambda setup: setup.cp.load_latest("s"),
    "resume": resume_and_close,
}


def request_api(setup: Setup, path: str) -> None:
    response = setup.client.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {setup.token}"})
    if response.headers["Content-Type"] == "application/problem+json" and response.json()["type"] == "ServerFailed":
        raise RuntimeError(response.json())


#: Reads of any sessions, and work on one that is not a resume.
OTHER_USES: dict[str, Callable[[Setup], Any]] = {
    "list_sessions": lambda setup: setup.cp.list_sessions(),
    "list_paused": lambda setup: setup.cp.list_paused(),
    "peer_calls": lambda setup: setup.cp.peer_calls("s"),
    "accept_response": lambda setup: setup.cp.accept_response("s p2", {"left": 0}),
    "find_completed_call": lambda setup: setup.cp.find_completed_call("key 1 s"),
    "prune": lambda setup: setup.cp.prune("s", keep_last=1, dry_run=True),
    "page of sessions": lambda setup: setup.client.get("/sessions/"),
    "export over HTTP": lambda setup: request_api(setup, "sessions/s/export"),
    "workflows over HTTP": lambda setup: request_api(setup, "sessions/s/workflows"),
}
#: Pages, and the tables that each of them shows.
PAGES: dict[str, tuple[Callable[[Setup], Any], list[type[models.Model]]]] = {
    "session": (
        lambda setup: setup.client.get(f"/sessions/{setup.pk}/"),
        [Session, Segment, Message, Checkpoint, ToolCall],
    ),
    "card": (
        lambda setup: setup.client.get(f"/review/calls/{setup.call}/"),
        [Session, ToolCall, Decision, LateResult],
    ),
}


def list_errors_of_python(setup: Setup, use: Callable[[Setup], Any], columns: Iterable[tuple[Any, Any]]) -> list[str]:
    """Use the session with a value of another type in each of the columns. Returns the errors that are not typed."""
    untyped = []
    for model, field in columns:
        value = list_other_values(field)[0]
        store_value(model, field.column, value, find_last_row(model, setup.pk))
        try:
            use(setup)
        except CheckpointsError:
            pass
        except Exception as error:
            untyped.append(f"{model.__name__}.{field.column} = {value!r}: {error!r}")
        setup.put_back()
    return untyped


@on_sqlite
@pytest.mark.parametrize("use", READS)
def test_library_raises_no_error_of_python(setup: Setup, use: str) -> None:
    columns = choose_share(list_columns_of_each_type(), READS, use, divisor=10)
    assert list_errors_of_python(setup, READS[use], columns) == []


@on_sqlite
@pytest.mark.parametrize("use", mark_all_but_each(3, OTHER_USES))
def test_other_use_raises_no_error_of_python(setup: Setup, use: str) -> None:
    """The tables that most of this reads."""
    columns = list_columns_of_each_type([Session, Checkpoint, ToolCall, PeerCall])
    shared = choose_share(columns, OTHER_USES, use, divisor=6)
    assert list_errors_of_python(setup, OTHER_USES[use], shared) == []


@on_sqlite
@pytest.mark.parametrize("page", mark_all_but_each(2, PAGES))
def test_page_raises_no_error_of_python(setup: Setup, page: str) -> None:
    show, tables = PAGES[page]
    columns = list_columns_of_each_type(SEALED_TABLES if EXHAUSTIVE else tables)
    assert list_errors_of_python(setup, show, choose_each(4, [*columns])) == []


@on_sqlite
@pytest.mark.parametrize("origin", [2**62, "text"])
def test_origin_that_is_no_session_is_not_linked(setup: Setup, origin: Any) -> None:
    store_value(Session, "forked_from_id", origin, setup.pk)
    page = setup.client.get(f"/sessions/{setup.pk}/")
    assert page.status_code == 200
    assert "Forked from" not in page.content.decode()


@on_sqlite
def test_session_that_cannot_be_read_hides_no_other_session(open_checkpointer: Open) -> None:
    for name in ("s", "t", "u"):
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    with unchecked_keys():
        store_value(Session, "owner_id", "text", Session.objects.get(session_id="s").pk)
    plain(Message).filter(session__session_id="u", position=1).update(role="system")
    err = StringIO()
    with pytest.raises(CommandError, match="did not write"):
        call_command("verify_integrity", "--all", stdout=StringIO(), stderr=err)
    assert re.search("s: row [0-9]+ of checkpoints_session: its column owner_id holds a text", err.getvalue())
    assert "u: row" in err.getvalue()
    assert "t: row" not in err.getvalue()
    marked = plain(Session).filter(quarantined_at__isnull=False).order_by("pk")
    assert list(marked.values_list("session_id", flat=True)) == ["s", "u"]
    assert AuditEvent.objects.filter(kind="session_quarantined").count() == 2


@on_sqlite
def test_value_of_another_type_is_named_and_its_session_is_not_released(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    store_value(Checkpoint, "created_at", "yesterday", Checkpoint.objects.get().pk)
    with pytest.raises(IntegrityError, match="its column created_at holds a text") as caught:
        cp.load_latest("s")
    assert caught.value.table == "checkpoints_checkpoint"
    assert quarantine.parse_quarantine_of_row(plain(Session).get()) is not None
    with pytest.raises(QuarantineStays):
        quarantine.release_quarantine(cp.store, "s", actor="alice", reason="Seen.", accept_altered=True)


@on_sqlite
@pytest.mark.parametrize("value", ["2026-02-30 00:00:00", "now", "0000-01-01 00:00:00", "2026-01-01 00:00:00.1x"])
def test_text_that_is_no_time_is_found(open_checkpointer: Open, value: str) -> None:
    start_session(open_checkpointer()).save_checkpoint("s", conversation("abc"), {}, 0)
    store_value(Checkpoint, "created_at", value, Checkpoint.objects.get().pk)
    assert mistyped_values.find_first_mistyped_value_of_session("default", Session.objects.get().pk) is not None


@on_sqlite
def test_value_of_another_type_is_a_damaged_record_without_seals(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    cp: SyncCheckpointer = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    store_value(Checkpoint, "created_at", "text", Checkpoint.objects.get().pk)
    with pytest.raises(CheckpointCorrupted, match=r"row \d+ of checkpoints_checkpoint.*its column created_at holds a"):
        cp.load_latest("s")
    assert Session.objects.get().quarantined_at is None


@on_sqlite
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("model", "column", "value"), [(ToolCall, "issued_at", "{}"), (Checkpoint, "run_id", b"\x01\xff")]
)
def test_page_with_a_value_of_another_type_says_so_without_seals(
    client: Client, settings: Any, model: type[models.Model], column: str, value: Any
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    client.force_login(make_user())
    session = make_session(session_id="s")
    make_call(session=session)
    make_checkpoint(session=session)
    before = plain(model).values_list(column, flat=True).get()
    store_value(model, column, value, plain(model).get().pk)
    response = client.get(f"/sessions/{session.pk}/timeline/")
    assert response.status_code == 409
    assert "A record of the session “s” is damaged." in visible_text(response)
    plain(model).update(**{column: before})  # the test ends with a check of foreign keys


@on_sqlite
def test_call_of_another_type_at_the_gate_is_a_damaged_record_without_seals(
    open_checkpointer: Open, settings: Any
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    with start_session(open_checkpointer()) as cp:
        cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    store_value(ToolCall, "issued_at", "{}", ToolCall.objects.get().pk)
    with pytest.raises(CheckpointCorrupted, match=r"row \d+ of checkpoints_toolcall.*its column issued_at holds a"):
        open_checkpointer().resume("s")


@on_sqlite
@pytest.mark.parametrize("key", ["", KEY], ids=["unsealed", "sealed"])
@pytest.mark.parametrize(
    ("model", "column", "value"),
    [(FrameworkState, "metadata", 1.5), (Blob, "content", "text"), (Blob, "content", 2**62), (Blob, "type", 5)],
)
def test_state_of_a_framework_with_a_value_of_another_type_raises_a_typed_error(
    open_checkpointer: Open, settings: Any, key: str, model: type[models.Model], column: str, value: Any
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = key, None
    cp = start_session(open_checkpointer())
    content = ("json", b'"a long text"' * 50)
    state = NewState("", "1", "", "run", ("json", b"{}"), ("json", b"{}"), {"a": 1}, {"a": content}, ["a"])
    state_store.save_state_and_transcript_version(cp.store, "s", state)
    store_value(model, column, value, model._default_manager.get().pk)
    for read in (
        lambda: state_store.load_state(cp.store, "s", "", None),
        lambda: list(state_store.iterate_states(cp.store, "s")),
        lambda: list(state_store.iterate_states(cp.store)),
    ):
        with pytest.raises((IntegrityError, CheckpointCorrupted)):
            read()


@on_sqlite
def test_error_of_a_caller_is_raised_as_it_is(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    with pytest.raises(TypeError, match="of the caller"), quarantine.quarantine_on_integrity_error(cp.store, "s"):
        raise TypeError("of the caller")


@on_sqlite
@pytest.mark.parametrize(
    ("page", "model", "column"),
    [
        ("/sessions/", Session, "owner_id"),
        ("/sessions/", Session, "created_at"),
        ("/sessions/?sort=cost", Session, "budget_spent_usd"),
        ("/sessions/", Session, "agent"),
        ("/calls/", ToolCall, "decide_within"),
        ("/calls/", Decision, "created_at"),
        ("/review/", ToolCall, "decide_within"),
    ],
)
def test_list_shows_the_other_rows_and_leads_to_what_was_found(
    open_checkpointer: Open, client: Client, page: str, model: type[models.Model], column: str
) -> None:
    for name in ("altered", "intact"):
        cp, call = interrupt_call(start_session(open_checkpointer(), name), open_checkpointer, name, f"{name} 1")
        cp.mark_failed(name, f"{name} 1", actor="alice", reason="Seen.", revision=call["revision"])
        interrupt_call(cp, open_checkpointer, name, f"{name} 2")
    session = Session.objects.get(session_id="altered")
    client.force_login(make_user())
    with unchecked_keys():
        store_value(model, column, b"\xff\x00", find_last_row(model, session.pk))
    response = client.get(page)
    text = response.content.decode()
    assert response.status_code == 200
    assert f"/sessions/{session.pk}/quarantine/" in text
    assert "intact" in text
    assert [*plain(Session).filter(quarantined_at__isnull=False).values_list("session_id", flat=True)] == ["altered"]
    assert client.get(f"/sessions/{session.pk}/quarantine/").status_code in {200, 409}


def replace_in_schema(table: str, before: str, after: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA writable_schema = ON")
        cursor.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, %s, %s) WHERE type = 'table' AND name = %s",
            [before, after, table],
        )
        cursor.execute("PRAGMA writable_schema = RESET")


@on_sqlite
def test_empty_column_that_may_not_be_empty_is_a_typed_error(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).release_session("s")
    column = '"fence" bigint'
    replace_in_schema("checkpoints_session", f"{column} DEFAULT 0 NOT NULL", f"{column} DEFAULT 0")
    try:
        store_value(Session, "fence", None, Session.objects.get().pk)
        with pytest.raises(IntegrityError, match="its column fence is empty, and has to have a value"):
            open_checkpointer().resume("s")
    finally:
        store_value(Session, "fence", 1, Session.objects.get().pk)
        replace_in_schema("checkpoints_session", f"{column} DEFAULT 0", f"{column} DEFAULT 0 NOT NULL")
