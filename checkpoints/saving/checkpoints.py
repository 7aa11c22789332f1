"""Writing versions of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import connections, transaction

from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import Phase
from checkpoints.exceptions import CheckpointCorrupted, StorageUnavailable, VersionConflict
from checkpoints.ids import checked_number
from checkpoints.models import Checkpoint, Session
from checkpoints.saving import calls, lookup, paths, statements, transcripts
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.state import Change, State, total_tokens
from checkpoints.saving.statements import Base, NewMessage
from checkpoints.saving.store import Head, Held, Store, Unanswered
from checkpoints.saving.transcripts import Prepared
from checkpoints.serde import digests, messages, money
from checkpoints.serde.canonical import canonical, parse, parse_object


def save(
    store: Store,
    session_id: str,
    transcript: Sequence[dict[str, Any]],
    change: State | Change,
    *,
    expected_version: int | None = None,
) -> int:
    """Save the next version from a whole transcript; only its new messages are stored. Return the version's number.

    A `Change` is applied to the state of the previous version.
    """
    change = change.as_given() if isinstance(change, Change) else change
    if expected_version is not None:
        checked_number("expected_version", expected_version)
    held = lookup.owned(store, session_id)
    version = None
    if held.unanswered is not None:
        state, end = _state_after(store, held, change), _continuation(held.head, transcript) or _whole(transcript)
        version = _repeated(store, held, held.unanswered, end, state)
    if version is None:
        version = _save_next(store, held, transcript, change, expected_version)
    store.saved(session_id)
    return version


def _save_next(
    store: Store,
    held: Held,
    transcript: Sequence[dict[str, Any]],
    change: State | Change,
    expected_version: int | None,
) -> int:
    head = held.head
    state, end = _state_after(store, held, change), _continuation(head, transcript)
    try:
        with operation(store.using):
            version = None if end is None else _write(store, held, head, end, state, expected_version)
            if version is None:
                version = _save_locked(store, held, transcript, state, expected_version)
            return version
    except StorageUnavailable as error:
        return _read_back(store, held, _unanswered(head, end or _whole(transcript), state), error)


def _state_after(store: Store, held: Held, change: State | Change) -> State:
    """What the version after the newest one holds beside its transcript."""
    if isinstance(change, State):
        return change
    return change.applied(state_of(store, held, held.head))


def _continuation(head: Head, transcript: Sequence[dict[str, Any]]) -> End | None:
    """What a transcript adds to the one that ends at `head`; None where it does not go on from there."""
    known = head.snapshot is not None and isinstance(transcript, list | tuple)
    if known and transcripts.starts_with_copy(head.snapshot or [], transcript):
        added = transcript[head.length :]
        copy = transcripts.copy_messages(added)
        end = added_to(head, added)
        return replace(end, snapshot=None if copy is None else (head.snapshot or []) + copy)
    prepared, copy = _prepared(transcript)
    return _end(prepared, head.length, copy) if transcripts.continues(prepared, head) else None


def _prepared(transcript: Sequence[dict[str, Any]]) -> tuple[Prepared, list[Any] | None]:
    """A whole transcript, encoded, and a copy of it."""
    copy = None
    if isinstance(transcript, list | tuple):
        transcript = list(transcript)
        copy = transcripts.copy_messages(transcript)
    return transcripts.prepare(transcript), copy


def append(
    store: Store, session_id: str, new: Sequence[dict[str, Any]], change: Change, *, expected_version: int
) -> int:
    """Save the next version from the messages that are new since `expected_version`. Return its number."""
    checked_number("expected_version", expected_version)
    held = lookup.owned(store, session_id)
    head = held.head
    if head.version != expected_version:
        head = _current_head(store, held)
    if head.version != expected_version:
        raise VersionConflict(session_id, expected_version, head.version)
    end = added_to(head, new)
    state = change.applied(state_of(store, held, head))
    version = None
    if held.unanswered is not None:
        version = _repeated(store, held, held.unanswered, end, state)
    if version is None:
        version = _append_next(store, held, head, end, state)
    store.saved(session_id)
    return version


def _append_next(store: Store, held: Held, head: Head, end: End, state: State) -> int:
    try:
        with operation(store.using):
            version = _write(store, held, head, end, state, head.version)
            if version is None:
                raise _refusal(store, held, head.version)
            return version
    except StorageUnavailable as error:
        return _read_back(store, held, _unanswered(head, end, state), error)


@dataclass(frozen=True)
class End:
    """What a save appends, and where the transcript ends after it."""

    new: list[NewMessage]
    length: int
    chain: bytes
    #: A copy of the whole transcript up to there, where whole transcripts are given: who appends needs none.
    snapshot: list[Any] | None = None
    #: What is appended, as it was given, and results among it that stand elsewhere in the transcript before it.
    said: Sequence[dict[str, Any]] = ()
    repeated: Counter[str] = field(default_factory=Counter)

    @property
    def results(self) -> Counter[str]:
        """How many new results of each call id there are."""
        return _results(self.said) - self.repeated


def _results(said: Sequence[Any]) -> Counter[str]:
    return Counter(call_id for message in said for call_id in messages.answered(message))


def _end(prepared: Prepared, keep: int, copy: list[Any] | None) -> End:
    chain = prepared.chains[-1] if prepared.chains else digests.EMPTY_CHAIN
    new = transcripts.new_messages(prepared, keep, keep)
    return End(new, len(prepared.chains), chain, copy, prepared.messages[keep:])


def _whole(transcript: Sequence[dict[str, Any]]) -> End:
    prepared, copy = _prepared(transcript)
    return _end(prepared, len(prepared.chains), copy)


def added_to(head: Head, added: Sequence[dict[str, Any]]) -> End:
    """What `added` appends to the transcript that ends at `head`. Raises `NotRepresentable`, `TooLarge`."""
    if not added and isinstance(added, list | tuple):
        return End([], head.length, head.chain, head.snapshot)
    prepared = transcripts.prepare(added, after=head.chain, first=head.length)
    new = transcripts.new_messages(prepared, 0, head.length)
    return End(new, head.length + len(new), prepared.chains[-1], said=prepared.messages)


def _unanswered(head: Head, end: End, state: State) -> Unanswered:
    return Unanswered(head, Head(0, end.length, end.chain, 0, state, end.snapshot), state)


def _read_back(store: Store, held: Held, lost: Unanswered, error: StorageUnavailable) -> int:
    """After a commit whose answer was lost: find out whether the version is there instead of writing it twice. Where
    nobody can be asked, the next save asks first."""
    held.unanswered = lost if error.may_have_happened else None
    with reading_back(store.using, error):
        version = _find(store, held, lost)
    if version is None:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return version


def _repeated(store: Store, held: Held, lost: Unanswered, end: End, state: State) -> int | None:
    """The version of a save whose answer was lost, where this is that save once more."""
    with operation(store.using, writes=False), transaction.atomic(using=store.using):
        version = _find(store, held, lost)
    same = (end.length, end.chain, state) == (lost.after.length, lost.after.chain, lost.state)
    return version if same else None


def _find(store: Store, held: Held, lost: Unanswered) -> int | None:
    """Only this run writes under its fence, so a newer version of the same content is the one whose answer was lost."""
    lookup.session(store, held.session_id, lock=True)
    after, state = lost.after, lost.state
    written = (
        Checkpoint.objects.using(store.using)
        .filter(session_id=held.pk, run_id=held.run_id, version__gt=lost.before.version, length=after.length)
        .filter(phase=state.phase, plan=state.plan, budget_spent_usd=state.budget)
        .filter(usage=state.usage, payload=state.payload)
        .order_by("-version")
        .first()
    )
    held.unanswered = None
    if written is None or bytes(written.chain) != after.chain:
        return None
    held.operations.require_reading()
    held.head = replace(after, segment_id=written.segment_id, version=written.version)
    return written.version


def _save_locked(
    store: Store, held: Held, transcript: Sequence[dict[str, Any]], state: State, expected_version: int | None
) -> int:
    """The slow path, taken when the transcript does not simply go on: look under a lock, branch, write."""
    prepared, copy = _prepared(transcript)
    with transaction.atomic(using=store.using):
        row = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
        if row is None:
            raise lookup.fence_lost(store, held)
        head, keep, repeated = head_of(row), row.message_count, Counter[str]()
        if expected_version is not None and expected_version != head.version:
            raise VersionConflict(held.session_id, expected_version, head.version)
        if not transcripts.continues(prepared, head):
            keep = transcripts.common_prefix(store.using, prepared, head)
            repeated = _repeated_results(store, held, head, prepared, keep)
            segment = transcripts.branch(store.using, held.pk, head, keep)
            Session.objects.using(store.using).filter(pk=held.pk).update(head_segment=segment)
            head = Head(segment.pk, head.length, head.chain, head.version)
        end = replace(_end(prepared, keep, copy), repeated=repeated)
        version = _write(store, held, head, end, state, head.version)
        if version is None:
            raise lookup.fence_lost(store, held)
        return version


def _repeated_results(store: Store, held: Held, head: Head, prepared: Prepared, first: int) -> Counter[str]:
    """How many results an edited transcript has from message `first` on that are not new in it.

    They answer nothing that was called since the last version, even if it has the same call id. New are those behind
    the last message that the transcript up to `head` has as well, and those that there are more of than there.
    """
    results = _results(prepared.messages[first:])
    named = held.operations.named(results, lambda: calls.unanswered(store, held.pk))
    if not named:
        return Counter()
    texts = [canonical(call_id)[1:-1] for call_id in named]
    bodies = [body for body, _ in paths.read_bodies(connections[store.using], head.segment_id, head.length, first)]
    try:
        before = _results([parse(body) for body in bodies if any(text in body for text in texts)])
    except ValueError as error:
        raise CheckpointCorrupted(held.session_id, "a message of its transcript", str(error)) from error
    known = set(bodies)
    end = max(
        (place for place in range(first, len(prepared.bodies)) if prepared.bodies[place] in known), default=first - 1
    )
    return results - (_results(prepared.messages[end + 1 :]) | (results - before))


def _write(store: Store, held: Held, head: Head, end: End, state: State, expected: int | None) -> int | None:
    """The save statement, from `head` to `end`. None where the session is not as `head` says."""
    results = end.results
    answered = held.operations.rows_answered_by(results, lambda: calls.unanswered(store, held.pk)) if results else []
    base = Base(held.pk, held.fence, head.segment_id, head.length, head.chain, expected)
    version = write_version(store.using, base, end, state, held.run_id, answered)
    if version is not None:
        held.head = Head(head.segment_id, end.length, end.chain, version, state, end.snapshot)
        held.operations.answer(results)
        for call_id in results:
            held.open_calls.pop(call_id, None)
    return version


def write_version(
    using: str, base: Base, end: End, state: State, run_id: UUID | None, answered: Sequence[int] = ()
) -> int | None:
    """Write the version that goes on from `base` to `end`, as one of a run or of none. `answered` are the keys of calls
    whose results it brings. Returns its number, or None where the session is not as `base` says."""
    return statements.save(
        connections[using],
        base,
        {
            "head_chain": end.chain,
            "message_count": end.length,
            "budget_spent_usd": money.as_decimal(state.budget),
            "total_tokens": total_tokens(state.usage),
        },
        end.new,
        {
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
        },
        answered,
    )


def _refusal(store: Store, held: Held, expected_version: int) -> Exception:
    row = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence).first()
    if row is None:
        return lookup.fence_lost(store, held)
    return VersionConflict(held.session_id, expected_version, row.latest_version)


def _current_head(store: Store, held: Held) -> Head:
    with operation(store.using, writes=False):
        row = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence).first()
        if row is None:
            raise lookup.fence_lost(store, held)
        return head_of(row)


def head_of(row: Session) -> Head:
    if row.head_segment_id is None:
        raise CheckpointCorrupted(row.session_id, "head_segment", "the session has no transcript")
    return Head(row.head_segment_id, row.message_count, bytes(row.head_chain), row.latest_version)


def head_at(row: Checkpoint) -> Head:
    """The end of the transcript of one version."""
    return Head(row.segment_id, row.length, bytes(row.chain), row.version)


def empty_head(segment_id: int) -> Head:
    """Before the first version."""
    return Head(segment_id, 0, digests.EMPTY_CHAIN, 0)


def state_of(store: Store, held: Held, head: Head) -> State:
    """What the newest version holds beside its transcript."""
    if head.state is not None:
        return head.state
    with operation(store.using, writes=False):
        return state_in(held.session_id, newest_of(store.using, held.pk))


def newest_of(using: str, session_pk: int) -> Checkpoint | None:
    """The newest version that still exists."""
    return Checkpoint.objects.using(using).filter(session=session_pk).order_by("-version").first()


def state_in(session_id: str, row: Checkpoint | None) -> State:
    """What a version holds beside its transcript; None stands for no version."""
    if row is None:
        return State.empty()
    for name, text in (("plan", row.plan), ("usage", row.usage)):  # what the next version may keep
        try:
            parse_object(text)
        except ValueError as error:
            raise CheckpointCorrupted(session_id, f"the {name} of version {row.version}", str(error)) from error
    return State(Phase(row.phase), row.plan, row.budget_spent_usd, row.usage, row.payload)
