"""Readable transcript of a foreign framework's session, written as versions beside the framework's own states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.db import connections

from checkpoints.calls import call_queries, framework_interrupt_calls, raw_sql_call_seals
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db.hot_statements import SaveBase
from checkpoints.exceptions import SchemaFromFuture, VersionConflict
from checkpoints.formats import digests, tool_calls_in_messages
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.plain_and_delta_compression import TextToCompress
from checkpoints.framework_states import message_usage_sums
from checkpoints.models import Checkpoint, Segment, Session
from checkpoints.store import optimistic_lock_on_sealed_heads
from checkpoints.store.checkpointer_state import OwnedSession, TranscriptHead
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import VersionChange, VersionState
from checkpoints.versions import (
    new_messages_and_segments,
    read_messages_along_segments,
    save_version,
    validate_and_digest_transcript,
)
from checkpoints.versions.opaque_bytes_as_message_differences import StoredMessage
from checkpoints.versions.save_version import TranscriptEnd


@dataclass(frozen=True)
class VersionContent:
    """What a version is to contain.

    Attributes:
        transcript: Whole transcript, in a message format that the library reads. None continues the one that is stored.
        answers: Messages with results of tool calls that are not in the transcript, such as those of a subgraph.
        payload: JSON object that belongs to this version alone.
        keep: Number of stored messages to continue from. None: all of them.
        added: Messages to append to the stored ones.
        always: Whether to write a version that differs in its payload alone.
        usage: Usage of the request that has brought the new messages, if none of them states it.
        model: Name of the model of that request; empty if it is not known.
    """

    transcript: Sequence[dict[str, Any]] | None
    answers: Sequence[dict[str, Any]] = ()
    payload: dict[str, Any] | None = None
    keep: int | None = None
    added: Sequence[dict[str, Any]] = ()
    always: bool = False
    usage: Mapping[str, Any] | None = None
    model: str = ""

    def list_usage_beside_messages(self) -> list[dict[str, Any]]:
        """Return what a message would state about the request that has brought the new messages."""
        return [] if self.usage is None else [{"usage": self.usage, "model": self.model}]


@dataclass(frozen=True)
class WrittenVersion:
    """Version that was written: its number, the digest of its transcript, its new messages, and whether it answers
    calls."""

    number: int
    chain: bytes
    messages: Sequence[StoredMessage]
    answers_calls: bool


def build_empty_call_results(call_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Build results that close calls whose own results are kept elsewhere, for `VersionContent.answers`."""
    return [{"type": "function_call_output", "call_id": call_id, "output": ""} for call_id in call_ids]


def write_version_of_content_or_none_if_unchanged(
    store: Store,
    row: Session,
    owned_session: OwnedSession | None,
    content: VersionContent,
    newest: Checkpoint | None,
    pairings: OpenOperations | None = None,
) -> WrittenVersion | None:
    """Write the next version if the transcript has changed or a call is answered; the calls it answers are closed.

    Part of a transaction of the caller, which has locked `row`, verified its owner and read the `newest` version.
    `pairings` are the operations that the calls of the client's last run had, if it has released the session since.

    Returns:
        The version; None if nothing has changed.

    Raises:
        NotRepresentable: A message has no exact JSON form.
        SchemaFromFuture: A newer version of this library has written the newest version.
        VersionConflict: The session was changed without its lock.
    """
    operations = owned_session.operations if owned_session is not None else pairings or OpenOperations()
    head_before = get_or_create_head_of_locked_session(store, row)
    head, end = _branch_head_if_needed_and_build_end(store, row, head_before, operations, content)
    usage = message_usage_sums.add_usage_of_messages(
        save_version.parse_version_state(row.session_id, newest).usage,
        [*_list_new_messages_that_state_usage(store, head_before, end), *content.list_usage_beside_messages()],
    )
    change = VersionChange(payload=content.payload, usage=usage)
    return write_version_and_answered_calls_if_changed(
        store, row, owned_session, head, end, change, operations, newest, always=content.always
    )


