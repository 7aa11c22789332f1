"""Write versions of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction

from checkpoints.calls import call_queries, raw_sql_call_seals
from checkpoints.calls.raw_sql_call_seals import AnsweredCalls
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db import hot_statements
from checkpoints.db.execute_cached_row_sql import load_rows_where
from checkpoints.db.hot_statements import ChangedRow, NewMessage, NewRows, NewVersion, SaveBase
from checkpoints.db.sql_names_and_values import quote_column
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import CostBasis, Phase
from checkpoints.exceptions import CheckpointCorrupted, StorageUnavailable, VersionConflict
from checkpoints.formats import digests, money_amount_codec, tool_calls_in_messages
from checkpoints.formats.canonical_json import parse_json, parse_json_object, to_canonical_json
from checkpoints.generate_and_validate_ids import validate_integer
from checkpoints.models import Checkpoint, Session
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.session_heads import SessionHead
from checkpoints.store import look_up_and_lock_rows, optimistic_lock_on_sealed_heads
from checkpoints.store.checkpointer_state import OwnedSession, TranscriptHead, UnconfirmedSave
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import VersionChange, VersionState, count_total_tokens
from checkpoints.tracing import SAVE, SESSION, open_span
from checkpoints.versions import (
    new_messages_and_segments,
    read_messages_along_segments,
    validate_and_digest_transcript,
    version_seals_and_transcript_verification,
)
from checkpoints.versions.validate_and_digest_transcript import PreparedTranscript


def save_next_version_of_transcript(
    store: Store,
    session_id: str,
    transcript: Sequence[dict[str, Any]],
    change: VersionState | VersionChange,
    *,
    expected_version: int | None = None,
) -> int:
    """Save the next version from a whole transcript; only its new messages are stored. Returns the version's number.

    A `VersionChange` is applied to the state of the previous version.
    """
    with open_span(SAVE, {SESSION: session_id}):
        change = change.to_state_or_unresolved_change() if isinstance(change, VersionChange) else change
        if expected_version is not None:
            validate_integer("expected_version", expected_version)
        owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
        version = None
        if owned_session.unanswered is not None:
            state, end = (
                _resolve_version_state(store, owned_session, change),
                _build_transcript_end_if_continued(owned_session.head, transcript)
                or _build_transcript_end_without_new_messages(transcript),
            )
            version = _adopt_unconfirmed_and_find_repeated_version(
                store, owned_session, owned_session.unanswered, end, state
            )
        if version is None:
            version = _save_transcript_recovering_lost_commit(
                store, owned_session, transcript, change, expected_version
            )
        store.notify_save_listeners(session_id)
        return version


def _save_transcript_recovering_lost_commit(
    store: Store,
    owned_session: OwnedSession,
    transcript: Sequence[dict[str, Any]],
    change: VersionState | VersionChange,
    expected_version: int | None,
) -> int:
    head = owned_session.head
    state, end = (
        _resolve_version_state(store, owned_session, change),
        _build_transcript_end_if_continued(head, transcript),
    )
    try:
        with database_operation(store.using):
            version = (
                None
                if end is None
                else execute_save_statement_if_at_head(store, owned_session, head, end, state, expected_version)
            )
            if version is None:
                version = _save_version_under_session_lock(store, owned_session, transcript, state, expected_version)
            return version
    except StorageUnavailable as error:
        return _adopt_version_after_lost_commit(
            store,
            owned_session,
            _build_unconfirmed_save(head, end or _build_transcript_end_without_new_messages(transcript), state),
            error,
        )


def _resolve_version_state(
    store: Store, owned_session: OwnedSession, change: VersionState | VersionChange
) -> VersionState:
    """Return the state of the next version beside its transcript."""
    if isinstance(change, VersionState):
        return change
    return change.apply_to(get_or_load_newest_version_state(store, owned_session, owned_session.head))


def _build_transcript_end_if_continued(
    head: TranscriptHead, transcript: Sequence[dict[str, Any]]
) -> TranscriptEnd | None:
    """Return the messages that a transcript adds to the one that ends at `head`; None if it does not continue that
    one."""
    is_comparable = head.snapshot is not None and isinstance(transcript, list | tuple)
    if is_comparable and new_messages_and_segments.starts_with_copied_messages(head.snapshot or [], transcript):
        added = transcript[head.length :]
        copy = new_messages_and_segments.copy_messages_for_comparison(added)
        end = build_transcript_end_with_added_messages(head, added)
        return replace(end, snapshot=None if copy is None else (head.snapshot or []) + copy)
    prepared, copy = _encode_and_copy_transcript(transcript)
    return (
        build_transcript_end_after_kept_messages(prepared, head.length, copy)
        if validate_and_digest_transcript.does_transcript_continue_head(prepared, head)
        else None
    )


def _encode_and_copy_transcript(transcript: Sequence[dict[str, Any]]) -> tuple[PreparedTranscript, list[Any] | None]:
    """Encode a whole transcript and copy it."""
    copy = None
    if isinstance(transcript, list | tuple):
        transcript = list(transcript)
        copy = new_messages_and_segments.copy_messages_for_comparison(transcript)
    return validate_and_digest_transcript.encode_and_digest_transcript(transcript), copy


def save_next_version_of_new_messages(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
) -> int:
    """Save the next version from the messages that are new since `expected_version`. Returns its number."""
    with open_span(SAVE, {SESSION: session_id}):
        validate_integer("expected_version", expected_version)
        owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
        head = owned_session.head
        if head.version != expected_version:
            head = _lock_session_and_load_transcript_head(store, owned_session)
        if head.version != expected_version:
            raise VersionConflict(session_id, expected_version, head.version)
        end = build_transcript_end_with_added_messages(head, new)
        state = change.apply_to(get_or_load_newest_version_state(store, owned_session, head))
        version = None
        if owned_session.unanswered is not None:
            version = _adopt_unconfirmed_and_find_repeated_version(
                store, owned_session, owned_session.unanswered, end, state
            )
        if version is None:
            version = _append_messages_and_adopt_after_lost_commit(store, owned_session, head, end, state)
        store.notify_save_listeners(session_id)
        return version


def _append_messages_and_adopt_after_lost_commit(
    store: Store, owned_session: OwnedSession, head: TranscriptHead, end: TranscriptEnd, state: VersionState
) -> int:
    try:
        with database_operation(store.using):
            version = execute_save_statement_if_at_head(store, owned_session, head, end, state, head.version)
            if version is None:
                raise _lock_and_build_version_conflict(store, owned_session, head.version)
            return version
    except StorageUnavailable as error:
        return _adopt_version_after_lost_commit(store, owned_session, _build_unconfirmed_save(head, end, state), error)


@dataclass(frozen=True)
class TranscriptEnd:
    """Messages that a save appends, and the end of the transcript after them."""

    new: list[NewMessage]
    length: int
    chain: bytes
    #: Copy of the whole transcript up to there, if whole transcripts are given: an append needs none.
    snapshot: list[Any] | None = None
    #: Appended messages as given, and the number of their results that are already in the transcript.
    said: Sequence[dict[str, Any]] = ()
    repeated: Counter[str] = field(default_factory=Counter)

    @property
    def new_result_counts(self) -> Counter[str]:
        """Number of new results by call id."""
        return _count_results_by_call_id(self.said) - self.repeated


def _count_results_by_call_id(messages: Sequence[Any]) -> Counter[str]:
    return Counter(
        call_id for message in messages for call_id in tool_calls_in_messages.list_call_ids_of_results(message)
    )


def build_transcript_end_after_kept_messages(
    prepared: PreparedTranscript, keep: int, copy: list[Any] | None
) -> TranscriptEnd:
    chain = prepared.chains[-1] if prepared.chains else digests.EMPTY_CHAIN
    new_messages = new_messages_and_segments.build_new_messages(prepared, keep, keep)
    return TranscriptEnd(new_messages, len(prepared.chains), chain, copy, prepared.messages[keep:])


def _build_transcript_end_without_new_messages(transcript: Sequence[dict[str, Any]]) -> TranscriptEnd:
    prepared, copy = _encode_and_copy_transcript(transcript)
    return build_transcript_end_after_kept_messages(prepared, len(prepared.chains), copy)


def build_transcript_end_with_added_messages(head: TranscriptHead, added: Sequence[dict[str, Any]]) -> TranscriptEnd:
    """Append `added` to the transcript that ends at `head`. Raises `NotRepresentable`, `TooLarge`."""
    if not added and isinstance(added, list | tuple):
        return TranscriptEnd([], head.length, head.chain, head.snapshot)
    return build_transcript_end_with_prepared_messages(
        validate_and_digest_transcript.encode_and_digest_transcript(added, after=head.chain, first=head.length), head
    )


def build_transcript_end_with_prepared_messages(prepared: PreparedTranscript, head: TranscriptHead) -> TranscriptEnd:
    """Build the end of the transcript that continues from `head` with prepared messages."""
    new_messages = new_messages_and_segments.build_new_messages(prepared, 0, head.length)
    chain = prepared.chains[-1] if prepared.chains else head.chain
    return TranscriptEnd(new_messages, head.length + len(new_messages), chain, said=prepared.messages)


def _build_unconfirmed_save(head: TranscriptHead, end: TranscriptEnd, state: VersionState) -> UnconfirmedSave:
    return UnconfirmedSave(head, TranscriptHead(0, end.length, end.chain, 0, state, end.snapshot), state)


def _adopt_version_after_lost_commit(
    store: Store, owned_session: OwnedSession, lost_save: UnconfirmedSave, error: StorageUnavailable
) -> int:
    """Read back whether the version is stored, after a commit whose answer was lost, instead of writing it twice.

    If the database cannot be reached, the next save reads it back first.
    """
    owned_session.unanswered = lost_save if error.may_have_happened else None
    with open_transaction_to_read_back_lost_commit(store.using, error):
        version = _adopt_unconfirmed_version_if_stored(store, owned_session, lost_save)
    if version is None:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return version


def _adopt_unconfirmed_and_find_repeated_version(
    store: Store, owned_session: OwnedSession, lost_save: UnconfirmedSave, end: TranscriptEnd, state: VersionState
) -> int | None:
    """Return the version of a save whose answer was lost, if this save repeats it."""
    with database_operation(store.using, writes=False), transaction.atomic(using=store.using):
        version = _adopt_unconfirmed_version_if_stored(store, owned_session, lost_save)
    is_same = (end.length, end.chain, state) == (lost_save.after.length, lost_save.after.chain, lost_save.state)
    return version if is_same else None


def _adopt_unconfirmed_version_if_stored(
    store: Store, owned_session: OwnedSession, lost_save: UnconfirmedSave
) -> int | None:
    """Continue from the version whose answer was lost, and return its number: only this run writes under its fence, so
    it is the newer one that is equal. None if it was not stored."""
    look_up_and_lock_rows.get_session(store, owned_session.session_id, lock=True)
    end_head, state = lost_save.after, lost_save.state
    checkpoint = (
        Checkpoint.objects.using(store.using)
        .filter(
            session_id=owned_session.pk,
            run_id=owned_session.run_id,
            version__gt=lost_save.before.version,
            length=end_head.length,
        )
        .filter(phase=state.phase, plan=state.plan, budget_spent_usd=state.budget)
        .filter(usage=state.usage, payload=state.payload)
        .order_by("-version")
        .first()
    )
    owned_session.unanswered = None
    if checkpoint is None or bytes(checkpoint.chain) != end_head.chain:
        return None
    owned_session.operations.mark_for_reload()
    owned_session.head = replace(end_head, segment_id=checkpoint.segment_id, version=checkpoint.version)
    return checkpoint.version


def find_version_of_repeated_save(
    store: Store,
    owned_session: OwnedSession,
    messages: Sequence[dict[str, Any]],
    change: VersionChange,
    expected_version: int,
    *,
    whole: bool,
    since: datetime,
) -> int | None:
    """Return the version after `expected_version` if this run wrote just what is given, and after `since`; else None.

    For a caller that repeats a save because it got no answer, and whose first attempt, at `since`, another process may
    have served. `whole` says that `messages` are the whole transcript.
    """
    with database_operation(store.using, writes=False):
        rows = Checkpoint.objects.using(store.using).filter(
            session=owned_session.pk, version__in=[expected_version, expected_version + 1]
        )
        by_number = {row.version: row for row in rows}
    before, after = by_number.get(expected_version), by_number.get(expected_version + 1)
    if after is None or after.run_id != owned_session.run_id or (before is None and expected_version > 0):
        return None
    if after.created_at < since:
        return None
    if whole:
        end = _build_transcript_end_without_new_messages(messages)
    else:
        head = build_empty_transcript_head(0) if before is None else build_transcript_head_from_version_row(before)
        end = build_transcript_end_with_added_messages(head, messages)
    state = change.apply_to(parse_version_state(owned_session.session_id, before))
    stored = parse_version_state(owned_session.session_id, after)
    same = (end.length, end.chain, state) == (after.length, bytes(after.chain), stored)
    return after.version if same else None


def _save_version_under_session_lock(
    store: Store,
    owned_session: OwnedSession,
    transcript: Sequence[dict[str, Any]],
    state: VersionState,
    expected_version: int | None,
) -> int:
    """Save under a row lock: the slow path, taken if the transcript does not simply continue and has to branch."""
    prepared, copy = _encode_and_copy_transcript(transcript)
    with transaction.atomic(using=store.using):
        row = _lock_owned_session_and_verify_transcript_end(store, owned_session)
        head, keep, repeated = get_session_transcript_head(row), row.message_count, Counter[str]()
        if expected_version is not None and expected_version != head.version:
            raise VersionConflict(owned_session.session_id, expected_version, head.version)
        if not validate_and_digest_transcript.does_transcript_continue_head(prepared, head):
            keep = new_messages_and_segments.count_messages_shared_with_head(store.using, prepared, head)
            repeated = count_results_repeated_after_edit(
                store, owned_session.pk, owned_session.session_id, owned_session.operations, head, prepared, keep
            )
            segment = new_messages_and_segments.create_branch_segment(store.using, owned_session.pk, head, keep)
            Session.objects.using(store.using).filter(pk=owned_session.pk).update(head_segment=segment)
            head = TranscriptHead(segment.pk, head.length, head.chain, head.version)
        end = replace(build_transcript_end_after_kept_messages(prepared, keep, copy), repeated=repeated)
        version = execute_save_statement_if_at_head(store, owned_session, head, end, state, head.version)
        if version is None:
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)
        return version


def count_results_repeated_after_edit(
    store: Store,
    session_pk: int,
    session_id: str,
    operations: OpenOperations,
    head: TranscriptHead,
    prepared: PreparedTranscript,
    first: int,
) -> Counter[str]:
    """Count the results that an edited transcript has from message `first` on and that are not new in it, by call id.

    `prepared` is the edited transcript, or its messages from `first` on. The results answer no call made since the last
    version, even one with the same call id. Results are new behind the last message that the transcript up to `head`
    has as well, and as far as there are more of them than in that one.
    """
    edited, edited_bodies = prepared.messages[first - prepared.first :], prepared.bodies[first - prepared.first :]
    results = _count_results_by_call_id(edited)
    call_ids = operations.filter_paired_call_ids(
        results, lambda: call_queries.list_unanswered_tool_calls(store, session_pk)
    )
    if not call_ids:
        return Counter()
    texts = [to_canonical_json(call_id)[1:-1] for call_id in call_ids]
    bodies = [
        body
        for body, _ in read_messages_along_segments.read_message_bodies_with_last_chain(
            connections[store.using], head.segment_id, head.length, first
        )
    ]
    try:
        earlier_results = _count_results_by_call_id(
            [parse_json(body) for body in bodies if any(text in body for text in texts)]
        )
    except ValueError as error:
        raise CheckpointCorrupted(session_id, "a message of its transcript", str(error)) from error
    stored_bodies = set(bodies)
    kept = max((index + 1 for index, body in enumerate(edited_bodies) if body in stored_bodies), default=0)
    return results - (_count_results_by_call_id(edited[kept:]) | (results - earlier_results))


def execute_save_statement_if_at_head(
    store: Store,
    owned_session: OwnedSession,
    head: TranscriptHead,
    end: TranscriptEnd,
    state: VersionState,
    expected: int | None,
) -> int | None:
    """Run the save statement, from `head` to `end`. Returns None if the session is not at `head`."""
    results = end.new_result_counts
    answered_rows = (
        owned_session.operations.list_row_keys_answered_by_results(
            results, lambda: call_queries.list_unanswered_tool_calls(store, owned_session.pk)
        )
        if results
        else []
    )
    start_version = head.version if expected is None else expected
    base = SaveBase(owned_session.pk, owned_session.fence, head.segment_id, head.length, head.chain, start_version)

    def write_version_at_known_head() -> int | None:
        answered = raw_sql_call_seals.compute_answered_call_seals(
            store.using, owned_session, answered_rows, start_version + 1
        )
        sealed_head = optimistic_lock_on_sealed_heads.get_or_load_head_and_seal_if_unsealed(store.using, owned_session)
        content = VersionToWrite(end, state, answered)
        return write_versions_if_session_at_base(
            store.using, base, [content], owned_session.run_id, sealed_head, owned_session=owned_session
        )[0]

    version = write_version_at_known_head()
    if version is None:
        version = optimistic_lock_on_sealed_heads.lock_session_and_retry_write_if_sealed(
            store.using, owned_session, write_version_at_known_head
        )
    if version is not None:
        raw_sql_call_seals.forget_sealed_calls(owned_session, answered_rows)
        owned_session.head = TranscriptHead(head.segment_id, end.length, end.chain, version, state, end.snapshot)
        owned_session.operations.drop_answered_operations(results)
        for call_id in results:
            owned_session.open_calls.pop(call_id, None)
    return version


@dataclass(frozen=True)
class VersionToWrite:
    """Version to write: its new messages, its state beside them, and the calls whose results it contains.

    `created_at` is its time; None stands for that of the database.
    """

    end: TranscriptEnd
    state: VersionState
    answered: AnsweredCalls = field(default_factory=AnsweredCalls)
    created_at: datetime | None = None


def write_version_if_session_at_base(
    using: str,
    base: SaveBase,
    end: TranscriptEnd,
    state: VersionState,
    run_id: UUID | None,
    answered: AnsweredCalls,
    sealed_head: SessionHead | None,
    *,
    revision: int | None = None,
    additional_rows: Sequence[NewRows | ChangedRow] = (),
) -> tuple[int | None, SessionHead | None]:
    """Write the version that continues from `base` to `end`, as `write_versions_if_session_at_base` does."""
    content = VersionToWrite(end, state, answered)
    return write_versions_if_session_at_base(
        using, base, [content], run_id, sealed_head, revision=revision, additional_rows=additional_rows
    )


def write_versions_if_session_at_base(
    using: str,
    base: SaveBase,
    contents: Sequence[VersionToWrite],
    run_id: UUID | None,
    sealed_head: SessionHead | None,
    *,
    owned_session: OwnedSession | None = None,
    updated_at: datetime | None = None,
    revision: int | None = None,
    additional_rows: Sequence[NewRows | ChangedRow] = (),
) -> tuple[int | None, SessionHead | None]:
    """Write versions that continue from `base` one after the other, for a run or for none.

    Args:
        using: Connection alias.
        base: State of the session that the first version continues from.
        contents: What the versions contain, at least one.
        run_id: Run that writes them; None if there is none.
        sealed_head: Head of the session before; None if sealing is off.
        owned_session: Session of the run, which remembers its head after the last one; None if there is no run.
        updated_at: Time of the session's newest activity; None stands for that of the database.
        revision: Expected revision of the session; None: any.
        additional_rows: Other rows to insert, only with one version and on PostgreSQL.

    Returns:
        The number of the last one, or None if the session is not at `base`; and the head of the session after, if that
        is known.
    """
    prepared = prepare_versions_and_record_expected_head(base, contents, run_id, sealed_head)
    connection = connections[using]
    version = hot_statements.save_versions_if_session_unchanged(
        connection,
        base,
        {
            **build_session_columns_after_versions(contents),
            **({} if updated_at is None else {"updated_at": updated_at}),
        },
        prepared.versions,
        prepared.head,
        revision=revision,
        additional_rows=additional_rows,
    )
    after = None if version is None else prepared.head
    optimistic_lock_on_sealed_heads.record_written_head(connection, after, owned_session)
    return version, after


class PreparedVersions(NamedTuple):
    """Versions with their seals, and the head of their session after them; None if sealing is off."""

    versions: Sequence[NewVersion]
    head: SessionHead | None


def prepare_versions_and_record_expected_head(
    base: SaveBase, contents: Sequence[VersionToWrite], run_id: UUID | None, sealed_head: SessionHead | None
) -> PreparedVersions:
    """Build the rows of versions that continue from `base`. The arguments are those of
    `write_versions_if_session_at_base`."""
    versions = [
        version_seals_and_transcript_verification.build_version_with_seals(
            base, number, _build_version_columns(base, content, run_id), content.end.new, content.answered.rows
        )
        for number, content in enumerate(contents, base.version + 1)
    ]
    difference = 0
    for content in contents:
        difference += content.answered.difference
    return PreparedVersions(
        versions,
        version_seals_and_transcript_verification.compute_and_record_head_expected_after_versions(
            sealed_head, base.version, versions, difference
        ),
    )


def build_session_columns_after_versions(contents: Sequence[VersionToWrite]) -> dict[str, Any]:
    """Build the columns of a session that repeat those of its newest version, which is the last one of `contents`."""
    last = contents[-1]
    states_cost = any(content.state.is_cost_stated for content in contents)
    return {
        "head_chain": last.end.chain,
        "message_count": last.end.length,
        "budget_spent_usd": money_amount_codec.round_amount_to_millionth(last.state.budget),
        "total_tokens": count_total_tokens(last.state.usage),
        **({"cost_basis": CostBasis.STATED} if states_cost else {}),
    }


def _build_version_columns(base: SaveBase, content: VersionToWrite, run_id: UUID | None) -> dict[str, Any]:
    end, state = content.end, content.state
    return {
        "run": run_id,
        "phase": state.phase.value,
        "segment": base.segment_id,
        "length": end.length,
        "chain": end.chain,
        "plan": state.plan,
        "budget_spent_usd": state.budget,
        "usage": state.usage,
        "payload": state.payload,
        "schema_version": SCHEMA_VERSION,
        **({} if content.created_at is None else {"created_at": content.created_at}),
    }


def _lock_and_build_version_conflict(store: Store, owned_session: OwnedSession, expected_version: int) -> Exception:
    with transaction.atomic(using=store.using):
        row = _lock_owned_session_and_verify_transcript_end(store, owned_session)
    return VersionConflict(owned_session.session_id, expected_version, row.latest_version)


def _lock_session_and_load_transcript_head(store: Store, owned_session: OwnedSession) -> TranscriptHead:
    with database_operation(store.using, writes=False), transaction.atomic(using=store.using):
        return get_session_transcript_head(_lock_owned_session_and_verify_transcript_end(store, owned_session))


def _lock_owned_session_and_verify_transcript_end(store: Store, owned_session: OwnedSession) -> Session:
    """Lock the session of a run. Raises what `forget_session_and_build_fence_error` builds if the run does not own it
    any more, and `IntegrityError` if its transcript does not end as its newest version does."""
    row = look_up_and_lock_rows.lock_owned_session(store, owned_session)
    require_session_ends_with_newest_version(store.using, row)
    return row


def get_session_transcript_head(row: Session) -> TranscriptHead:
    if row.head_segment_id is None:
        raise CheckpointCorrupted(row.session_id, "head_segment", "the session has no transcript")
    return TranscriptHead(row.head_segment_id, row.message_count, bytes(row.head_chain), row.latest_version)


def build_transcript_head_from_version_row(row: Checkpoint) -> TranscriptHead:
    """Return the end of the transcript of one version."""
    return TranscriptHead(row.segment_id, row.length, bytes(row.chain), row.version)


def build_empty_transcript_head(segment_id: int) -> TranscriptHead:
    """Build the head of a session that has no version."""
    return TranscriptHead(segment_id, 0, digests.EMPTY_CHAIN, 0)


def get_or_load_newest_version_state(store: Store, owned_session: OwnedSession, head: TranscriptHead) -> VersionState:
    """Load the state of the newest version beside its transcript."""
    if head.state is not None:
        return head.state
    with database_operation(store.using, writes=False):
        return parse_version_state(owned_session.session_id, find_newest_version(store.using, owned_session.pk))


def find_newest_version(using: str, session_pk: int) -> Checkpoint | None:
    """Find the newest version that still exists. Raises `IntegrityError` if it does not match its seal."""
    rows = load_rows_where(using, Checkpoint, _build_where_newest_version_clause(), [session_pk])
    row_seals.verify_rows(rows)
    return rows[0] if rows else None


def find_newest_version_matching_head(using: str, row: Session) -> Checkpoint | None:
    """Find the newest version of a session whose row is locked.

    Raises `IntegrityError` if it does not match its seal, or if the session names another one or ends elsewhere.
    """
    newest = find_newest_version(using, row.pk)
    version_seals_and_transcript_verification.require_version_is_newest_and_ends_transcript(row, newest)
    return newest


def require_session_ends_with_newest_version(using: str, row: Session) -> None:
    """Require that the transcript of a session whose row is locked ends as its newest version does.

    Nothing if sealing is off, or if the session has no seal. Raises `IntegrityError`.
    """
    if get_seal_keys() is not None and row.row_seal:
        find_newest_version_matching_head(using, row)


@cache
def _build_where_newest_version_clause() -> str:
    session, version = quote_column(Checkpoint, "session"), quote_column(Checkpoint, "version")
    return f"WHERE {session} = %s ORDER BY {version} DESC LIMIT 1"


def parse_version_state(session_id: str, row: Checkpoint | None) -> VersionState:
    """Parse the state of a version beside its transcript; None stands for no version."""
    if row is None:
        return VersionState.create_empty()
    for name, text in (("plan", row.plan), ("usage", row.usage)):  # fields that the next version may keep
        try:
            parse_json_object(text)
        except ValueError as error:
            raise CheckpointCorrupted(session_id, f"the {name} of version {row.version}", str(error)) from error
    return VersionState(Phase(row.phase), row.plan, row.budget_spent_usd, row.usage, row.payload)
