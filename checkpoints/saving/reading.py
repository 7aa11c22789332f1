"""Reading versions of a session."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import connections
from django.db.models import QuerySet, Subquery

from checkpoints.conf import SCHEMA_VERSION
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, SchemaFromFuture, VersionNotFound
from checkpoints.ids import checked, checked_number
from checkpoints.models import Checkpoint, Session
from checkpoints.saving import lookup, paths
from checkpoints.saving.naming import column, columns, table
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import money
from checkpoints.serde.canonical import parse, parse_object

#: Lists show at most so many versions at once.
LIST_LIMIT = 1000


def load_latest(store: Store, session_id: str) -> dict[str, Any] | None:
    """The newest version, or None while there is none. Raises `SessionNotFound` only for malformed ids."""
    with operation(store.using, writes=False):
        return _read_newest(store, session_id, lambda row: loaded(store, session_id, row))


def load_tail(store: Store, session_id: str, count: int) -> dict[str, Any] | None:
    """The newest version with only the last `count` messages of its transcript, and its `message_count`; None while
    there is none."""

    def read(row: Checkpoint) -> dict[str, Any]:
        tail = loaded(store, session_id, row, first=max(0, row.length - count))
        return {**tail, "message_count": row.length}

    with operation(store.using, writes=False):
        return _read_newest(store, session_id, read)


def _read_newest(store: Store, session_id: str, read: Callable[[Checkpoint], dict[str, Any]]) -> dict[str, Any] | None:
    """What `read` makes of the newest version. Where that version is removed while it is read, of the newest then."""
    while (row := _newest(store, session_id)) is not None:
        try:
            return read(row)
        except CheckpointCorrupted:
            if _is_stored(store, row):
                raise
    return None


def load(store: Store, session_id: str, version: int) -> dict[str, Any]:
    """One version. Raises `SessionNotFound`, `VersionNotFound`, `CheckpointCorrupted`, `SchemaFromFuture`."""
    with operation(store.using, writes=False):
        row = _checkpoints(store, session_id).filter(version=_checked_version(version)).first()
        if row is not None:
            try:
                return loaded(store, session_id, row)
            except CheckpointCorrupted:
                if _is_stored(store, row):
                    raise
        lookup.session(store, session_id)
        raise VersionNotFound(session_id, version)


def _is_stored(store: Store, row: Checkpoint) -> bool:
    """Whether a version is still there. Its messages go in the transaction that removes it, but they are read in a
    later statement than its row: what looks damaged may have been removed in between."""
    return Checkpoint.objects.using(store.using).filter(pk=row.pk).exists()


def _checked_version(version: int) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"{version!r} is not a version number.")
    return version if 0 <= version < 2**62 else 0


def list_checkpoints(
    store: Store, session_id: str, *, before: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Versions below `before`, newest first, without transcripts. Raises `SessionNotFound`."""
    if checked_number("limit", limit, least=1) > LIST_LIMIT:
        raise InvalidInput(f"limit is {limit}; {LIST_LIMIT} is the most.")
    if before is not None:
        checked_number("before", before)
    store.flush(session_id)
    with operation(store.using, writes=False):
        row = lookup.session(store, session_id)
        rows = Checkpoint.objects.using(store.using).filter(session=row)
        if before is not None:
            rows = rows.filter(version__lt=before)
        return [
            {**_decoded(session_id, found), "message_count": found.length}
            for found in rows.order_by("-version")[:limit]
        ]


def messages(
    store: Store, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
) -> list[dict[str, Any]]:
    """The messages behind the first `after` of the transcript of a version (None: the newest), in order.

    Only these are read. Raises `SessionNotFound`, `VersionNotFound`, `InvalidInput`, `CheckpointCorrupted`.
    """
    checked_number("after", after)
    if checked_number("limit", limit, least=1) > LIST_LIMIT:
        raise InvalidInput(f"limit is {limit}; {LIST_LIMIT} is the most.")
    with operation(store.using, writes=False):
        while (row := _wanted(store, session_id, version)) is not None:
            expected = max(min(row.length - after, limit), 0)
            rows = paths.read_messages(
                connections[store.using], row.segment_id, after + expected, ("body", "created_at"), after
            )
            if len(rows) == expected:
                return [_message(session_id, after + index, *each) for index, each in enumerate(rows)]
            if _is_stored(store, row):
                raise CheckpointCorrupted(session_id, "the transcript", f"{len(rows)} of {expected} messages are there")
        lookup.session(store, session_id)
        return []


