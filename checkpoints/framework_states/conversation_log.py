"""Conversations of a foreign framework as a log of entries: each message stored once, after the one it names.

An entry is a message of a transcript, found by its `id`, and what precedes it are the entries before it. A
conversation is a session with a record, opaque bytes beside its transcript. A fork shares the messages that it has in
common with its origin, as every fork does, and inherits them if the origin is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from django.db import connections

from checkpoints.calls import framework_interrupt_calls
from checkpoints.db.hot_statements import ChangedRow
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, SessionNotFound
from checkpoints.formats import digests
from checkpoints.framework_states import (
    read_and_insert_state_rows,
    state_store,
    write_cached_session_in_one_statement,
    write_transcript_version,
)
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import FrameworkState, Message, Segment, Session
from checkpoints.seals import row_seals
from checkpoints.sessions import prune_versions_and_delete_sessions
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession, TranscriptHead
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange
from checkpoints.versions import (
    new_messages_and_segments,
    read_messages_along_segments,
    save_version,
    validate_and_digest_transcript,
    version_seals_and_transcript_verification,
)
from checkpoints.versions.framework_value_blobs import Encoded
from checkpoints.versions.save_version import TranscriptEnd

#: Name of the one state that a record is, in the namespace of its framework.
_RECORD_ID = "conversation"


class LogConflict(Exception):
    """The record has changed since it was read, or an entry that a write names is gone. Nothing was written."""


@dataclass(frozen=True)
class NewEntry:
    """Entry to store: a message whose `id` is the entry's, and the entry before it; None if it is the first."""

    entry_id: str
    parent_id: str | None
    message: dict[str, Any]


@dataclass(frozen=True)
class StoredEntry:
    """Stored entry; `body` is the JSON text of its message."""

    entry_id: str
    parent_id: str | None
    body: str


@dataclass(frozen=True)
class NewRecord:
    """Record to store.

    Attributes:
        framework: Namespace of the framework's records.
        revision: Token of this record.
        content: Type and bytes of the record.
        head_id: Entry in which its history ends; None if it has none.
        usage: Numbers of tokens, for the version.
        cost: US dollars spent, for the version.
        deferred_call_ids: Calls whose results come later. The record has that outcome of theirs, which closes them.
    """

    framework: str
    revision: str
    content: Encoded
    head_id: str | None
    usage: dict[str, Any]
    cost: Decimal | Unchanged = UNCHANGED
    deferred_call_ids: Sequence[str] = ()


@dataclass(frozen=True)
class StoredRecord:
    """Stored record."""

    session_id: str
    revision: str
    content: Encoded


# reading


def read_conversation_record(store: Store, framework: str, session_id: str) -> StoredRecord | None:
    """Read the record of a session. Returns None if it has none. Raises `IntegrityError`, `InvalidIdentifier`."""
    validate_id("session id", session_id)
    with database_operation(store.using, writes=False):
        found = read_and_insert_state_rows.list_state_by_id_or_newest(
            store.using, (store.workspace_id, session_id), framework, _RECORD_ID
        )
        row_seals.verify_rows(found)
    return _convert_row_to_record(session_id, found[0]) if found else None


def is_cached_record_writable_at_revision(store: Store, framework: str, session_id: str, revision: str) -> bool:
    """Return whether this client has written the record of a session last, and in one statement may write it again.

    Nothing is read: another client may have replaced the record, which a write that expects `revision` notices.
    """
    known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(store, session_id)
    return known is not None and known.facts.get(_get_name_of_record_fact(framework)) == revision


def read_workspace_conversation_records(store: Store, framework: str) -> list[StoredRecord]:
    """Read all records of a framework, in no order. Raises `IntegrityError`."""
    rows = FrameworkState.objects.using(store.using).select_related("session")
    with database_operation(store.using, writes=False):
        found = list(rows.filter(session__workspace=store.workspace_id, namespace=framework, state_id=_RECORD_ID))
        row_seals.verify_rows(found)
    return [_convert_row_to_record(row.session.session_id, row) for row in found]


def _convert_row_to_record(session_id: str, row: FrameworkState) -> StoredRecord:
    return StoredRecord(session_id, row.run_key, (row.body_type, bytes(row.body)))