@contextmanager
def restore_owned_session_head_on_error(owned_session: OwnedSession | None) -> Iterator[None]:
    """Restore what this client knows of the transcript if the transaction is rolled back."""
    head = None if owned_session is None else owned_session.head
    try:
        yield
    except BaseException:
        if owned_session is not None and head is not None:
            owned_session.head = head
        raise


def get_or_create_head_of_locked_session(store: Store, row: Session) -> TranscriptHead:
    """Return the end of the transcript of a locked session. A new session gets its first segment."""
    if row.head_segment_id is None:
        row.head_segment = Segment.objects.using(store.using).create(session=row)
        Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=row.head_segment)
    return save_version.get_session_transcript_head(row)


def move_head_to_segment(store: Store, row: Session, head: TranscriptHead, segment: Segment) -> TranscriptHead:
    """Let the next version of a locked session continue in another segment. Returns the head to continue from."""
    Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=segment)
    row.head_segment = segment
    return replace(head, segment_id=segment.pk, state=None, snapshot=None)


def write_version_and_answered_calls_if_changed(
    store: Store,
    row: Session,
    owned_session: OwnedSession | None,
    head: TranscriptHead,
    end: TranscriptEnd,
    change: VersionChange,
    operations: OpenOperations,
    newest: Checkpoint | None,
    *,
    always: bool = False,
) -> WrittenVersion | None:
    """Write the version that continues from `head` to `end`, if anything changes by it, and mark calls that it answers.

    Returns None if nothing has changed. Raises what `write_version_of_content_or_none_if_unchanged` raises.
    """
    using = store.using
    answered_rows: list[int] = []
    if end.new_result_counts:
        answered_rows = operations.list_row_keys_answered_by_results(
            end.new_result_counts, lambda: call_queries.list_unanswered_tool_calls(store, row.pk)
        )
        framework_interrupt_calls.complete_approved_interrupt_calls(
            store, answered_rows, _get_result_texts_by_call_id(end.said)
        )
    if newest is not None and newest.schema_version > SCHEMA_VERSION:
        raise SchemaFromFuture(row.session_id, newest.schema_version, SCHEMA_VERSION)
    before = save_version.parse_version_state(row.session_id, newest)
    state = change.apply_to(before)
    is_unchanged = (end.length, end.chain) == (row.message_count, bytes(row.head_chain))
    if (
        not always
        and is_unchanged
        and (state.usage, state.budget) == (before.usage, before.budget)
        and not answered_rows
    ):
        return None
    stored_end = _compress_bodies_on_sqlite(using, end)
    if owned_session is not None:
        owned_session.head = head
        version = save_version.execute_save_statement_if_at_head(
            store, owned_session, head, stored_end, state, head.version
        )
    else:
        answered = raw_sql_call_seals.compute_answered_call_seals(using, None, answered_rows, head.version + 1)
        base = SaveBase(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version)
        sealed_head = optimistic_lock_on_sealed_heads.lock_head_and_seal_if_unsealed(using, row.pk)
        version, _ = save_version.write_version_if_session_at_base(
            using, base, stored_end, state, None, answered, sealed_head
        )
    if version is None:
        raise VersionConflict(row.session_id, head.version, row.latest_version)
    messages = [StoredMessage(head.segment_id, message.position, message.body) for message in end.new]
    return WrittenVersion(version, end.chain, messages, bool(answered_rows))


def _compress_bodies_on_sqlite(using: str, end: TranscriptEnd) -> TranscriptEnd:
    """Compress the new messages where the database does not do that itself.

    Transcripts of frameworks are written for the pages: the framework reads its own form of them.
    """
    if connections[using].vendor != "sqlite":
        return end
    return replace(end, new=[each._replace(body=TextToCompress(each.body)) for each in end.new])


