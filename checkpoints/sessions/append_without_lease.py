"""Append to a session without owning it: one compare-and-set transaction that creates no run.

For callers that add a message between two runs of an agent, such as a user's message. Under the session's row lock, the
append is refused by the same conditions as a run: a live owner, an undecided call, an unexpected version. A lost owner
is declared lost first, so that its fence ends and it is still refused if it wakes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from checkpoints.calls import call_queries, convert_calls_to_dicts, raw_sql_call_seals, unfinished_call_queries
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db.hot_statements import SaveBase
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import CallStatus, Phase
from checkpoints.exceptions import (
    ApprovalRequired,
    CheckpointsError,
    PausedForPeers,
    ReleasedWhenIdle,
    ReviewRequired,
    SchemaFromFuture,
    SessionBusy,
    SessionFinished,
    StorageUnavailable,
    VersionConflict,
)
from checkpoints.formats import tool_calls_in_messages
from checkpoints.generate_and_validate_ids import validate_id, validate_integer
from checkpoints.integrity import quarantine
from checkpoints.models import Checkpoint, Message, Run, Segment, Session
from checkpoints.sessions import peer_pause_blocking_and_closing, take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows, optimistic_lock_on_sealed_heads, run_liveness_check
from checkpoints.store.database_client_state import Store, UnconfirmedAppend
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import VersionChange, VersionState
from checkpoints.tracing import SAVE, trace_session_function
from checkpoints.versions import load_run_phase_and_snapshot, save_version
from checkpoints.versions.save_version import TranscriptEnd


def append_version_with_or_without_run(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
) -> int:
    """Write the next version from the messages that are new since `expected_version`.

    It belongs to the run that owns the session in this checkpointer, or to no run if there is none. Returns its number.
    Raises what `checkpoints.append` raises; without a run also `SessionBusy`, `ReviewRequired`, `ApprovalRequired`,
    `PausedForPeers`, `SchemaFromFuture`; in a forked process `OpenedInAnotherProcess`.
    """
    store.require_own_process(session_id)
    if store.find_owned_session(session_id) is not None:
        with quarantine.quarantine_on_integrity_error(store, session_id):
            return save_version.save_next_version_of_new_messages(
                store, session_id, new, change, expected_version=expected_version
            )
    validate_id("session id", session_id)
    validate_integer("expected_version", expected_version)
    reason = store.build_not_owner_error(session_id)
    if isinstance(reason, ReleasedWhenIdle):
        raise reason
    version = _append_without_run(store, session_id, new, change, expected_version)
    store.notify_save_listeners(session_id)
    return version


def find_version_of_repeated_append(
    store: Store,
    session_id: str,
    new: Sequence[dict[str, Any]],
    change: VersionChange,
    *,
    expected_version: int,
    since: datetime,
) -> int | None:
    """Return the version after `expected_version` if an append without a run wrote just what is given; else None.

    For a caller that repeats an append because it got no answer, and whose first attempt, at `since`, another process
    may have served.
    """
    attempt = _AppendAttempt(store, session_id, new, change, expected_version)
    with database_operation(store.using, writes=False):
        row = look_up_and_lock_rows.get_session(store, session_id)
        version = attempt.find_version_of_equal_append(row)
        written = Checkpoint.objects.using(store.using).filter(session=row, created_at__gte=since)
        return version if version is not None and written.filter(version=version).exists() else None


@trace_session_function(SAVE)
def _append_without_run(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: VersionChange, expected: int
) -> int:
    attempt = _AppendAttempt(store, session_id, new, change, expected)
    try:
        with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using):
            with transaction.atomic(using=store.using):
                outcome = attempt.write_version_and_return_number_or_error()
            store.unconfirmed_appends.pop(session_id, None)
            if isinstance(outcome, CheckpointsError):  # after the transaction, so that a lost owner stays declared
                raise outcome
            return outcome
    except StorageUnavailable as error:
        return _read_append_after_lost_commit(store, session_id, attempt.lost, error)


class _AppendAttempt:
    """One attempt to append, inside a transaction. `lost` describes the write if its answer is lost."""

    def __init__(
        self, store: Store, session_id: str, new: Sequence[dict[str, Any]], change: VersionChange, expected: int
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.new = new
        self.change = change
        self.expected = expected
        self.lost: UnconfirmedAppend | None = None

    def write_version_and_return_number_or_error(self) -> int | CheckpointsError:
        """Write the new version and return its number, or return the error that forbids it."""
        store = self.store
        row = look_up_and_lock_rows.get_session(store, self.session_id, lock=True)
        look_up_and_lock_rows.require_not_quarantined(row)
        newest = save_version.find_newest_version_matching_head(store.using, row)
        unconfirmed_append = store.unconfirmed_appends.get(self.session_id)
        if unconfirmed_append is not None and self._is_repeated_append(unconfirmed_append, row):
            return unconfirmed_append.expected + 1
        refusal = _end_lost_owner_and_find_any_append_refusal(store, row, newest, self.expected)
        if refusal is not None:
            return refusal
        if row.head_segment_id is None:
            row.head_segment = Segment.objects.using(store.using).create(session=row)
            Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=row.head_segment)
        head = save_version.get_session_transcript_head(row)
        end, state = (
            save_version.build_transcript_end_with_added_messages(head, self.new),
            self._build_state_of_next_version(newest),
        )
        created_at = end.new[-1].created_at if end.new else None
        self.lost = UnconfirmedAppend(self.expected, end.length, end.chain, state, created_at)
        base = SaveBase(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version)
        operations = OpenOperations()  # no run has requested calls, so they are matched by the ids of the log
        answered_rows = (
            operations.list_row_keys_answered_by_results(
                end.new_result_counts, lambda: call_queries.list_unanswered_tool_calls(store, row.pk)
            )
            if end.new_result_counts
            else []
        )
        answered = raw_sql_call_seals.compute_answered_call_seals(store.using, None, answered_rows, head.version + 1)
        sealed_head = optimistic_lock_on_sealed_heads.lock_head_and_seal_if_unsealed(store.using, row.pk)
        version, _ = save_version.write_version_if_session_at_base(
            store.using, base, end, state, None, answered, sealed_head
        )
        return VersionConflict(self.session_id, self.expected, row.latest_version) if version is None else version

    def _is_repeated_append(self, unconfirmed_append: UnconfirmedAppend, row: Session) -> bool:
        """Return whether this append repeats the one whose answer was lost, and that one is stored."""
        if (
            unconfirmed_append.expected != self.expected
            or _find_appended_version(self.store, row, unconfirmed_append) is None
        ):
            return False
        described = self._load_base_and_build_unconfirmed_append(row)
        return replace(described, created_at=unconfirmed_append.created_at) == unconfirmed_append

    def find_version_of_equal_append(self, row: Session) -> int | None:
        """Find the version that an equal append wrote, whoever that was."""
        return _find_appended_version(self.store, row, self._load_base_and_build_unconfirmed_append(row))

    def _load_base_and_build_unconfirmed_append(self, row: Session) -> UnconfirmedAppend:
        """Describe what this append writes, without the time, also after it has been written."""
        base_version = Checkpoint.objects.using(self.store.using).filter(session=row, version__lte=self.expected)
        source = base_version.order_by("-version").first()
        end = self._build_transcript_end_after_version(row, source)
        return UnconfirmedAppend(self.expected, end.length, end.chain, self._build_state_of_next_version(source), None)

    def _build_state_of_next_version(self, source: Checkpoint | None) -> VersionState:
        """State of the new version beside its transcript.

        The writer of a message does not know the state of the lost run: its snapshot and its journaled answer are
        kept for the next run, unless the message is that answer, or a result that it waited for. Raises
        `CheckpointCorrupted` if the state cannot be read.
        """
        previous_state = save_version.parse_version_state(self.session_id, source)
        state = self.change.apply_to(previous_state)
        position = (
            None
            if source is None
            else load_run_phase_and_snapshot.load_run_position_at_version(self.store, self.session_id, source)
        )
        if position is None or state.payload is not None or state.phase != Phase.TURN:
            return state
        if position.pending is not None and any(
            tool_calls_in_messages.repeats_or_answers_response(message, position.pending) for message in self.new
        ):
            return state
        return replace(state, phase=previous_state.phase, payload=previous_state.payload)

    def _build_transcript_end_after_version(self, row: Session, source: Checkpoint | None) -> TranscriptEnd:
        head = save_version.get_session_transcript_head(row)
        if source is None:
            return save_version.build_transcript_end_with_added_messages(
                save_version.build_empty_transcript_head(head.segment_id), self.new
            )
        return save_version.build_transcript_end_with_added_messages(
            save_version.build_transcript_head_from_version_row(source), self.new
        )


def end_lost_owner_or_find_busy_error(store: Store, row: Session) -> SessionBusy | None:
    """Declare a lost owner lost. Returns the error that forbids a write beside a live run of somebody else."""
    owner = row.owner
    if owner is None or not owner.has_owning_status:
        return None
    if run_liveness_check.is_run_alive(owner) and not _is_unreleased_run_of_this_client(store, owner, row.session_id):
        return take_and_release_ownership.build_session_busy_error(row, owner)
    take_and_release_ownership.end_lost_owner_run_and_interrupt_calls(store, row, owner)
    return None


def _end_lost_owner_and_find_any_append_refusal(
    store: Store, row: Session, newest: Checkpoint | None, expected: int
) -> CheckpointsError | None:
    """Return the error that forbids an append, as it would forbid a run. A lost owner is declared lost."""
    if row.finished:
        return SessionFinished(row.session_id, row.status)
    if newest is not None and newest.schema_version > SCHEMA_VERSION:
        return SchemaFromFuture(row.session_id, newest.schema_version, SCHEMA_VERSION)
    busy = end_lost_owner_or_find_busy_error(store, row)
    if busy is not None:
        return busy
    if row.latest_version != expected:
        return VersionConflict(row.session_id, expected, row.latest_version)
    if peer_pause_blocking_and_closing.find_blocking_paused_task(store, row) is not None:
        return PausedForPeers(row.session_id)
    undecided_calls = unfinished_call_queries.list_verified_undecided_calls_of_session(store, row)
    if undecided_calls:
        unknown = any(call.status == CallStatus.INTERRUPTED for call in undecided_calls)
        kind = ReviewRequired if unknown else ApprovalRequired
        return kind(row.session_id, convert_calls_to_dicts.load_calls_with_verify_reasons(store, undecided_calls))
    return None


def _is_unreleased_run_of_this_client(store: Store, owner: Run, session_id: str) -> bool:
    """Return whether the run belongs to this checkpointer although its store does not hold the session.

    This happens if the run could not be released in the database, or if the answer to its creation was lost.
    """
    return (
        owner.owner_token == store.token
        and store.find_owned_session(session_id) is None
        and not store.is_session_in_use(session_id)
    )


def _read_append_after_lost_commit(
    store: Store, session_id: str, unconfirmed_append: UnconfirmedAppend | None, error: StorageUnavailable
) -> int:
    """Read back whether the version is stored, after a commit whose answer was lost.

    If the database cannot be reached, the next append reads it back first.
    """
    if unconfirmed_append is None:
        raise error
    if error.may_have_happened:
        store.unconfirmed_appends[session_id] = unconfirmed_append
    with open_transaction_to_read_back_lost_commit(store.using, error):
        version = _find_appended_version(
            store, look_up_and_lock_rows.get_session(store, session_id, lock=True), unconfirmed_append
        )
    store.unconfirmed_appends.pop(session_id, None)
    if version is None:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return version


def _find_appended_version(store: Store, row: Session, unconfirmed_append: UnconfirmedAppend) -> int | None:
    """Return the number of the version that an append wrote, or None.

    The creation time of its last message, which the append set, distinguishes it from an equal append of another
    writer.
    """
    state: VersionState = unconfirmed_append.state
    checkpoint = (
        Checkpoint.objects.using(store.using)
        .filter(session=row, run=None, version=unconfirmed_append.expected + 1, length=unconfirmed_append.length)
        .filter(phase=state.phase, plan=state.plan, budget_spent_usd=state.budget)
        .filter(usage=state.usage, payload=state.payload)
        .first()
    )
    if checkpoint is None or bytes(checkpoint.chain) != unconfirmed_append.chain:
        return None
    if unconfirmed_append.created_at is not None:
        last = Message.objects.using(store.using).filter(
            segment=checkpoint.segment_id, position=unconfirmed_append.length - 1
        )
        if not last.filter(created_at=unconfirmed_append.created_at).exists():
            return None
    return checkpoint.version