def read_entries_up_to(store: Store, head_id: str, *, limit: int | None = None) -> list[StoredEntry]:
    """Read the entries up to one, in order.

    Args:
        store: State of the client.
        head_id: Identifier of the last entry.
        limit: Largest number of entries, counted from the end. None: all.

    Returns:
        The entries. A message without an `id`, which somebody else has appended to the transcript, is none.

    Raises:
        LookupError: There is no such entry.
        IntegrityError: A message is not one that this library wrote.
        CheckpointCorrupted: A message is missing or altered.
    """
    with database_operation(store.using, writes=False):
        last = _get_message_row_of_entry(store, head_id)
        size = last.position + 1 if limit is None else limit
        while True:
            first = max(0, last.position - size)
            entries = _read_and_verify_entries_from_position(store, last, first)
            if limit is None or first == 0 or len(entries) > limit:
                return entries if limit is None else entries[max(0, len(entries) - limit) :]
            size = last.position + 1


def _read_and_verify_entries_from_position(store: Store, last: Message, first: int) -> list[StoredEntry]:
    """Read the entries from a position up to `last`; the first of them tells only which one is before the next."""
    connection = connections[store.using]
    rows = read_messages_along_segments.read_message_objects(connection, last.segment_id, last.position + 1, first)
    if len(rows) != last.position + 1 - first:
        _get_message_row_of_entry(store, str(last.message_id))  # deleted meanwhile
        raise CheckpointCorrupted(
            last.session.session_id, "the transcript", f"{last.position + 1 - first - len(rows)} messages are missing"
        )
    version_seals_and_transcript_verification.verify_consecutive_messages(connection, last.segment_id, rows)
    before = digests.EMPTY_CHAIN if first == 0 else bytes(rows[0].chain)
    bodies = [row.body for row in (rows if first == 0 else rows[1:])]
    if bodies and digests.compute_hash_chains(bodies, before)[-1] != bytes(last.chain):
        raise CheckpointCorrupted(last.session.session_id, "the transcript", "its messages do not match their digests")
    entries: list[StoredEntry] = []
    for row in rows:
        if row.message_id:
            entries.append(StoredEntry(row.message_id, entries[-1].entry_id if entries else None, row.body))
    return entries


def read_entry(store: Store, entry_id: str) -> StoredEntry:
    """Read one entry. Raises what `read_entries_up_to` raises."""
    return read_entries_up_to(store, entry_id, limit=1)[0]


def _get_message_row_of_entry(store: Store, entry_id: str) -> Message:
    row = _load_message_rows_by_entry_id(store, [entry_id]).get(entry_id)
    if row is None:
        raise LookupError(f"There is no entry {entry_id!r}.")
    return row


def _load_message_rows_by_entry_id(store: Store, entry_ids: Iterable[str]) -> dict[str, Message]:
    rows = Message.objects.using(store.using).select_related("session").defer("body")
    rows = rows.filter(session__workspace=store.workspace_id, message_id__in=list(entry_ids)).exclude(message_id="")
    return {row.message_id: row for row in rows.order_by("pk")}


# writing


def write_record_and_entries(
    store: Store,
    session_id: str,
    record: NewRecord,
    entries: Sequence[NewEntry],
    *,
    expected_revision: str | None,
    description: NewSessionFields,
    pairings: OpenOperations | None = None,
) -> None:
    """Store a record and its new entries, and the version that shows them, in one transaction.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        record: The record.
        entries: New entries, each after the one that it names.
        expected_revision: Revision of the record that is replaced; None if there is none yet.
        description: Description of the session if it does not exist.
        pairings: Operations that the calls of the client's last run had, if it has released the session since.

    Raises:
        LogConflict: The stored record has another revision, or a named entry does not exist.
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: A message has no exact JSON form.
        InvalidInput: The session has a transcript and is no conversation.
    """
    validate_id("session id", session_id)
    for entry in entries:
        validate_id("entry id", entry.entry_id)
    if expected_revision is not None and _try_store_entries_in_one_statement(
        store, session_id, record, entries, expected_revision
    ):
        store.notify_save_listeners(session_id)
        return
    origin_ids = set[str]()
    while True:
        try:
            _write_record_and_entries_under_session_locks(
                store, session_id, record, entries, expected_revision, description, pairings, origin_ids
            )
        except _OriginNotLocked as error:
            origin_ids.add(error.session_id)
        except SessionNotFound as error:
            if error.session_id not in origin_ids:
                raise LogConflict(f"There is no session {session_id!r}.") from error
            origin_ids.remove(error.session_id)  # it was deleted, which gave its messages to a fork
        else:
            break
    store.notify_save_listeners(session_id)


