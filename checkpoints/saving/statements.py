"""The hot statements, written in SQL: save, issue, settle; and the copy of a call log into a fork.

The ORM's own cost would show in them. Table and column names, and the conversion of every value, come from the
models' metadata. On PostgreSQL each is one statement, and therefore one round trip and one transaction; on SQLite,
which has no data-modifying WITH, the same steps run in one IMMEDIATE transaction. Every write names the owner's
fence in its WHERE clause and reports an empty result where the fence no longer holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.enums import DISPATCHABLE_SESSION, CallStatus, InterruptReason, KeyScope, SessionStatus
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from checkpoints.saving.naming import column, columns, prepared, table

_NOW = {"postgresql": "STATEMENT_TIMESTAMP()", "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"}
#: Columns of a call that its copy in a fork gets anew, and those that it starts without.
_RESET = ("session", "run", "step", "status", "reason", "interrupted_at", "verify_requested_by")
_LEFT_OUT = ("id", "supersedes")
_MESSAGE_FIELDS = ("position", "message_id", "role", "created_at", "body", "chain")


@dataclass(frozen=True)
class NewMessage:
    position: int
    message_id: str
    role: str
    created_at: datetime
    body: str
    chain: bytes


@dataclass(frozen=True)
class Base:
    """Where a save starts from: the session as its writer believes it to be."""

    session_pk: int
    fence: int
    segment_id: int
    length: int
    chain: bytes
    version: int | None  #: None: any


def _now(connection: BaseDatabaseWrapper) -> str:
    return _NOW[connection.vendor]


def _touch(connection: BaseDatabaseWrapper) -> str:
    """What every write changes on the session, so that the pages notice."""
    revision = column(Session, "revision")
    return f"{revision} = {revision} + 1, {column(Session, 'updated_at')} = {_now(connection)}"


def _s(field: str) -> str:
    return column(Session, field)


# save


def save(
    connection: BaseDatabaseWrapper,
    base: Base,
    session_values: Mapping[str, Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
) -> int | None:
    """Append `messages` to the segment in `checkpoint_values`, write the next version, move the session's head.

    Returns the new version, or None where the session is not as `base` says (fence, head or version).
    """
    where = [f"{_s('id')} = %s", f"{_s('fence')} = %s", f"{_s('head_segment')} = %s", f"{_s('message_count')} = %s"]
    where.append(f"{_s('head_chain')} = %s")
    params = prepared(
        connection,
        Session,
        {
            "id": base.session_pk,
            "fence": base.fence,
            "head_segment": base.segment_id,
            "message_count": base.length,
            "head_chain": base.chain,
        },
    )
    if base.version is not None:
        where.append(f"{_s('latest_version')} = %s")
        params.append(base.version)
    sets = "".join(f", {_s(field)} = %s" for field in session_values)
    update = (
        f"UPDATE {table(Session)} SET {_s('latest_version')} = {_s('latest_version')} + 1, {_touch(connection)}{sets} "
        f"WHERE {' AND '.join(where)} RETURNING {_s('id')} AS session_pk, {_s('latest_version')} AS version"
    )
    update_params = [*prepared(connection, Session, session_values), *params]
    if connection.vendor == "postgresql":
        return _save_in_one(connection, update, update_params, messages, checkpoint_values)
    return _save_in_steps(connection, update, update_params, messages, checkpoint_values)


def _save_in_one(
    connection: BaseDatabaseWrapper,
    update: str,
    update_params: list[Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
) -> int | None:
    said, said_params = "", list[Any]()
    if messages:
        rows = ", ".join(["(%s::int, %s::text, %s::text, %s::timestamptz, %s::text, %s::bytea)"] * len(messages))
        said = (
            f", said AS (INSERT INTO {table(Message)} ({columns(Message, ('session', 'segment', *_MESSAGE_FIELDS))}) "
            f"SELECT head.session_pk, %s, new.* FROM head, (VALUES {rows}) AS new)"
        )
        said_params = [checkpoint_values["segment"]]
        said_params += [getattr(message, field) for message in messages for field in _MESSAGE_FIELDS]
    marks = ", ".join(["%s"] * len(checkpoint_values))
    insert = (
        f"INSERT INTO {table(Checkpoint)} ({columns(Checkpoint, ('session', 'version', *checkpoint_values))}) "
        f"SELECT head.session_pk, head.version, {marks} FROM head RETURNING {column(Checkpoint, 'version')}"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH head AS ({update}){said} {insert}",
            [*update_params, *said_params, *prepared(connection, Checkpoint, checkpoint_values)],
        )
        row = cursor.fetchone()
    return row[0] if row else None


def _save_in_steps(
    connection: BaseDatabaseWrapper,
    update: str,
    update_params: list[Any],
    messages: Sequence[NewMessage],
    checkpoint_values: Mapping[str, Any],
) -> int | None:
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(update, update_params)
        row = cursor.fetchone()
        if row is None:
            return None
        session_pk, version = row
        place = {"session": session_pk, "segment": checkpoint_values["segment"]}
        marks = ", ".join(["%s"] * (len(place) + len(_MESSAGE_FIELDS)))
        if messages:
            cursor.executemany(
                f"INSERT INTO {table(Message)} ({columns(Message, (*place, *_MESSAGE_FIELDS))}) VALUES ({marks})",
                [
                    prepared(connection, Message, place | {field: getattr(new, field) for field in _MESSAGE_FIELDS})
                    for new in messages
                ],
            )
        values = {"session": session_pk, "version": version, **checkpoint_values}
        marks = ", ".join(["%s"] * len(values))
        cursor.execute(
            f"INSERT INTO {table(Checkpoint)} ({columns(Checkpoint, tuple(values))}) VALUES ({marks})",
            prepared(connection, Checkpoint, values),
        )
    return int(version)


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
    allowed = [SessionStatus.NEEDS_REVIEW] if under_review else sorted(DISPATCHABLE_SESSION)
    status = SessionStatus.NEEDS_REVIEW if under_review else SessionStatus.ACTIVE
    update = (
        f"UPDATE {table(Session)} SET {_s('status')} = %s, {_touch(connection)} WHERE {_s('id')} = %s AND "
        f"{_s('fence')} = %s AND {_s('status')} IN ({', '.join(['%s'] * len(allowed))}) "
        f"RETURNING {_s('id')} AS session_pk, {_s('workspace')} AS workspace_pk, {_s('latest_version')} AS version"
    )
    update_params: list[Any] = [status.value, session_pk, fence, *[each.value for each in allowed]]
    insert = f"INSERT INTO {table(ToolCall)} ({columns(ToolCall, ('session', 'workspace', 'step', *values))})"
    marks = ", ".join(["%s"] * len(values))
    returning = f"ON CONFLICT DO NOTHING RETURNING {column(ToolCall, 'id')}, {column(ToolCall, 'step')}"
    given = prepared(connection, ToolCall, values)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH held AS ({update}) {insert} SELECT held.session_pk, held.workspace_pk, "
                f"COALESCE(%s, held.version), {marks} FROM held {returning}",
                [*update_params, step, *given],
            )
            row: tuple[int, int] | None = cursor.fetchone()
        return row
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(update, update_params)
        held = cursor.fetchone()
        if held is None:
            return None
        pk, workspace_pk, version = held
        cursor.execute(
            f"{insert} VALUES (%s, %s, %s, {marks}) {returning}",
            [pk, workspace_pk, version if step is None else step, *given],
        )
        issued: tuple[int, int] | None = cursor.fetchone()
        return issued


def settle(
    connection: BaseDatabaseWrapper, session_pk: int, fence: int, call_pk: int, run_id: Any, values: Mapping[str, Any]
) -> bool:
    """Write the outcome of a call onto the attempt that its own run issued.

    False where the fence no longer holds or the call is not `issued` by that run any more. An outcome that
    nobody knows (`interrupted`) puts the session under review in the same transaction.
    """
    interrupted = values["status"] == CallStatus.INTERRUPTED
    status = f"{_s('status')} = %s, " if interrupted else ""
    update = (
        f"UPDATE {table(Session)} SET {status}{_touch(connection)} WHERE {_s('id')} = %s AND {_s('fence')} = %s "
        f"RETURNING {_s('id')} AS session_pk"
    )
    update_params: list[Any] = [*([SessionStatus.NEEDS_REVIEW.value] if interrupted else []), session_pk, fence]
    when = column(ToolCall, "interrupted_at" if interrupted else "settled_at")
    revision = column(ToolCall, "revision")
    sets = ", ".join(f"{column(ToolCall, field)} = %s" for field in values)
    outcome = f"UPDATE {table(ToolCall)} SET {sets}, {when} = {_now(connection)}, {revision} = {revision} + 1"
    where = (
        f"WHERE {column(ToolCall, 'id')} = %s AND {column(ToolCall, 'run')} = %s AND {column(ToolCall, 'status')} = %s"
    )
    params = prepared(connection, ToolCall, values)
    params += prepared(connection, ToolCall, {"id": call_pk, "run": run_id, "status": CallStatus.ISSUED})
    if connection.vendor == "postgresql" and not interrupted:
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH held AS ({update}) {outcome} FROM held {where} "
                f"AND {column(ToolCall, 'session')} = held.session_pk RETURNING {column(ToolCall, 'id')}",
                [*update_params, *params],
            )
            return cursor.fetchone() is not None
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(update, update_params)
        if cursor.fetchone() is None:
            return False
        cursor.execute(f"{outcome} {where} AND {column(ToolCall, 'session')} = %s", [*params, session_pk])
        if cursor.rowcount != 1:
            transaction.set_rollback(True, using=connection.alias)
            return False
    return True


# fork


def carry_calls(
    connection: BaseDatabaseWrapper,
    origin_pk: int,
    forked_pk: int,
    run_id: Any,
    carried: Mapping[CallStatus, CallStatus],
    reason: InterruptReason,
    shift: int,
) -> None:
    """Copy the calls of a session into its fork, each with the status that `carried` gives for its own.

    A call that becomes interrupted by this says why: `reason`. Steps move down by `shift`, so that they stay apart
    from those of the fork. Calls with a workspace-wide key stay behind: they are found from everywhere.
    """
    copied = [field.name for field in ToolCall._meta.concrete_fields if field.name not in _RESET + _LEFT_OUT]
    status, old = column(ToolCall, "status"), [from_.value for from_ in carried]
    becomes = " ".join(["WHEN %s THEN %s"] * len(carried))
    newly = [from_.value for from_, to in carried.items() if from_ != to]
    marks = ", ".join(["%s"] * len(newly))
    sql = (
        f"INSERT INTO {table(ToolCall)} ({columns(ToolCall, (*_RESET, *copied))}) "
        f"SELECT %s, %s, {column(ToolCall, 'step')} - %s, CASE {status} {becomes} END, "
        f"CASE WHEN {status} IN ({marks}) THEN %s ELSE "
        f"{column(ToolCall, 'reason')} END, CASE WHEN {status} IN ({marks}) THEN {_now(connection)} ELSE "
        f"{column(ToolCall, 'interrupted_at')} END, '', {columns(ToolCall, copied)} FROM {table(ToolCall)} "
        f"WHERE {column(ToolCall, 'session')} = %s AND {status} IN ({', '.join(['%s'] * len(old))}) "
        f"AND {column(ToolCall, 'key_scope')} = %s "
        f"ORDER BY {column(ToolCall, 'id')}"
    )
    cases = [value.value for pair in carried.items() for value in pair]
    run = prepared(connection, ToolCall, {"run": run_id})
    with connection.cursor() as cursor:
        cursor.execute(
            sql, [forked_pk, *run, shift, *cases, *newly, reason.value, *newly, origin_pk, *old, KeyScope.SESSION.value]
        )
