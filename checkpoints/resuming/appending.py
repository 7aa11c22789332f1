"""Appending to a session without owning it: one transaction that compares and sets, and makes no run.

It is for who has something to add between the runs of an agent, such as the message of a user. Under the session's row
lock, what would stop a run stops it too: a living owner, a call that is undecided, a version that is not the expected
one. An owner that is gone is declared lost first, so that its fence ends and it stays refused when it wakes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import CallStatus, Phase
from checkpoints.exceptions import (
    ApprovalRequired,
    CheckpointsError,
    PausedForPeers,
    ReleasedWhenIdle,
    ReviewRequired,
    SchemaFromFuture,
    SessionFinished,
    StorageUnavailable,
    VersionConflict,
)
from checkpoints.ids import checked, checked_number
from checkpoints.models import Checkpoint, Message, Run, Segment, Session
from checkpoints.resuming import ownership
from checkpoints.saving import calls, checkpoints, liveness, lookup, pauses, phases
from checkpoints.saving.checkpoints import End
from checkpoints.saving.open_operations import OpenOperations
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.state import Change, State
from checkpoints.saving.statements import Base
from checkpoints.saving.store import LostAppend, Store
from checkpoints.serde import messages


def append(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: Change, *, expected_version: int
) -> int:
    """Write the next version from the messages that are new since `expected_version`: under the run that has the
    session here, or without a run where this checkpointer does not own it. Returns its number.

    Raises what `checkpoints.append` raises; without a run also `SessionBusy`, `ReviewRequired`, `ApprovalRequired`,
    `PausedForPeers`, `SchemaFromFuture`.
    """
    if store.holds(session_id) is not None:
        return checkpoints.append(store, session_id, new, change, expected_version=expected_version)
    checked("session id", session_id)
    checked_number("expected_version", expected_version)
    reason = store.not_owner(session_id)
    if isinstance(reason, ReleasedWhenIdle):
        raise reason
    version = _append_without_run(store, session_id, new, change, expected_version)
    store.saved(session_id)
    return version


def _append_without_run(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: Change, expected: int
) -> int:
    attempt = _Attempt(store, session_id, new, change, expected)
    try:
        with operation(store.using):
            with transaction.atomic(using=store.using):
                done = attempt.write()
            store.lost_appends.pop(session_id, None)
            if isinstance(done, CheckpointsError):  # behind the transaction: what it found out about the owner stays
                raise done
            return done
    except StorageUnavailable as error:
        return _read_back(store, session_id, attempt.lost, error)


class _Attempt:
    """One try to append, inside a transaction. `lost` is what is looked for where its answer is lost."""

    def __init__(
        self, store: Store, session_id: str, new: Sequence[dict[str, Any]], change: Change, expected: int
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.new = new
        self.change = change
        self.expected = expected
        self.lost: LostAppend | None = None

    def write(self) -> int | CheckpointsError:
        """The new version, or why there is none."""
        store = self.store
        row = lookup.session(store, self.session_id, lock=True)
        newest = checkpoints.newest_of(store.using, row.pk)
        before = store.lost_appends.get(self.session_id)
        if before is not None and self._repeats(before, row, newest):
            return before.expected + 1
        refusal = _refusal(store, row, newest, self.expected)
        if refusal is not None:
            return refusal
        if row.head_segment_id is None:
            row.head_segment = Segment.objects.using(store.using).create(session=row)
            Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=row.head_segment)
        head = checkpoints.head_of(row)
        end, state = checkpoints.added_to(head, self.new), self._state_after(newest)
        created_at = end.new[-1].created_at if end.new else None
        self.lost = LostAppend(self.expected, end.length, end.chain, state, created_at)
        base = Base(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version)
        logged = OpenOperations()  # no run has asked for anything, so the ids of the log decide
        answered = logged.rows_answered_by(end.results, lambda: calls.unanswered(store, row.pk)) if end.results else []
        version = checkpoints.write_version(store.using, base, end, state, None, answered)
        return VersionConflict(self.session_id, self.expected, row.latest_version) if version is None else version

    def _repeats(self, lost: LostAppend, row: Session, newest: Checkpoint | None) -> bool:
        """Whether this is the append whose answer was lost, once more, and it is there."""
        if lost.expected != self.expected or _find(self.store, row, lost) is None:
            return False
        before = Checkpoint.objects.using(self.store.using).filter(session=row, version__lte=lost.expected)
        source = before.order_by("-version").first()
        state = self._state_after(source)
        end = self._end_behind(row, source)
        return (end.length, end.chain, state) == (lost.length, lost.chain, lost.state)

    def _state_after(self, source: Checkpoint | None) -> State:
        """What the new version holds beside its transcript.

        Who appends a message does not know where the run stood, which is gone: its snapshot and its journaled answer
        are kept for the next run, unless it is that answer which is appended, or a result that it waited for. Raises
        `CheckpointCorrupted` where nobody can tell what there was.
        """
        before = checkpoints.state_in(self.session_id, source)
        state = self.change.applied(before)
        stands = None if source is None else phases.standing_at(self.store, self.session_id, source)
        if stands is None or state.payload is not None or state.phase != Phase.TURN:
            return state
        if stands.pending is not None and any(messages.takes_up(said, stands.pending) for said in self.new):
            return state
        return replace(state, phase=before.phase, payload=before.payload)

    def _end_behind(self, row: Session, source: Checkpoint | None) -> End:
        head = checkpoints.head_of(row)
        if source is None:
            return checkpoints.added_to(checkpoints.empty_head(head.segment_id), self.new)
        return checkpoints.added_to(checkpoints.head_at(source), self.new)


def _refusal(store: Store, row: Session, newest: Checkpoint | None, expected: int) -> CheckpointsError | None:
    """What stands in the way of an append, as of a run. An owner that is gone is declared lost."""
    if row.finished:
        return SessionFinished(row.session_id, row.status)
    if newest is not None and newest.schema_version > SCHEMA_VERSION:
        return SchemaFromFuture(row.session_id, newest.schema_version, SCHEMA_VERSION)
    owner = row.owner
    if owner is not None and owner.owning:
        if liveness.is_alive(owner) and not _forgotten(store, owner, row.session_id):
            return ownership.busy(row, owner)
        ownership.declare_lost(store, row, owner)
    if row.latest_version != expected:
        return VersionConflict(row.session_id, expected, row.latest_version)
    if pauses.holding(store, row) is not None:
        return PausedForPeers(row.session_id)
    undecided = calls.undecided(store, row)
    if undecided:
        unknown = any(call.status == CallStatus.INTERRUPTED for call in undecided)
        kind = ReviewRequired if unknown else ApprovalRequired
        return kind(row.session_id, calls.as_dicts(store, undecided))
    return None


def _forgotten(store: Store, owner: Run, session_id: str) -> bool:
    """Whether the run is this checkpointer's own, which could not release it in the database, or was never told that it
    has it."""
    return owner.owner_token == store.token and store.holds(session_id) is None and not store.is_in_use(session_id)


def _read_back(store: Store, session_id: str, lost: LostAppend | None, error: StorageUnavailable) -> int:
    """After a commit whose answer was lost: find out whether the version is there. Where nobody can be asked, the next
    append asks first."""
    if lost is None:
        raise error
    if error.may_have_happened:
        store.lost_appends[session_id] = lost
    with reading_back(store.using, error):
        version = _find(store, lookup.session(store, session_id, lock=True), lost)
    store.lost_appends.pop(session_id, None)
    if version is None:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return version


def _find(store: Store, row: Session, lost: LostAppend) -> int | None:
    """The version that an append wrote. Its last message was written at the time that the append gave it, which tells
    it from the same append by somebody else."""
    state: State = lost.state
    written = (
        Checkpoint.objects.using(store.using)
        .filter(session=row, run=None, version=lost.expected + 1, length=lost.length)
        .filter(phase=state.phase, plan=state.plan, budget_spent_usd=state.budget)
        .filter(usage=state.usage, payload=state.payload)
        .first()
    )
    if written is None or bytes(written.chain) != lost.chain:
        return None
    if lost.created_at is not None:
        last = Message.objects.using(store.using).filter(segment=written.segment_id, position=lost.length - 1)
        if not last.filter(created_at=lost.created_at).exists():
            return None
    return written.version
