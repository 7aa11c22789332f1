"""Hot statements, written in SQL: save, issue, settle.

The ORM's overhead would be measurable in them. Table and column names, and the conversion of every value, come from the
models' metadata. On PostgreSQL each is one statement, and therefore one round trip and one transaction; on SQLite,
which has no data-modifying WITH, the same steps run in one IMMEDIATE transaction. Every write names the owner's
fence in its WHERE clause and reports an empty result if the fence no longer holds. Each is done under the guard of its
caller, if there is one (`authenticated_idempotent_write_guard`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from checkpoints import call_transitions_by_agent_or_system
from checkpoints.db import authenticated_idempotent_write_guard, postgresql_binary_arrays
from checkpoints.db.authenticated_idempotent_write_guard import GuardSql, WriteGuard
from checkpoints.db.sql_names_and_values import (
    build_insert_sql,
    convert_values,
    convert_values_of_fields,
    make_placeholders,
    quote_column,
    quote_columns,
    quote_table,
)
from checkpoints.enums import DISPATCHABLE_SESSION_STATUSES, SETTLED_CALL_STATUSES, CallStatus, SessionStatus
from checkpoints.exceptions import RowNotStored
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from checkpoints.models.packed_fields import PACKED_FIELDS
from checkpoints.seals.session_heads import WRITTEN_FIELDS, SessionHead

NOW_SQL = {"postgresql": "STATEMENT_TIMESTAMP()", "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"}
#: More messages than these are written by a separate statement: a statement takes at most 65,535 parameters.
_MAX_INLINE_MESSAGES = 64


class NewMessage(NamedTuple):
    """Columns of a message that its save gives, in the order of the statements' parameters."""

    position: int
    message_id: str
    role: str
    created_at: datetime
    body: str
    chain: bytes


class AnsweredCall(NamedTuple):
    """Call whose result is in a new version. With a seal, it is the one of the call at `revision`, once answered."""

    pk: int
    revision: int | None = None
    row_seal: bytes | None = None


class NewVersion(NamedTuple):
    """Version with its new messages, its columns, the calls that it answers, and the seals of the messages, if sealing
    is on."""

    messages: Sequence[NewMessage]
    checkpoint_values: Mapping[str, Any]
    answered: Sequence[AnsweredCall] = ()
    message_seals: Sequence[bytes | None] = ()


class NewRows(NamedTuple):
    """Rows of a session that a statement inserts beside its own: values of fields without the session.

    `on_conflict` is SQL that says what happens to a row that exists already; without it that is an error.
    """

    model: type[models.Model]
    fields: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    on_conflict: str = ""


class ChangedRow(NamedTuple):
    """Row of a session that a statement changes beside its own: values of fields that say which one, and new ones."""

    model: type[models.Model]
    place: Mapping[str, Any]
    changes: Mapping[str, Any]


_MESSAGE_FIELDS = (*NewMessage._fields, "row_seal")


@dataclass(frozen=True)
class SaveBase:
    """Expected state of the session that a save starts from."""

    session_pk: int
    fence: int
    segment_id: int
    length: int
    chain: bytes
    version: int


def build_session_change_assignments_sql(vendor: str, table: str = "") -> str:
    """SQL of the columns that every write changes on the session, so that its pages refresh."""
    return f"{_build_revision_increment_sql(table)}, {_quote_session_column('updated_at')} = {NOW_SQL[vendor]}"


@cache
def _build_assignments_with_throttled_time_sql() -> str:
    """SQL of the same columns for a client that saves to one session several times a second, on PostgreSQL.

    The time is written once a second. A row whose indexed columns stay as they are gets no new entries in the indexes
    of the table, and its former place in the page is used again without a vacuum.
    """
    time = _quote_session_column("updated_at")
    now = NOW_SQL["postgresql"]
    return (
        f"{_build_revision_increment_sql()}, "
        f"{time} = CASE WHEN {time} BETWEEN {now} - INTERVAL '1 second' AND {now} THEN {time} ELSE {now} END"
    )


def _build_revision_increment_sql(table: str = "") -> str:
    stored = f"{table}.{_quote_session_column('revision')}" if table else _quote_session_column("revision")
    return f"{_quote_session_column('revision')} = {stored} + 1"


def mark_session_changed(connection: BaseDatabaseWrapper, session_pk: int) -> None:
    """Change the columns of a session by which its pages notice a change."""
    with connection.cursor() as cursor:
        cursor.execute(_build_mark_session_changed_sql(connection.vendor), [session_pk])


@cache
def _build_mark_session_changed_sql(vendor: str) -> str:
    changes = build_session_change_assignments_sql(vendor)
    return f"UPDATE {quote_table(Session)} SET {changes} WHERE {_quote_session_column('id')} = %s"