def _try_store_entries_in_one_statement(
    store: Store, session_id: str, record: NewRecord, entries: Sequence[NewEntry], expected_revision: str
) -> bool:
    """Store a record and entries after the last one, in one statement, if nobody has written since this client has.

    Returns whether that was possible.
    """
    known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(store, session_id)
    chains = _split_entries_into_parent_chains(entries)
    if known is None or len(chains) != 1 or entries[-1].entry_id != record.head_id or record.deferred_call_ids:
        return False
    version = known.row.latest_version
    facts = _build_cached_session_facts(record.framework, expected_revision, entries[0].parent_id, version)
    if not facts.items() <= known.facts.items():
        return False
    changed = ChangedRow(
        FrameworkState, {"namespace": record.framework, "state_id": _RECORD_ID}, _build_record_columns(record)
    )
    after = write_cached_session_in_one_statement.try_write_append_only_version_of_cached_session(
        store,
        session_id,
        replace(
            known, facts=_build_cached_session_facts(record.framework, record.revision, record.head_id, version + 1)
        ),
        VersionContent(None, added=[entry.message for entry in entries]),
        lambda _: [changed],
        VersionChange(usage=record.usage, budget_spent_usd=record.cost),
    )
    return after is not None


def _build_cached_session_facts(framework: str, revision: str, head_id: str | None, version: int) -> dict[str, str]:
    """Build what is known of a conversation: the revision of its record, and the last entry of the newest version."""
    head = f"{head_id or ''} in version {version}"
    return {_get_name_of_record_fact(framework): revision, f"{framework} head": head}


def _get_name_of_record_fact(framework: str) -> str:
    return f"{framework} record"


def _build_record_columns(record: NewRecord) -> dict[str, Any]:
    return {"run_key": record.revision, "body_type": record.content[0], "body": record.content[1]}


