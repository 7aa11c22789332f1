"""Load versions of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import DateTimeField, Subquery

from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db.sql_names_and_values import quote_column, quote_columns, quote_table
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, SchemaFromFuture, VersionNotFound
from checkpoints.formats import money_amount_codec
from checkpoints.formats.canonical_json import parse_json, parse_json_object
from checkpoints.generate_and_validate_ids import validate_id, validate_integer
from checkpoints.models import Checkpoint, Message, Session
from checkpoints.seals import row_seals, session_heads
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions import read_messages_along_segments, version_seals_and_transcript_verification

#: Largest number of entries of one list.
MAX_LIST_LIMIT = 1000


def load_latest_version(store: Store, session_id: str) -> dict[str, Any] | None:
    """Load the newest version of a session, or None if there is none. Raises `SessionNotFound` only for malformed
    ids."""
    with database_operation(store.using, writes=False):
        return _read_newest_version_with_retry(
            store, session_id, lambda row: load_transcript_and_build_version_dict(store, session_id, row)
        )


def load_latest_version_with_last_messages(store: Store, session_id: str, count: int) -> dict[str, Any] | None:
    """Load the newest version with only the last `count` messages of its transcript, and its `message_count`.

    Returns None if there is no version.
    """

    def build_version_dict_with_last_messages(row: Checkpoint) -> dict[str, Any]:
        tail = load_transcript_and_build_version_dict(store, session_id, row, first=max(0, row.length - count))
        return {**tail, "message_count": row.length}

    with database_operation(store.using, writes=False):
        return _read_newest_version_with_retry(store, session_id, build_version_dict_with_last_messages)


def _read_newest_version_with_retry(
    store: Store, session_id: str, read: Callable[[Checkpoint], dict[str, Any]]
) -> dict[str, Any] | None:
    """Call `read` with the newest version. If that version is removed meanwhile, read the one that is newest then."""
    while (row := _flush_and_find_newest_version(store, session_id)) is not None:
        try:
            return read(row)
        except CheckpointCorrupted:
            if _is_version_stored(store, row):
                raise
    return None


def load_version(store: Store, session_id: str, version: int) -> dict[str, Any]:
    """Load one version. Raises `SessionNotFound`, `VersionNotFound`, `CheckpointCorrupted`, `SchemaFromFuture`."""
    with database_operation(store.using, writes=False):
        row = _flush_and_find_version_or_none(store, session_id, version)
        if row is not None:
            try:
                return load_transcript_and_build_version_dict(store, session_id, row)
            except CheckpointCorrupted:
                if _is_version_stored(store, row):
                    raise
        look_up_and_lock_rows.get_session(store, session_id)
        raise VersionNotFound(session_id, version)


def _is_version_stored(store: Store, row: Checkpoint) -> bool:
    """Return whether a version still exists.

    Its messages are removed in the same transaction as its row, but they are read in a later statement: a transcript
    that looks damaged may have been removed in between.
    """
    return Checkpoint.objects.using(store.using).filter(pk=row.pk).exists()


def _get_version_number_in_range_or_zero(version: int) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"{version!r} is not a version number.")
    return version if 0 <= version < 2**62 else 0


def list_checkpoints(
    store: Store, session_id: str, *, before: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """List the versions below `before`, newest first, without transcripts. Raises `SessionNotFound`."""
    if validate_integer("limit", limit, minimum=1) > MAX_LIST_LIMIT:
        raise InvalidInput(f"limit is {limit}; {MAX_LIST_LIMIT} is the most.")
    if before is not None:
        validate_integer("before", before)
    store.flush_pending_writes(session_id)
    with database_operation(store.using, writes=False):
        row = look_up_and_lock_rows.get_session(store, session_id)
        rows = Checkpoint.objects.using(store.using).filter(session=row)
        if before is not None:
            rows = rows.filter(version__lt=before)
        return [
            {**_verify_version_and_decode_columns(session_id, checkpoint), "message_count": checkpoint.length}
            for checkpoint in rows.order_by("-version")[:limit]
        ]


def list_messages(
    store: Store, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
) -> list[dict[str, Any]]:
    """List the messages after the first `after` of the transcript of a version (None: the newest), in order.

    Only these are read. Raises `SessionNotFound`, `VersionNotFound`, `InvalidInput`, `CheckpointCorrupted`.
    """
    validate_integer("after", after)
    if validate_integer("limit", limit, minimum=1) > MAX_LIST_LIMIT:
        raise InvalidInput(f"limit is {limit}; {MAX_LIST_LIMIT} is the most.")
    with database_operation(store.using, writes=False):
        while (row := _flush_and_find_version_or_newest(store, session_id, version)) is not None:
            expected = max(min(row.length - after, limit), 0)
            row_seals.verify_row(row)
            connection = connections[store.using]
            messages = read_messages_along_segments.read_message_objects(
                connection, row.segment_id, after + expected, after
            )
            if len(messages) == expected:
                version_seals_and_transcript_verification.verify_consecutive_messages(
                    connection, row.segment_id, messages
                )
                return [_message_to_dict(session_id, message) for message in messages]
            if _is_version_stored(store, row):
                raise CheckpointCorrupted(
                    session_id, "the transcript", f"{len(messages)} of {expected} messages are there"
                )
        look_up_and_lock_rows.get_session(store, session_id)
        return []


def _flush_and_find_version_or_newest(store: Store, session_id: str, version: int | None) -> Checkpoint | None:
    return (
        _flush_and_find_newest_version(store, session_id)
        if version is None
        else _flush_and_get_version_row(store, session_id, version)
    )


def _flush_and_get_version_row(store: Store, session_id: str, version: int) -> Checkpoint:
    row = _flush_and_find_version_or_none(store, session_id, version)
    if row is None:
        look_up_and_lock_rows.get_session(store, session_id)
        raise VersionNotFound(session_id, version)
    return row


def _message_to_dict(session_id: str, row: Message) -> dict[str, Any]:
    message = _parse_column(session_id, f"message {row.position}", row.body)
    return {"position": row.position, "created_at": row.created_at.isoformat(), "message": message}


def _flush_and_find_version_or_none(store: Store, session_id: str, version: int) -> Checkpoint | None:
    """Find a version of a session. Raises `IntegrityError` if its session is altered, or has another name."""
    store.flush_pending_writes(session_id)
    sessions = Session.objects.using(store.using).filter(
        workspace_id=store.workspace_id, session_id=validate_id("session id", session_id)
    )
    versions = Checkpoint.objects.using(store.using).filter(session=Subquery(sessions.values("pk")[:1]))
    row = versions.select_related("session").filter(version=_get_version_number_in_range_or_zero(version)).first()
    if row is not None:
        look_up_and_lock_rows.verify_session_seal_and_name(row.session, session_id)
    return row


def _flush_and_find_newest_version(store: Store, session_id: str) -> Checkpoint | None:
    """Find the newest version by a raw statement: a queryset would take longer to build than the statement to run.

    If sealing is on, the same statement reads the head of the session. Raises `IntegrityError` if another version is
    the newest one of that head.
    """
    store.flush_pending_writes(session_id)
    connection = connections[store.using]
    is_sealed = get_seal_keys() is not None
    with connection.cursor() as cursor:
        cursor.execute(
            _build_newest_version_and_head_sql() if is_sealed else _build_newest_version_sql(),
            [store.workspace_id, validate_id("session id", session_id)],
        )
        values = cursor.fetchone()
    if values is None:
        return None
    if is_sealed:
        columns = len(_list_checkpoint_attribute_names())
        values, (*sealed_columns, seal) = values[:columns], values[columns:]
        if connection.vendor == "sqlite":  # which has no type for these
            for place in _list_indexes_of_sealed_session_times():
                if sealed_columns[place] is not None:
                    sealed_columns[place] = read_messages_along_segments.parse_raw_time(sealed_columns[place])
        newest_seal = values[_list_checkpoint_attribute_names().index("row_seal")]
        if values[0] is not None and not newest_seal:
            row_seals.verify_row(Checkpoint.from_db(store.using, _list_checkpoint_attribute_names(), values))
        session_heads.verify_session_columns_and_newest_version(sealed_columns, seal, newest_seal, session_id)
        if values[0] is None:
            return None
    row = Checkpoint.from_db(store.using, _list_checkpoint_attribute_names(), values)
    if connection.vendor == "sqlite":  # which has no types for these
        row.created_at = read_messages_along_segments.parse_raw_time(row.created_at)
        row.run_id = None if row.run_id is None else UUID(str(row.run_id))
    return row


@cache
def _list_checkpoint_attribute_names() -> tuple[str, ...]:
    return tuple(field.attname for field in Checkpoint._meta.concrete_fields)


@cache
def _list_indexes_of_sealed_session_times() -> tuple[int, ...]:
    fields = [Session._meta.get_field(name) for name in Session.sealed_fields]
    return tuple(place for place, field in enumerate(fields) if isinstance(field, DateTimeField))


@cache
def _build_newest_version_sql() -> str:
    fields = [field.name for field in Checkpoint._meta.concrete_fields]
    workspace, name = quote_column(Session, "workspace"), quote_column(Session, "session_id")
    return (
        f"SELECT {quote_columns(Checkpoint, fields)} FROM {quote_table(Checkpoint)} WHERE "  # noqa: S608 - names of the models
        f"{quote_column(Checkpoint, 'session')} = "
        f"(SELECT id FROM {quote_table(Session)} WHERE {workspace} = %s AND {name} = %s) "
        f"ORDER BY {quote_column(Checkpoint, 'version')} DESC LIMIT 1"
    )


@cache
def _build_newest_version_and_head_sql() -> str:
    versions, sessions = quote_table(Checkpoint), quote_table(Session)
    columns = [
        *(f"{versions}.{quote_column(Checkpoint, field.name)}" for field in Checkpoint._meta.concrete_fields),
        *(f"{sessions}.{quote_column(Session, name)}" for name in (*Session.sealed_fields, "row_seal")),
    ]
    workspace, name = quote_column(Session, "workspace"), quote_column(Session, "session_id")
    return (
        f"SELECT {', '.join(columns)} FROM {sessions} LEFT JOIN {versions} ON {versions}.id = "  # noqa: S608 - names of the models
        f"(SELECT newest.id FROM {versions} newest WHERE newest.{quote_column(Checkpoint, 'session')} = {sessions}.id "
        f"ORDER BY newest.{quote_column(Checkpoint, 'version')} DESC LIMIT 1) "
        f"WHERE {sessions}.{workspace} = %s AND {sessions}.{name} = %s"
    )


def load_transcript_and_build_version_dict(
    store: Store, session_id: str, row: Checkpoint, *, first: int = 0
) -> dict[str, Any]:
    """Convert a checkpoint row to the dict that users get, with its transcript from message `first` on."""
    columns = _verify_version_and_decode_columns(session_id, row)
    connection = connections[store.using]
    field = f"the transcript of version {row.version}"
    rows = read_messages_along_segments.read_message_bodies_with_last_chain(
        connection, row.segment_id, row.length, first
    )
    length = first + len(rows)
    if length != row.length:
        raise CheckpointCorrupted(session_id, field, f"{length} of {row.length} messages are there")
    if rows and bytes(rows[-1][1]) != bytes(row.chain):
        raise CheckpointCorrupted(session_id, field, "its digest does not match")
    bodies = [body for body, _ in rows]
    version_seals_and_transcript_verification.verify_transcript(
        connection, row.segment_id, bodies, first, bytes(row.chain)
    )
    return {"transcript": _decode_transcript(session_id, bodies, first), **columns}


def _decode_transcript(session_id: str, bodies: list[str], first: int) -> list[Any]:
    """Decode the messages of a transcript at once; one by one only to find the damaged one."""
    try:
        messages = parse_json(f"[{','.join(bodies)}]")
    except ValueError:
        messages = []
    if len(messages) == len(bodies):
        return list(messages)
    return [_parse_column(session_id, f"message {index}", body) for index, body in enumerate(bodies, first)]


def _verify_version_and_decode_columns(session_id: str, row: Checkpoint) -> dict[str, Any]:
    """Convert the columns of a version. Raises `IntegrityError`, `SchemaFromFuture`, `CheckpointCorrupted`."""
    row_seals.verify_row(row)
    if row.schema_version > SCHEMA_VERSION:
        raise SchemaFromFuture(session_id, row.schema_version, SCHEMA_VERSION)
    version_text = f"of version {row.version}"
    return {
        "plan": _parse_column(session_id, f"the plan {version_text}", row.plan, parse_json_object),
        "budget_spent_usd": _parse_column(
            session_id,
            f"the budget {version_text}",
            row.budget_spent_usd,
            money_amount_codec.parse_stored_amount_as_float_or_decimal,
        ),
        "version": row.version,
        "usage": _parse_column(session_id, f"the usage {version_text}", row.usage, parse_json_object),
        "payload": _parse_column(session_id, f"the payload {version_text}", row.payload, parse_json_object),
        "phase": row.phase,
        "run_id": None if row.run_id is None else str(row.run_id),
        "created_at": row.created_at.isoformat(),
        "schema_version": row.schema_version,
    }


def _parse_column(session_id: str, field: str, text: str | None, using: Callable[[str], Any] = parse_json) -> Any:
    if text is None:
        return None
    try:
        return using(text)
    except (ValueError, ArithmeticError) as error:
        raise CheckpointCorrupted(session_id, field, str(error)) from error