def _quote_session_column(field: str) -> str:
    return quote_column(Session, field)


def _quote_call_column(field: str) -> str:
    return quote_column(ToolCall, field)


# save


def save_versions_if_session_unchanged(
    connection: BaseDatabaseWrapper,
    base: SaveBase,
    session_values: Mapping[str, Any],
    versions: Sequence[NewVersion],
    head: SessionHead | None = None,
    *,
    revision: int | None = None,
    additional_rows: Sequence[NewRows | ChangedRow] = (),
) -> int | None:
    """Append versions and their messages to the segment of `base`, and move the session's head.

    `session_values` are the columns of the session after the last one; without `updated_at`, that is the database's
    time. Calls that a version answers are marked with it, those that are settled and that no version has answered
    before. On PostgreSQL, one version of a session with a known `revision`, and without a seal, may have other rows
    beside it.

    Returns the last version, or None if the session is not as `base` says (fence, head or version), or has another seal
    than `head` says.
    """
    expected = {
        "id": base.session_pk,
        "fence": base.fence,
        "head_segment": base.segment_id,
        "message_count": base.length,
        "head_chain": base.chain,
        "latest_version": base.version,
    }
    if head is not None:
        session_values, expected["row_seal"] = {**session_values, **head.written}, head.replaced_seal
    if revision is not None:
        expected["revision"], expected["row_seal"] = revision, None
    known = {field: value for field, value in expected.items() if value is not None}
    empty = tuple(field for field in expected if field not in known)
    guard = authenticated_idempotent_write_guard.find_guard_of_next_write(connection)
    is_short = len(versions) == 1 and len(versions[0].messages) <= _MAX_INLINE_MESSAGES
    is_one_statement = connection.vendor == "postgresql" and is_short
    if additional_rows and not is_one_statement:
        raise ValueError("Rows are written beside one version, on PostgreSQL.")
    head_move = _HeadMove(
        connection.vendor,
        tuple(session_values),
        tuple(known),
        empty,
        len(versions),
        is_guarded=is_one_statement and guard is not None,
    )
    params = [*convert_values(connection, Session, session_values), *convert_values(connection, Session, known)]
    if is_one_statement:
        return _save_versions_in_one_statement(connection, head_move, params, versions[0], additional_rows, guard)
    return _save_versions_in_several_statements(connection, head_move, params, base, versions, guard)


def _save_versions_in_one_statement(
    connection: BaseDatabaseWrapper,
    head_move: _HeadMove,
    params: list[Any],
    version: NewVersion,
    additional_rows: Sequence[NewRows | ChangedRow],
    guard: WriteGuard | None,
) -> int | None:
    messages, checkpoint_values, answered, message_seals = version
    if messages:
        params.append(checkpoint_values["segment"])
        if message_seals:
            for message, seal in zip(messages, message_seals, strict=True):
                params += (*message, seal)
        else:
            for message in messages:
                params += message
    if answered:
        params += [*(list(column) for column in zip(*answered, strict=True)), *_SETTLED_STATUSES]
    params += _list_params_of_additional_rows(connection, additional_rows)
    params += convert_values(connection, Checkpoint, checkpoint_values)
    sql = _build_save_version_sql(
        head_move,
        len(messages),
        bool(message_seals),
        tuple(checkpoint_values),
        bool(answered),
        _list_sql_shapes_of_additional_rows(additional_rows),
        None if guard is None else guard.sql,
    )
    row = _execute_and_fetch_row(connection, guard, sql, params)
    return row[0] if row else None


def _execute_and_fetch_row(
    connection: BaseDatabaseWrapper,
    guard: WriteGuard | None,
    sql: str,
    params: Sequence[Any],
    *,
    issues_call: bool = False,
) -> Any:
    """Execute a statement, which is wrapped if there is a guard. Returns its row as a tuple, or None."""
    if guard is not None:
        return guard.execute_wrapped_statement(connection, sql, params, issues_call=issues_call)
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()


def _save_versions_in_several_statements(
    connection: BaseDatabaseWrapper,
    head_move: _HeadMove,
    params: list[Any],
    base: SaveBase,
    versions: Sequence[NewVersion],
    guard: WriteGuard | None,
) -> int | None:
    answered = [
        [number, row_seal, pk, revision, revision, base.session_pk, *_SETTLED_STATUSES]
        for number, version in enumerate(versions, base.version + 1)
        for pk, revision, row_seal in version.answered
    ]
    with authenticated_idempotent_write_guard.open_write_transaction_with_optional_guard(connection, guard) as cursor:
        cursor.execute(_build_move_session_head_sql(head_move), params)
        row = cursor.fetchone()
        if row is None:
            authenticated_idempotent_write_guard.raise_refused_if_guarded(guard)
            return None
        insert_versions_and_messages(connection, cursor, [(base, versions)])
        if answered:
            cursor.executemany(_build_mark_calls_answered_sql(), answered)
    return int(row[1])