class _OriginNotLocked(Exception):
    """The transcript goes on after a message of another session, which has to be locked before the write.

    That session may be deleted meanwhile, which gives its messages to its forks.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


def _write_record_and_entries_under_session_locks(
    store: Store,
    session_id: str,
    record: NewRecord,
    entries: Sequence[NewEntry],
    expected_revision: str | None,
    description: NewSessionFields,
    pairings: OpenOperations | None,
    origin_ids: Collection[str],
) -> None:
    """Store a record with its new entries, with locks of the session and its origins. Raises `_OriginNotLocked`."""
    with (
        state_store.lock_or_create_session(
            store, session_id, description if expected_revision is None else None, source_ids=origin_ids
        ) as (row, owned_session),
        write_transcript_version.restore_owned_session_head_on_error(owned_session),
    ):
        operations = owned_session.operations if owned_session is not None else pairings or OpenOperations()
        write = _ConversationWrite(store, row, frozenset(origin_ids), owned_session, record, operations)
        write.write_record_and_entries(entries, expected_revision)


@dataclass
class _ConversationWrite:
    """One write to a locked session; `origin_ids` are the other ones that are locked."""

    store: Store
    row: Session
    origin_ids: Collection[str]
    owned_session: OwnedSession | None
    record: NewRecord
    operations: OpenOperations

    def write_record_and_entries(self, entries: Sequence[NewEntry], expected_revision: str | None) -> None:
        self._write_record_or_raise_conflict(expected_revision)
        versions = [
            self._write_messages_as_next_version(chain[0].parent_id, [entry.message for entry in chain])
            for chain in _split_entries_into_parent_chains(entries)
        ]
        if not entries or entries[-1].entry_id != self.record.head_id:
            versions.append(self._write_messages_as_next_version(self.record.head_id, []))
        if not any(versions):
            look_up_and_lock_rows.increment_session_revision(self.store, self.row.pk)
        facts = _build_cached_session_facts(
            self.record.framework, self.record.revision, self.record.head_id, self.row.latest_version
        )
        write_cached_session_in_one_statement.cache_session_after_commit(
            self.store, self.row.session_id, self.owned_session, {}, facts
        )

    def _write_record_or_raise_conflict(self, expected_revision: str | None) -> None:
        columns = _build_record_columns(self.record)
        states = FrameworkState.objects.using(self.store.using)
        stored = states.filter(session=self.row, namespace=self.record.framework, state_id=_RECORD_ID)
        is_changed = (
            stored.exists()
            if expected_revision is None
            else not stored.filter(run_key=expected_revision).update(**columns)
        )
        if is_changed:
            raise LogConflict(f"The record of session {self.row.session_id!r} has changed.")
        if expected_revision is not None:
            return
        if self.row.message_count:
            raise InvalidInput(
                f"The session {self.row.session_id!r} has messages and no record of a conversation. Use another id."
            )
        states.create(
            session=self.row,
            namespace=self.record.framework,
            state_id=_RECORD_ID,
            metadata_type="null",
            metadata=b"",
            **columns,
        )

    def _write_messages_as_next_version(self, parent_id: str | None, messages: Sequence[dict[str, Any]]) -> int | None:
        """Write the version whose transcript goes on after an entry. Returns None if nothing changes by it."""
        head = write_transcript_version.get_or_create_head_of_locked_session(self.store, self.row)
        start = self._find_transcript_head_ending_with_entry(parent_id, head)
        is_branch = (start.length, start.chain) != (head.length, head.chain)
        prepared = validate_and_digest_transcript.encode_and_digest_transcript(
            list(messages), after=start.chain, first=start.length
        )
        end = save_version.build_transcript_end_with_prepared_messages(prepared, start)
        if is_branch:
            repeated = save_version.count_results_repeated_after_edit(
                self.store, self.row.pk, self.row.session_id, self.operations, head, prepared, start.length
            )
            end = replace(end, repeated=repeated)
            head = write_transcript_version.move_head_to_segment(
                self.store, self.row, head, self._create_root_or_branch_segment(start)
            )
        return self._write_version_if_changed(head, end)

    def _write_version_if_changed(self, head: TranscriptHead, end: TranscriptEnd) -> int | None:
        change = VersionChange(usage=self.record.usage, budget_spent_usd=self.record.cost)
        newest = save_version.find_newest_version(self.store.using, self.row.pk)
        deferred = write_transcript_version.build_empty_call_results(self.record.deferred_call_ids)
        end = replace(end, said=[*end.said, *deferred])
        written = write_transcript_version.write_version_and_answered_calls_if_changed(
            self.store, self.row, self.owned_session, head, end, change, self.operations, newest
        )
        if written is None:
            return None
        if written.answers_calls and self.row.status == SessionStatus.READY:
            # The framework has answered a rejected call without making it, so that no run has passed the gate.
            framework_interrupt_calls.activate_session_if_no_approval_unused(self.store, self.row)
        self.row.message_count, self.row.head_chain, self.row.latest_version = end.length, end.chain, written.number
        return written.number

    def _find_transcript_head_ending_with_entry(self, entry_id: str | None, head: TranscriptHead) -> TranscriptHead:
        """Find the transcript that ends with an entry; the empty one for None."""
        if entry_id is None:
            return TranscriptHead(0, 0, digests.EMPTY_CHAIN, 0)
        if head.length:
            place = (connections[self.store.using], head.segment_id, head.length)
            last = read_messages_along_segments.read_message_field_rows(*place, ("message_id",), head.length - 1)
            if [message_id for (message_id,) in last] == [entry_id]:
                return head
        message = _load_message_rows_by_entry_id(self.store, [entry_id]).get(entry_id)
        if message is None:
            raise LogConflict(f"There is no entry {entry_id!r}.")
        if message.session_id != self.row.pk and message.session.session_id not in self.origin_ids:
            self.operations.mark_for_reload()  # what this write has changed in them is rolled back
            raise _OriginNotLocked(message.session.session_id)
        return TranscriptHead(message.segment_id, message.position + 1, bytes(message.chain), head.version)

    def _create_root_or_branch_segment(self, start: TranscriptHead) -> Segment:
        if start.length == 0:
            return Segment.objects.using(self.store.using).create(session=self.row)
        return new_messages_and_segments.create_branch_segment(self.store.using, self.row.pk, start, start.length)


def _split_entries_into_parent_chains(entries: Sequence[NewEntry]) -> list[list[NewEntry]]:
    """Split entries where one does not follow the one before it."""
    chains: list[list[NewEntry]] = []
    for entry in entries:
        if chains and chains[-1][-1].entry_id == entry.parent_id:
            chains[-1].append(entry)
        else:
            chains.append([entry])
    return chains


def delete_conversation_and_session(store: Store, framework: str, session_id: str, *, expected_revision: str) -> None:
    """Delete a conversation with its session. Messages that a fork has in its history stay with the fork.

    Raises:
        LogConflict: There is no record with this revision.
        StillNeeded: A run of another client drives the session, or a person has to decide.
    """
    validate_id("session id", session_id)

    def require_revision(row: Session) -> None:
        states = FrameworkState.objects.using(store.using).filter(session=row, namespace=framework)
        if not states.filter(state_id=_RECORD_ID, run_key=expected_revision).exists():
            raise LogConflict(f"The record of session {session_id!r} has changed.")

    try:
        prune_versions_and_delete_sessions.delete_session(store, session_id, condition=require_revision)
    except SessionNotFound as error:
        raise LogConflict(f"There is no session {session_id!r}.") from error