def build_next_version_if_append_only(
    row: Session, before: VersionState, content: VersionContent, change: VersionChange | None = None
) -> tuple[TranscriptEnd, VersionState, Sequence[StoredMessage]] | None:
    """Build a version that only appends messages, none of which answers a call.

    Args:
        row: The session, with its first segment.
        before: State of its newest version beside the transcript.
        content: Content of the version.
        change: Changes of the state. None: only the payload of the content.

    Returns:
        The end of the transcript, the state beside it and the new messages; None for another version.

    Raises:
        NotRepresentable: A message has no exact JSON form.
    """
    if content.transcript is not None or content.answers or content.keep is not None or not content.added:
        return None
    head = save_version.get_session_transcript_head(row)
    end = save_version.build_transcript_end_with_added_messages(head, list(content.added))
    if end.new_result_counts:
        return None
    if change is None:
        usage = message_usage_sums.add_usage_of_messages(
            before.usage, [*end.said, *content.list_usage_beside_messages()]
        )
        change = VersionChange(payload=content.payload, usage=usage)
    state = change.apply_to(before)
    return end, state, [StoredMessage(head.segment_id, message.position, message.body) for message in end.new]


def _list_new_messages_that_state_usage(
    store: Store, head_before: TranscriptHead, end: TranscriptEnd
) -> list[dict[str, Any]]:
    """List the new messages that state a usage, without those that were in the transcript before it was rewritten."""
    new = [(row.body, message) for row, message in zip(end.new, end.said, strict=False) if "usage" in message]
    first = end.length - len(end.new)
    if not new or first >= head_before.length:
        return [message for _, message in new]
    rows = read_messages_along_segments.read_message_field_rows(
        connections[store.using], head_before.segment_id, head_before.length, ("body",), first
    )
    before = Counter(body for (body,) in rows)
    repeated = before & Counter(body for body, _ in new)
    messages = []
    for body, message in new:
        if repeated[body]:
            repeated[body] -= 1
        else:
            messages.append(message)
    return messages


def _get_result_texts_by_call_id(said: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the text of each result by call id."""
    return {
        call_id: content if isinstance(content := message.get("content"), str) else to_canonical_json(content)
        for message in said
        for call_id in tool_calls_in_messages.list_call_ids_of_results(message)
    }


def _branch_head_if_needed_and_build_end(
    store: Store, row: Session, head: TranscriptHead, operations: OpenOperations, content: VersionContent
) -> tuple[TranscriptHead, TranscriptEnd]:
    """Return the head to continue from, in a new segment if the transcript branches, and the end of the version."""
    if content.transcript is None:
        kept = head
        if content.keep is not None and content.keep < head.length:
            head = _create_branch_segment_and_move_head(store, row, head, content.keep)
            kept = replace(head, length=content.keep, chain=_read_chain_at_length(store, head, content.keep))
        end = save_version.build_transcript_end_with_added_messages(kept, list(content.added))
        return head, replace(end, said=[*end.said, *content.answers])
    prepared = validate_and_digest_transcript.encode_and_digest_transcript(list(content.transcript))
    keep, repeated = head.length, Counter[str]()
    if not validate_and_digest_transcript.does_transcript_continue_head(prepared, head):
        keep = new_messages_and_segments.count_messages_shared_with_head(store.using, prepared, head)
        repeated = save_version.count_results_repeated_after_edit(
            store, row.pk, row.session_id, operations, head, prepared, keep
        )
        head = _create_branch_segment_and_move_head(store, row, head, keep)
    end = save_version.build_transcript_end_after_kept_messages(prepared, keep, None)
    return head, replace(end, said=[*end.said, *content.answers], repeated=repeated)


def _read_chain_at_length(store: Store, head: TranscriptHead, length: int) -> bytes:
    """Return the digest of the first `length` messages."""
    if not length:
        return digests.EMPTY_CHAIN
    ((chain,),) = read_messages_along_segments.read_message_field_rows(
        connections[store.using], head.segment_id, length, ("chain",), length - 1
    )
    return bytes(chain)


def _create_branch_segment_and_move_head(store: Store, row: Session, head: TranscriptHead, keep: int) -> TranscriptHead:
    return move_head_to_segment(
        store, row, head, new_messages_and_segments.create_branch_segment(store.using, row.pk, head, keep)
    )