def insert_versions_and_messages(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper, versions: Sequence[tuple[SaveBase, Sequence[NewVersion]]]
) -> None:
    """Insert versions of sessions with their messages, and change nothing else: neither the sessions nor the calls that
    the versions answer.

    All versions have the same columns.
    """
    messages, checkpoints = [], []
    for base, versions_of_session in versions:
        for number, version in enumerate(versions_of_session, base.version + 1):
            keys = [base.session_pk, version.checkpoint_values["segment"]]
            messages += [
                [*keys, *convert_values_of_fields(connection, Message, _MESSAGE_FIELDS, (*message, seal))]
                for message, seal in zip(
                    version.messages, version.message_seals or [None] * len(version.messages), strict=True
                )
            ]
            columns = convert_values(connection, Checkpoint, version.checkpoint_values)
            checkpoints.append([base.session_pk, number, *columns])
    bulk_insert_converted_rows(connection, cursor, Message, ("session", "segment", *_MESSAGE_FIELDS), messages)
    fields = ("session", "version", *versions[0][1][0].checkpoint_values)
    bulk_insert_converted_rows(connection, cursor, Checkpoint, fields, checkpoints)


def bulk_insert_converted_rows(
    connection: BaseDatabaseWrapper,
    cursor: CursorWrapper,
    model: type[models.Model],
    fields: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Insert new rows in the open transaction: by COPY on PostgreSQL, by one prepared statement on SQLite.

    PostgreSQL would plan a statement for each row each time, and the driver would convert and send it by itself.

    Args:
        connection: Connection of the cursor.
        cursor: Cursor that inserts them.
        model: Model of the rows.
        fields: Names of the fields that are given. The database has defaults for the others.
        rows: Values of the fields, as `convert_values` converts them. Without rows nothing is done.

    Raises:
        RowNotStored: The database has dropped a row.
    """
    if not rows:
        return
    if connection.vendor != "postgresql":
        cursor.executemany(build_insert_sql(model, fields), rows)
    else:
        with connection.wrap_database_errors, cursor.copy(_build_copy_sql(model, fields)) as copy:
            for row in rows:
                copy.write_row(row)
    if cursor.rowcount != len(rows):
        raise RowNotStored(str(model._meta.db_table))


@cache
def _build_copy_sql(model: type[models.Model], fields: tuple[str, ...]) -> str:
    return f"COPY {quote_table(model)} ({quote_columns(model, fields)}) FROM STDIN"


@dataclass(frozen=True)
class _HeadMove:
    """Update of a session's head by a save: the new values, the expected ones, those that are expected to be empty, the
    number of new versions, and whether it requires the condition of a guard."""

    vendor: str
    sets: tuple[str, ...]
    expects: tuple[str, ...]
    expects_empty: tuple[str, ...]
    versions: int
    is_guarded: bool = False


@cache
def _build_move_session_head_sql(head_move: _HeadMove) -> str:
    sets = "".join(f", {_quote_session_column(field)} = %s" for field in head_move.sets)
    version = _quote_session_column("latest_version")
    if "updated_at" in head_move.sets:
        changes = _build_revision_increment_sql()
    elif "revision" in head_move.expects and head_move.vendor == "postgresql":
        changes = _build_assignments_with_throttled_time_sql()
    else:
        changes = build_session_change_assignments_sql(head_move.vendor)
    conditions = [f"{_quote_session_column(field)} = %s" for field in head_move.expects]
    conditions += [f"{_quote_session_column(field)} IS NULL" for field in head_move.expects_empty]
    conditions += [authenticated_idempotent_write_guard.IS_PERMITTED] * head_move.is_guarded
    return (
        f"UPDATE {quote_table(Session)} SET {version} = {version} + {head_move.versions}, "
        f"{changes}{sets} "
        f"WHERE {' AND '.join(conditions)} "
        f"RETURNING {_quote_session_column('id')} AS session_pk, {version} AS version"
    )


_SETTLED_STATUSES = sorted(status.value for status in SETTLED_CALL_STATUSES)


@cache
def _build_mark_calls_answered_sql(
    version: str = "%s",
    seal: str = "%s",
    source: str = "",
    pk: str = "%s",
    revision: str = "CAST(%s AS INTEGER)",
    session: str = "%s",
) -> str:
    """Mark calls as answered by `version`. A call that has changed since its seal was computed is left as it is."""
    return (
        f"UPDATE {quote_table(ToolCall)} SET {_quote_call_column('answered_version')} = {version}, "
        f"{_quote_call_column('row_seal')} = {seal}{source} "
        f"WHERE {quote_table(ToolCall)}.{_quote_call_column('id')} = {pk} "
        f"AND ({revision} IS NULL OR {quote_table(ToolCall)}.{_quote_call_column('revision')} = {revision}) "
        f"AND {_quote_call_column('session')} = {session} AND {_quote_call_column('answered_version')} IS NULL "
        f"AND {_quote_call_column('status')} IN ({make_placeholders(len(_SETTLED_STATUSES))})"
    )


_ANSWERED_SOURCE = " FROM head, UNNEST(%s::bigint[], %s::int[], %s::bytea[]) AS known(pk, revision, seal)"


class _InsertShape(NamedTuple):
    """Insert of rows. A single one has a parameter for each value.

    Several have an array for each field, so that the statement is the same for any number of them; the driver takes
    some times longer to convert an array of one value than the value.
    """

    model: type[models.Model]
    fields: tuple[str, ...]
    on_conflict: str
    is_single: bool


class _ChangeShape(NamedTuple):
    model: type[models.Model]
    place: tuple[str, ...]
    changes: tuple[str, ...]


#: What the SQL of the additional rows of a statement depends on.
_RowsShape = _InsertShape | _ChangeShape


def _list_sql_shapes_of_additional_rows(additional_rows: Sequence[NewRows | ChangedRow]) -> tuple[_RowsShape, ...]:
    return tuple(
        _ChangeShape(rows.model, tuple(rows.place), tuple(rows.changes))
        if isinstance(rows, ChangedRow)
        else _InsertShape(rows.model, rows.fields, rows.on_conflict, len(rows.rows) == 1)
        for rows in additional_rows
        if isinstance(rows, ChangedRow) or rows.rows
    )


def _list_params_of_additional_rows(
    connection: BaseDatabaseWrapper, additional_rows: Sequence[NewRows | ChangedRow]
) -> list[Any]:
    """List the parameters of rows: the values of a single one, or an array for each field.

    A cursor is created after that, so that it takes the arrays.
    """
    params: list[Any] = []
    for rows in additional_rows:
        if isinstance(rows, ChangedRow):
            params += convert_values(connection, rows.model, rows.changes)
            params += convert_values(connection, rows.model, rows.place)
        else:
            converted = [convert_values_of_fields(connection, rows.model, rows.fields, row) for row in rows.rows]
            if len(converted) == 1:
                params += converted[0]
            elif converted:
                postgresql_binary_arrays.register_binary_array_dumper(connection)
                for field, values in zip(rows.fields, zip(*converted, strict=True), strict=True):
                    type_ = _get_postgresql_type_of_field(rows.model, field)
                    params.append(postgresql_binary_arrays.encode_array_if_possible(type_, list(values)))
    return params


@cache
def _build_ctes_of_additional_rows_sql(shapes: tuple[_RowsShape, ...]) -> str:
    """SQL of the additional rows of a statement, for the session of its `head`."""
    statements = (
        _build_update_additional_row_sql(shape)
        if isinstance(shape, _ChangeShape)
        else _build_insert_additional_rows_sql(shape)
        for shape in shapes
    )
    return "".join(f", additional_{number} AS ({statement})" for number, statement in enumerate(statements))


def _build_insert_additional_rows_sql(shape: _InsertShape) -> str:
    types = [_get_postgresql_type_of_field(shape.model, field) for field in shape.fields]
    values = ", ".join(f"%s::{each}" if shape.is_single else f"%s::{each}[]" for each in types)
    new = f"(VALUES ({values}))" if shape.is_single else f"UNNEST({values})"
    return (
        f"INSERT INTO {quote_table(shape.model)} ({quote_columns(shape.model, ('session', *shape.fields))}) "
        f"SELECT head.session_pk, new.* FROM head, {new} AS new {shape.on_conflict}"
    )


def _build_update_additional_row_sql(shape: _ChangeShape) -> str:
    model, place, changes = shape
    table, session = quote_table(model), quote_column(model, "session")
    sets = ", ".join(f"{quote_column(model, field)} = %s" for field in changes)
    conditions = "".join(f" AND {table}.{quote_column(model, field)} = %s" for field in place)
    return f"UPDATE {table} SET {sets} FROM head WHERE {table}.{session} = head.session_pk{conditions}"


_VALUE_TYPES: dict[type[Any], str] = {
    models.BinaryField: "bytea",
    **dict.fromkeys(PACKED_FIELDS, "bytea"),
    models.BooleanField: "boolean",
    models.IntegerField: "int",
    models.BigIntegerField: "bigint",
}


@cache
def _get_postgresql_type_of_field(model: type[models.Model], field: str) -> str:
    """Return the type of the values of a field on PostgreSQL. A text is not cut to the length of its column."""
    return _VALUE_TYPES.get(type(model._meta.get_field(field)), "text")


def write_rows_if_session_unchanged(
    connection: BaseDatabaseWrapper, session_pk: int, fence: int, revision: int, rows: Sequence[NewRows | ChangedRow]
) -> str | None:
    """Insert rows of a session that nobody has sealed or written to since it had this revision, which becomes the next.

    Returns the status of the session; None if it is not as described, and nothing was written. Only on PostgreSQL.
    """
    sql = _build_write_rows_if_unchanged_sql(_list_sql_shapes_of_additional_rows(rows))
    params = [session_pk, fence, revision, *_list_params_of_additional_rows(connection, rows)]
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        row = cursor.fetchone()
    return None if row is None else str(row[0])


@cache
def _build_write_rows_if_unchanged_sql(shapes: tuple[_RowsShape, ...]) -> str:
    changes = _build_assignments_with_throttled_time_sql()
    return (
        f"WITH head AS (UPDATE {quote_table(Session)} SET {changes} WHERE {_quote_session_column('id')} = %s "
        f"AND {_quote_session_column('fence')} = %s AND {_quote_session_column('revision')} = %s "
        f"AND {_quote_session_column('row_seal')} IS NULL "
        f"RETURNING {_quote_session_column('id')} AS session_pk, {_quote_session_column('status')} AS status)"
        f"{_build_ctes_of_additional_rows_sql(shapes)} SELECT head.status FROM head"
    )


@cache
def _build_save_version_sql(
    head_move: _HeadMove,
    messages: int,
    is_sealed: bool,
    checkpoint_fields: tuple[str, ...],
    answers: bool,
    additional_rows: tuple[_RowsShape, ...],
    guard_sql: GuardSql | None,
) -> str:
    insert_messages = ""
    if messages:
        seal = "%s::bytea" if is_sealed else "NULL::bytea"
        row = f"(%s::int, %s::text, %s::text, %s::timestamptz, %s::text, %s::bytea, {seal})"
        rows = ", ".join([row] * messages)
        insert_messages = (
            f", new_messages AS (INSERT INTO {quote_table(Message)} "
            f"({quote_columns(Message, ('session', 'segment', *_MESSAGE_FIELDS))}) "
            f"SELECT head.session_pk, %s, new.* FROM head, (VALUES {rows}) AS new)"
        )
    if answers:
        insert_messages += (
            ", answered_calls AS ("
            + _build_mark_calls_answered_sql(
                "head.version", "known.seal", _ANSWERED_SOURCE, "known.pk", "known.revision", "head.session_pk"
            )
            + ")"
        )
    insert_version = (
        f"INSERT INTO {quote_table(Checkpoint)} "
        f"({quote_columns(Checkpoint, ('session', 'version', *checkpoint_fields))}) "
        f"SELECT head.session_pk, head.version, {make_placeholders(len(checkpoint_fields))} FROM head "
        f"RETURNING {quote_column(Checkpoint, 'version')}"
    )
    ctes = (
        f"head AS ({_build_move_session_head_sql(head_move)}){insert_messages}"
        f"{_build_ctes_of_additional_rows_sql(additional_rows)}"
    )
    return _build_guarded_statement_with_ctes_sql(ctes, insert_version, guard_sql)


def _build_guarded_statement_with_ctes_sql(
    ctes: str, statement: str, guard_sql: GuardSql | None, *, call: str = "NULL"
) -> str:
    """SQL of a statement with its common table expressions, under a guard if there is one."""
    return f"WITH {ctes} {statement}" if guard_sql is None else guard_sql.wrap_statement(ctes, statement, call=call)


# issue and settle


def insert_call_if_fence_holds(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    step: int | None,
    values: Mapping[str, Any],
    *,
    under_review: bool = False,
    head: SessionHead | None = None,
) -> tuple[int, int] | None:
    """Log a call before it runs. `step` None means the session's latest version.

    Returns (id, step), or None if the fence no longer holds, the session is not open for mutating calls, the call or
    its key exists already, or the session has another seal than `head` says. `under_review` is for calls that may be
    made in spite of a review.
    """
    allowed = _UNDER_REVIEW_STATUSES if under_review else _OPEN_STATUSES
    status = STATUSES_WHILE_ISSUING[under_review]
    guard = authenticated_idempotent_write_guard.find_guard_of_next_write(connection)
    if connection.vendor != "postgresql":
        return _insert_call_in_several_statements(
            connection, session_pk, fence, step, values, allowed, status, head, guard
        )
    if head is not None:
        return _insert_call_and_move_head(connection, session_pk, fence, step, values, allowed, status, head, guard)
    lock_sql = _build_lock_session_and_set_status_sql(connection.vendor, len(allowed), is_guarded=guard is not None)
    sql = _build_insert_call_sql(lock_sql, tuple(values), None if guard is None else guard.sql)
    keys = [status, session_pk, fence, *allowed, step]
    params = [*keys, *convert_values(connection, ToolCall, values)]
    place: tuple[int, int] | None = _execute_and_fetch_row(connection, guard, sql, params, issues_call=True)
    return place


def _insert_call_and_move_head(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    step: int | None,
    values: Mapping[str, Any],
    allowed: Sequence[str],
    status: str,
    head: SessionHead,
    guard: WriteGuard | None,
) -> tuple[int, int] | None:
    keys = [session_pk, fence, *allowed, head.replaced_seal, step]
    column_values = convert_values(connection, ToolCall, values)
    guard_sql = None if guard is None else guard.sql
    sql = _build_insert_call_and_move_head_sql(tuple(values), len(allowed), guard_sql)
    params = [*keys, *column_values, status, *head.written.values()]
    place: tuple[int, int] | None = _execute_and_fetch_row(connection, guard, sql, params, issues_call=True)
    return place


def _insert_call_in_several_statements(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    step: int | None,
    values: Mapping[str, Any],
    allowed: Sequence[str],
    status: str,
    head: SessionHead | None,
    guard: WriteGuard | None,
) -> tuple[int, int] | None:
    params: list[Any] = [status, session_pk, fence, *allowed]
    if head is not None:
        params = [status, *head.written.values(), *params[1:], head.replaced_seal]
    with authenticated_idempotent_write_guard.open_write_transaction_with_optional_guard(connection, guard) as cursor:
        cursor.execute(
            _build_lock_session_and_set_status_sql(connection.vendor, len(allowed), is_sealed=head is not None), params
        )
        session_row = cursor.fetchone()
        if session_row is None:
            authenticated_idempotent_write_guard.raise_refused_if_guarded(guard)
            return None
        pk, workspace_pk, version = session_row
        keys = [pk, workspace_pk, version if step is None else step]
        insert = _build_insert_call_ignoring_conflicts_sql(tuple(values))
        cursor.execute(insert, [*keys, *convert_values(connection, ToolCall, values)])
        place: tuple[int, int] | None = cursor.fetchone()
        if place is None:
            authenticated_idempotent_write_guard.raise_refused_if_guarded(guard)
            if head is not None:  # the head counts a call that was not inserted
                transaction.set_rollback(True, using=connection.alias)
        elif guard is not None:
            guard.call = place[0]
        return place


#: Status that a session gets when a call is issued, by whether that is in spite of a review.
STATUSES_WHILE_ISSUING: Final = {False: SessionStatus.ACTIVE.value, True: SessionStatus.NEEDS_REVIEW.value}
_UNDER_REVIEW_STATUSES = [SessionStatus.NEEDS_REVIEW.value]
_PLACE_FIELDS = ("session", "workspace", "step")
_OPEN_STATUSES = sorted(status.value for status in DISPATCHABLE_SESSION_STATUSES)


def _build_set_head_columns_sql(is_sealed: bool) -> str:
    return "".join(f", {_quote_session_column(name)} = %s" for name in WRITTEN_FIELDS) if is_sealed else ""


def _build_head_seal_condition_sql(is_sealed: bool) -> str:
    return f"AND {_quote_session_column('row_seal')} = %s " if is_sealed else ""


def _build_write_guard_condition_sql(is_guarded: bool) -> str:
    return f"AND {authenticated_idempotent_write_guard.IS_PERMITTED} " if is_guarded else ""


@cache
def _build_lock_session_and_set_status_sql(
    vendor: str, allowed: int, *, is_sealed: bool = False, is_guarded: bool = False
) -> str:
    """SQL that locks the session of a call under its fence and sets its status, if it has one of `allowed` statuses."""
    return (
        f"UPDATE {quote_table(Session)} SET {_quote_session_column('status')} = %s, "
        f"{build_session_change_assignments_sql(vendor)}"
        f"{_build_set_head_columns_sql(is_sealed)} "
        f"WHERE {_quote_session_column('id')} = %s AND {_quote_session_column('fence')} = %s "
        f"AND {_quote_session_column('status')} IN ({make_placeholders(allowed)}) "
        f"{_build_head_seal_condition_sql(is_sealed)}{_build_write_guard_condition_sql(is_guarded)}"
        f"RETURNING {_quote_session_column('id')} AS session_pk, {_quote_session_column('workspace')} AS workspace_pk, "
        f"{_quote_session_column('latest_version')} AS version"
    )


@cache
def _build_insert_call_sql(lock_sql: str, fields: tuple[str, ...], guard_sql: GuardSql | None) -> str:
    insert = (
        f"INSERT INTO {quote_table(ToolCall)} ({quote_columns(ToolCall, (*_PLACE_FIELDS, *fields))}) "
        "SELECT locked_session.session_pk, locked_session.workspace_pk, COALESCE(%s, locked_session.version), "
        f"{make_placeholders(len(fields))} FROM locked_session "
        f"{_build_on_conflict_do_nothing_sql()}"
    )
    return _build_guarded_statement_with_ctes_sql(
        f"locked_session AS ({lock_sql})", insert, guard_sql, call=_WRITTEN_CALL
    )


#: Key of the call in the row that a guarded statement has written.
_WRITTEN_CALL = "written.id"


@cache
def _build_insert_call_and_move_head_sql(fields: tuple[str, ...], allowed: int, guard_sql: GuardSql | None) -> str:
    """SQL that inserts a call, and only with it moves the head of its session."""
    place = ", ".join(_quote_session_column(name) for name in ("id", "workspace", "latest_version"))
    ctes = (
        f"locked_session AS (SELECT {place} FROM {quote_table(Session)} "
        f"WHERE {_quote_session_column('id')} = %s AND {_quote_session_column('fence')} = %s AND "
        f"{_quote_session_column('status')} IN ({make_placeholders(allowed)}) "
        f"{_build_head_seal_condition_sql(is_sealed=True)}{_build_write_guard_condition_sql(guard_sql is not None)}"
        f"FOR NO KEY UPDATE), inserted AS (INSERT INTO {quote_table(ToolCall)} "
        f"({quote_columns(ToolCall, (*_PLACE_FIELDS, *fields))}) "
        f"SELECT locked_session.{_quote_session_column('id')}, locked_session.{_quote_session_column('workspace')}, "
        f"COALESCE(%s, locked_session.{_quote_session_column('latest_version')}), "
        f"{make_placeholders(len(fields))} FROM locked_session "
        f"{_build_on_conflict_do_nothing_sql()}, {_quote_call_column('session')} AS session_pk)"
    )
    move_head = (
        f"UPDATE {quote_table(Session)} SET {_quote_session_column('status')} = %s, "
        f"{build_session_change_assignments_sql('postgresql', quote_table(Session))}"
        f"{_build_set_head_columns_sql(is_sealed=True)} "
        f"FROM inserted WHERE {quote_table(Session)}.{_quote_session_column('id')} = inserted.session_pk "
        f"RETURNING inserted.{_quote_call_column('id')}, inserted.{_quote_call_column('step')}"
    )
    return _build_guarded_statement_with_ctes_sql(ctes, move_head, guard_sql, call=_WRITTEN_CALL)


@cache
def _build_insert_call_ignoring_conflicts_sql(fields: tuple[str, ...]) -> str:
    return f"{build_insert_sql(ToolCall, (*_PLACE_FIELDS, *fields))} {_build_on_conflict_do_nothing_sql()}"


def _build_on_conflict_do_nothing_sql() -> str:
    return f"ON CONFLICT DO NOTHING RETURNING {_quote_call_column('id')}, {_quote_call_column('step')}"


def update_call_outcome_if_still_issued(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    call_pk: int,
    run_id: Any,
    values: Mapping[str, Any],
    head: SessionHead | None = None,
) -> bool:
    """Write the outcome of a call onto the attempt that its own run issued.

    Returns False if the fence no longer holds, the call is not `issued` by that run any more, or the session has
    another seal than `head` says. An unknown outcome (`interrupted`) puts the session under review in the same
    transaction. The time of the outcome is the database's, unless `values` has it.
    """
    is_interrupted = values["status"] == CallStatus.INTERRUPTED
    lock_params: list[Any] = [SessionStatus.NEEDS_REVIEW.value] if is_interrupted else []
    is_sealed = head is not None
    if head is None:
        lock_params += [session_pk, fence]
    else:
        lock_params += [*head.written.values(), session_pk, fence, head.replaced_seal]
    params = convert_values(connection, ToolCall, values)
    source_status = call_transitions_by_agent_or_system.get_transition_to_outcome(values["status"]).before
    params += convert_values(connection, ToolCall, {"id": call_pk, "run": run_id, "status": source_status})
    vendor, fields, guard = (
        connection.vendor,
        tuple(values),
        authenticated_idempotent_write_guard.find_guard_of_next_write(connection),
    )
    if vendor == "postgresql" and not is_interrupted:
        sql = _build_lock_and_update_outcome_sql(fields, is_sealed, None if guard is None else guard.sql)
        return _execute_and_fetch_row(connection, guard, sql, [*lock_params, *params]) is not None
    with authenticated_idempotent_write_guard.open_write_transaction_with_optional_guard(connection, guard) as cursor:
        cursor.execute(_build_lock_session_for_outcome_sql(vendor, is_interrupted, is_sealed), lock_params)
        if cursor.fetchone() is None:
            authenticated_idempotent_write_guard.raise_refused_if_guarded(guard)
            return False
        cursor.execute(_build_update_outcome_sql(vendor, fields, is_interrupted), [*params, session_pk])
        if cursor.rowcount != 1:
            authenticated_idempotent_write_guard.raise_refused_if_guarded(guard)
            transaction.set_rollback(True, using=connection.alias)
            return False
    return True


@cache
def _build_lock_session_for_outcome_sql(
    vendor: str, is_interrupted: bool, is_sealed: bool, *, is_guarded: bool = False
) -> str:
    status = f"{_quote_session_column('status')} = %s, " if is_interrupted else ""
    return (
        f"UPDATE {quote_table(Session)} SET {status}"
        f"{build_session_change_assignments_sql(vendor)}{_build_set_head_columns_sql(is_sealed)} "
        f"WHERE {_quote_session_column('id')} = %s AND {_quote_session_column('fence')} = %s "
        f"{_build_head_seal_condition_sql(is_sealed)}"
        f"{_build_write_guard_condition_sql(is_guarded)}"
        f"RETURNING {_quote_session_column('id')} AS session_pk"
    )


@cache
def _build_update_outcome_sql(
    vendor: str, fields: tuple[str, ...], is_interrupted: bool, source: str = "", session: str = "%s"
) -> str:
    sets = ", ".join(f"{_quote_call_column(field)} = %s" for field in fields)
    time_field = "interrupted_at" if is_interrupted else "settled_at"
    time = "" if time_field in fields else f"{_quote_call_column(time_field)} = {NOW_SQL[vendor]}, "
    return (
        f"UPDATE {quote_table(ToolCall)} SET {sets}, {time}"
        f"{_quote_call_column('revision')} = {_quote_call_column('revision')} + 1{source} "
        f"WHERE {_quote_call_column('id')} = %s AND {_quote_call_column('run')} = %s "
        f"AND {_quote_call_column('status')} = %s AND {_quote_call_column('session')} = {session}"
    )


@cache
def _build_lock_and_update_outcome_sql(fields: tuple[str, ...], is_sealed: bool, guard_sql: GuardSql | None) -> str:
    lock_sql = _build_lock_session_for_outcome_sql(
        "postgresql", is_interrupted=False, is_sealed=is_sealed, is_guarded=guard_sql is not None
    )
    outcome = _build_update_outcome_sql(
        "postgresql", fields, False, " FROM locked_session", "locked_session.session_pk"
    )
    outcome += f" RETURNING {_quote_call_column('id')}"
    return _build_guarded_statement_with_ctes_sql(f"locked_session AS ({lock_sql})", outcome, guard_sql)


def update_replay_count_and_head_if_unchanged(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    call_pk: int,
    values: Mapping[str, Any],
    seal_before: bytes,
    head: SessionHead,
) -> bool:
    """Write the number of replays of a call and its seal, which are `values`, and the head of its session after that.

    Returns False, and nothing is written, if the fence no longer holds, the session has another seal than `head` says,
    or the call another one than `seal_before`.
    """
    keys = [session_pk, fence, head.replaced_seal]
    with authenticated_idempotent_write_guard.open_write_transaction_with_optional_guard(connection, None) as cursor:
        cursor.execute(_build_update_session_head_after_replay_sql(), [*head.written.values(), *keys])
        if cursor.rowcount == 1:
            params = [*convert_values(connection, ToolCall, values), call_pk, session_pk, seal_before]
            cursor.execute(_build_update_call_after_replay_sql(tuple(values)), params)
        if cursor.rowcount != 1:
            transaction.set_rollback(True, using=connection.alias)
            return False
    return True


@cache
def _build_update_session_head_after_replay_sql() -> str:
    sets = ", ".join(f"{_quote_session_column(name)} = %s" for name in WRITTEN_FIELDS)
    return (
        f"UPDATE {quote_table(Session)} SET {sets} WHERE {_quote_session_column('id')} = %s "
        f"AND {_quote_session_column('fence')} = %s AND {_quote_session_column('row_seal')} = %s"
    )


@cache
def _build_update_call_after_replay_sql(fields: tuple[str, ...]) -> str:
    sets = ", ".join(f"{_quote_call_column(field)} = %s" for field in fields)
    return (
        f"UPDATE {quote_table(ToolCall)} SET {sets} WHERE {_quote_call_column('id')} = %s "
        f"AND {_quote_call_column('session')} = %s AND {_quote_call_column('row_seal')} = %s"
    )
