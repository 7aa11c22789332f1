"""The hot statements, written in SQL: save, issue, settle.

The ORM's own cost would show in them. Table and column names, and the conversion of every value, come from the
models' metadata. On PostgreSQL each is one statement, and therefore one round trip and one transaction; on SQLite,
which has no data-modifying WITH, the same steps run in one IMMEDIATE transaction. Every write names the owner's
fence in its WHERE clause and reports an empty result where the fence no longer holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.enums import DISPATCHABLE_SESSION, SETTLED_CALL, CallStatus, SessionStatus
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from checkpoints.saving import transitions
from checkpoints.saving.naming import column, columns, inserting, marks, prepared, prepared_row, table

NOW = {"postgresql": "STATEMENT_TIMESTAMP()", "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"}
#: More messages than these are written by a statement of their own: a statement takes 65,535 parameters at most.
_MESSAGES_IN_ONE = 64


class NewMessage(NamedTuple):
    """The columns of a message that its save gives, in the order of the statements' parameters."""

    position: int
    message_id: str
    role: str
    created_at: datetime
    body: str
    chain: bytes


_MESSAGE_FIELDS = NewMessage._fields


@dataclass(frozen=True)
class Base:
    """Where a save starts from: the session as its writer believes it to be."""

    session_pk: int
    fence: int
    segment_id: int
    length: int
    chain: bytes
    version: int | None  #: None: any


def _touch(vendor: str) -> str:
    """What every write changes on the session, so that the pages notice."""
    return f"{_s('revision')} = {_s('revision')} + 1, {_s('updated_at')} = {NOW[vendor]}"


def _s(field: str) -> str:
    return column(Session, field)


def _c(field: str) -> str:
    return column(ToolCall, field)


# save