def _wanted(store: Store, session_id: str, version: int | None) -> Checkpoint | None:
    return _newest(store, session_id) if version is None else _version(store, session_id, version)


def _version(store: Store, session_id: str, version: int) -> Checkpoint:
    row = _checkpoints(store, session_id).filter(version=_checked_version(version)).first()
    if row is None:
        lookup.session(store, session_id)
        raise VersionNotFound(session_id, version)
    return row


def _message(session_id: str, position: int, body: str, created_at: datetime | str) -> dict[str, Any]:
    """Statements of our own give times of SQLite as text, in UTC."""
    then = created_at if isinstance(created_at, datetime) else datetime.fromisoformat(created_at)
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    message = _parsed(session_id, f"message {position}", body)
    return {"position": position, "created_at": then.isoformat(), "message": message}


def _checkpoints(store: Store, session_id: str) -> QuerySet[Checkpoint]:
    store.flush(session_id)
    sessions = Session.objects.using(store.using).filter(
        workspace_id=store.workspace_id, session_id=checked("session id", session_id)
    )
    # Not a join: the newest version comes first from the index of one session, however little the planner knows of it.
    return Checkpoint.objects.using(store.using).filter(session=Subquery(sessions.values("pk")[:1]))


def _newest(store: Store, session_id: str) -> Checkpoint | None:
    """By a statement of its own: to make it anew for each load would cost more than to run it."""
    store.flush(session_id)
    session = [store.workspace_id, checked("session id", session_id)]
    return next(iter(Checkpoint.objects.using(store.using).raw(_newest_of(), session)), None)


@cache
def _newest_of() -> str:
    fields = [field.name for field in Checkpoint._meta.concrete_fields]
    workspace, name = column(Session, "workspace"), column(Session, "session_id")
    return (
        f"SELECT {columns(Checkpoint, fields)} FROM {table(Checkpoint)} WHERE {column(Checkpoint, 'session')} = "  # noqa: S608 - names of the models
        f"(SELECT id FROM {table(Session)} WHERE {workspace} = %s AND {name} = %s) "
        f"ORDER BY {column(Checkpoint, 'version')} DESC LIMIT 1"
    )


def loaded(store: Store, session_id: str, row: Checkpoint, *, first: int = 0) -> dict[str, Any]:
    """A checkpoint row as the dict that users get, with its transcript from message `first` on."""
    decoded = _decoded(session_id, row)
    field = f"the transcript of version {row.version}"
    rows = paths.read_bodies(connections[store.using], row.segment_id, row.length, first)
    found = first + len(rows)
    if found != row.length:
        raise CheckpointCorrupted(session_id, field, f"{found} of {row.length} messages are there")
    if rows and bytes(rows[-1][1]) != bytes(row.chain):
        raise CheckpointCorrupted(session_id, field, "its digest does not match")
    bodies = [body for body, _ in rows]
    return {"transcript": _transcript(session_id, bodies, first), **decoded}


def _transcript(session_id: str, bodies: list[str], first: int) -> list[Any]:
    """The messages of a transcript, decoded at once; one by one only to find the damaged one."""
    try:
        messages = parse(f"[{','.join(bodies)}]")
    except ValueError:
        messages = []
    if len(messages) == len(bodies):
        return list(messages)
    return [_parsed(session_id, f"message {index}", body) for index, body in enumerate(bodies, first)]


def _decoded(session_id: str, row: Checkpoint) -> dict[str, Any]:
    if row.schema_version > SCHEMA_VERSION:
        raise SchemaFromFuture(session_id, row.schema_version, SCHEMA_VERSION)
    where = f"of version {row.version}"
    return {
        "plan": _parsed(session_id, f"the plan {where}", row.plan, parse_object),
        "budget_spent_usd": _parsed(session_id, f"the budget {where}", row.budget_spent_usd, money.load),
        "version": row.version,
        "usage": _parsed(session_id, f"the usage {where}", row.usage, parse_object),
        "payload": _parsed(session_id, f"the payload {where}", row.payload, parse_object),
        "phase": row.phase,
        "run_id": None if row.run_id is None else str(row.run_id),
        "created_at": row.created_at.isoformat(),
        "schema_version": row.schema_version,
    }


def _parsed(session_id: str, field: str, text: str | None, using: Callable[[str], Any] = parse) -> Any:
    if text is None:
        return None
    try:
        return using(text)
    except (ValueError, ArithmeticError) as error:
        raise CheckpointCorrupted(session_id, field, str(error)) from error