def save(
    connection: BaseDatabaseWrapper,
    base: Base,
    session_values: Mapping[str, Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
    answered: Sequence[int] = (),
) -> int | None:
    """Append `messages` to the segment in `checkpoint_values`, write the next version, move the session's head.

    `answered` are the keys of calls whose results are among the messages: those that are settled, and that no version
    has answered before, are marked as answered by this one.

    Returns the new version, or None where the session is not as `base` says (fence, head or version).
    """
    expected = {
        "id": base.session_pk,
        "fence": base.fence,
        "head_segment": base.segment_id,
        "message_count": base.length,
        "head_chain": base.chain,
    }
    if base.version is not None:
        expected["latest_version"] = base.version
    moves = _Moves(connection.vendor, tuple(session_values), tuple(expected))
    params = [*prepared(connection, Session, session_values), *prepared(connection, Session, expected)]
    if connection.vendor == "postgresql" and len(messages) <= _MESSAGES_IN_ONE:
        return _save_in_one(connection, moves, params, messages, checkpoint_values, answered)
    return _save_in_steps(connection, moves, params, messages, checkpoint_values, answered)


def _save_in_one(
    connection: BaseDatabaseWrapper,
    moves: _Moves,
    params: list[Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
    answered: Sequence[int],
) -> int | None:
    if messages:
        params.append(checkpoint_values["segment"])
        for message in messages:
            params += message
    if answered:
        params += [*_SETTLED, list(answered)]
    params += prepared(connection, Checkpoint, checkpoint_values)
    with connection.cursor() as cursor:
        cursor.execute(_one_save(moves, len(messages), tuple(checkpoint_values), bool(answered)), params)
        row = cursor.fetchone()
    return row[0] if row else None


def _save_in_steps(
    connection: BaseDatabaseWrapper,
    moves: _Moves,
    params: list[Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
    answered: Sequence[int],
) -> int | None:
    given = prepared(connection, Checkpoint, checkpoint_values)
    said = [prepared_row(connection, Message, _MESSAGE_FIELDS, new) for new in messages]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(_move_head(moves), params)
        row = cursor.fetchone()
        if row is None:
            return None
        session_pk, version = row
        if messages:
            place = [session_pk, checkpoint_values["segment"]]
            cursor.executemany(
                inserting(Message, ("session", "segment", *_MESSAGE_FIELDS)), [[*place, *each] for each in said]
            )
        cursor.execute(inserting(Checkpoint, ("session", "version", *checkpoint_values)), [session_pk, version, *given])
        if answered:
            cursor.executemany(_answer(), [[version, session_pk, *_SETTLED, call_pk] for call_pk in answered])
    return int(version)


@dataclass(frozen=True)
class _Moves:
    """How a save moves a session's head: what it sets, and what it expects to find."""

    vendor: str
    sets: tuple[str, ...]
    expects: tuple[str, ...]


@cache
def _move_head(moves: _Moves) -> str:
    sets = "".join(f", {_s(field)} = %s" for field in moves.sets)
    version = _s("latest_version")
    return (
        f"UPDATE {table(Session)} SET {version} = {version} + 1, {_touch(moves.vendor)}{sets} "
        f"WHERE {' AND '.join(f'{_s(field)} = %s' for field in moves.expects)} "
        f"RETURNING {_s('id')} AS session_pk, {version} AS version"
    )


_SETTLED = sorted(status.value for status in SETTLED_CALL)


@cache
def _answer(version: str = "%s", source: str = "", session: str = "%s", calls: str = "= %s") -> str:
    """Mark calls as answered by `version`."""
    return (
        f"UPDATE {table(ToolCall)} SET {_c('answered_version')} = {version}{source} "
        f"WHERE {_c('session')} = {session} AND {_c('answered_version')} IS NULL "
        f"AND {_c('status')} IN ({marks(len(_SETTLED))}) AND {_c('id')} {calls}"
    )


@cache
def _one_save(moves: _Moves, messages: int, checkpoint_fields: tuple[str, ...], answers: bool) -> str:
    said = ""
    if messages:
        rows = ", ".join(["(%s::int, %s::text, %s::text, %s::timestamptz, %s::text, %s::bytea)"] * messages)
        said = (
            f", said AS (INSERT INTO {table(Message)} ({columns(Message, ('session', 'segment', *_MESSAGE_FIELDS))}) "
            f"SELECT head.session_pk, %s, new.* FROM head, (VALUES {rows}) AS new)"
        )
    if answers:
        said += f", answered AS ({_answer('head.version', ' FROM head', 'head.session_pk', '= ANY(%s)')})"
    return (
        f"WITH head AS ({_move_head(moves)}){said} "
        f"INSERT INTO {table(Checkpoint)} ({columns(Checkpoint, ('session', 'version', *checkpoint_fields))}) "
        f"SELECT head.session_pk, head.version, {marks(len(checkpoint_fields))} FROM head "
        f"RETURNING {column(Checkpoint, 'version')}"
    )


# issue and settle


def issue(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    step: int | None,
    values: Mapping[str, Any],
    *,
    under_review: bool = False,
) -> tuple[int, int] | None:
    """Log a call before it runs. `step` None means the session's latest version.

    Returns (id, step), or None where the fence no longer holds, the session is not open for mutating calls, or
    the call or its key is already there. `under_review` is for calls that may be made in spite of a review.
    """
    allowed = _UNDER_REVIEW if under_review else _OPEN
    status = SessionStatus.NEEDS_REVIEW if under_review else SessionStatus.ACTIVE
    holding: list[Any] = [status.value, session_pk, fence, *allowed]
    given = prepared(connection, ToolCall, values)
    hold = _hold(connection.vendor, len(allowed))
    row: tuple[int, int] | None
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_one_issue(hold, tuple(values)), [*holding, step, *given])
            row = cursor.fetchone()
        return row
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(hold, holding)
        held = cursor.fetchone()
        if held is None:
            return None
        pk, workspace_pk, version = held
        place = [pk, workspace_pk, version if step is None else step]
        cursor.execute(f"{inserting(ToolCall, (*_PLACE, *values))} {_if_new()}", [*place, *given])
        row = cursor.fetchone()
        return row


_UNDER_REVIEW = [SessionStatus.NEEDS_REVIEW.value]
_PLACE = ("session", "workspace", "step")
_OPEN = sorted(status.value for status in DISPATCHABLE_SESSION)


@cache
def _hold(vendor: str, allowed: int) -> str:
    """The session as a call finds it: under its fence, and in one of so many statuses."""
    return (
        f"UPDATE {table(Session)} SET {_s('status')} = %s, {_touch(vendor)} "
        f"WHERE {_s('id')} = %s AND {_s('fence')} = %s AND {_s('status')} IN ({marks(allowed)}) "
        f"RETURNING {_s('id')} AS session_pk, {_s('workspace')} AS workspace_pk, {_s('latest_version')} AS version"
    )


@cache
def _one_issue(hold: str, fields: tuple[str, ...]) -> str:
    return (
        f"WITH held AS ({hold}) "
        f"INSERT INTO {table(ToolCall)} ({columns(ToolCall, (*_PLACE, *fields))}) "
        f"SELECT held.session_pk, held.workspace_pk, COALESCE(%s, held.version), {marks(len(fields))} FROM held "
        f"{_if_new()}"
    )


def _if_new() -> str:
    return f"ON CONFLICT DO NOTHING RETURNING {_c('id')}, {_c('step')}"


def settle(
    connection: BaseDatabaseWrapper, session_pk: int, fence: int, call_pk: int, run_id: Any, values: Mapping[str, Any]
) -> bool:
    """Write the outcome of a call onto the attempt that its own run issued.

    False where the fence no longer holds or the call is not `issued` by that run any more. An outcome that
    nobody knows (`interrupted`) puts the session under review in the same transaction.
    """
    interrupted = values["status"] == CallStatus.INTERRUPTED
    holding: list[Any] = [*([SessionStatus.NEEDS_REVIEW.value] if interrupted else []), session_pk, fence]
    params = prepared(connection, ToolCall, values)
    before = transitions.ending(values["status"]).before
    params += prepared(connection, ToolCall, {"id": call_pk, "run": run_id, "status": before})
    vendor, fields = connection.vendor, tuple(values)
    if vendor == "postgresql" and not interrupted:
        with connection.cursor() as cursor:
            cursor.execute(_one_settle(fields), [*holding, *params])
            return cursor.fetchone() is not None
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(_hold_to_settle(vendor, interrupted), holding)
        if cursor.fetchone() is None:
            return False
        cursor.execute(_outcome(vendor, fields, interrupted), [*params, session_pk])
        if cursor.rowcount != 1:
            transaction.set_rollback(True, using=connection.alias)
            return False
    return True


@cache
def _hold_to_settle(vendor: str, interrupted: bool) -> str:
    status = f"{_s('status')} = %s, " if interrupted else ""
    return (
        f"UPDATE {table(Session)} SET {status}{_touch(vendor)} WHERE {_s('id')} = %s AND {_s('fence')} = %s "
        f"RETURNING {_s('id')} AS session_pk"
    )


@cache
def _outcome(vendor: str, fields: tuple[str, ...], interrupted: bool, source: str = "", session: str = "%s") -> str:
    sets = ", ".join(f"{_c(field)} = %s" for field in fields)
    when = _c("interrupted_at" if interrupted else "settled_at")
    return (
        f"UPDATE {table(ToolCall)} SET {sets}, {when} = {NOW[vendor]}, {_c('revision')} = {_c('revision')} + 1{source} "
        f"WHERE {_c('id')} = %s AND {_c('run')} = %s AND {_c('status')} = %s AND {_c('session')} = {session}"
    )


@cache
def _one_settle(fields: tuple[str, ...]) -> str:
    hold = _hold_to_settle("postgresql", interrupted=False)
    outcome = _outcome("postgresql", fields, False, " FROM held", "held.session_pk")
    return f"WITH held AS ({hold}) {outcome} RETURNING {_c('id')}"
