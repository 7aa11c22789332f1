"""The gate: no run goes on while it is unknown whether something happened.

Own the session, let verify hooks settle what they can, and hold the run while a person has to decide the rest.
What a resume will do is computed in `outlook`, for the resume itself and for its preview.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction

from checkpoints.enums import SETTLED_CALL, UNDECIDED_CALL, AuditKind, CallStatus, RunStatus, SessionStatus
from checkpoints.exceptions import (
    ApprovalRequired,
    AtGate,
    CheckpointCorrupted,
    OwnershipLost,
    ReviewRequired,
    RunNotFound,
)
from checkpoints.flows import Flow, Sleep, Transact
from checkpoints.ids import checked
from checkpoints.models import Run, Session, ToolCall
from checkpoints.outcomes import ToolResult
from checkpoints.resuming import outlook, ownership, starting, verification
from checkpoints.resuming.outlook import Tail
from checkpoints.resuming.replayable import ReplayableResults
from checkpoints.resuming.starting import Description
from checkpoints.runs.details import RunTerminal
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import audit, calls, checkpoints, lookup, phases, reading, settling
from checkpoints.saving.operations import operation
from checkpoints.saving.phases import Standing
from checkpoints.saving.store import Held, Store
from checkpoints.serde.canonical import parse

#: What a session without a checkpoint resumes from.
_EMPTY: dict[str, Any] = {
    "transcript": [],
    "plan": None,
    "budget_spent_usd": 0.0,
    "usage": None,
    "version": 0,
    "payload": None,
}
#: Seconds between two looks at the decisions while a run waits for them.
POLL_SECONDS = 0.25
#: A preview looks for unanswered calls in so many messages at the end of the transcript.
PREVIEWED_MESSAGES = 200


@dataclass(frozen=True)
class ResumePoint:
    """Point where a run continues.

    Attributes:
        run: The run that owns the session. None for a finished session.
        transcript: All messages of the newest version, oldest first.
        plan: Plan of the newest version, a JSON object.
        budget_spent_usd: Money spent so far in the session, in US dollars.
        usage: Token usage of the newest version, a JSON object.
        version: Number of the newest version; 0 while there is none.
        pending_response: Journaled model answer whose tools have not all run; use it instead of asking the model.
        replayable: Results of calls that are settled and not yet answered in the transcript, by call id; use these
            instead of dispatching the calls.
        snapshot: State of the loop, where versions were saved with `save_phase`.
        finished: Whether the session has ended.
        result: Result of a finished session, a JSON value.
    """

    run: Run | None
    transcript: list[dict[str, Any]]
    plan: dict[str, Any] | None
    budget_spent_usd: float | Decimal
    usage: dict[str, Any] | None
    version: int
    pending_response: dict[str, Any] | None = None
    replayable: dict[str, ToolResult] = field(default_factory=dict)
    snapshot: RuntimeSnapshot | None = None
    finished: bool = False
    result: Any = None


def resume_flow(
    store: Store,
    session_id: str,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> Flow[ResumePoint]:
    """Take the session, pass the gate, and return where to go on.

    Raises `SessionNotFound`, `SessionBusy`, `CheckpointCorrupted`, `SchemaFromFuture`, `OwnershipLost` where another
    run takes the session over on the way, and `ReviewRequired` where a person has to decide: at once, or with `wait`
    after `timeout` seconds (None waits for ever). After `ReviewRequired` the session is released. `paused` is for who
    takes a session that waits for other agents.
    """
    with store.in_use(session_id):
        return (
            yield from _resume_flow(store, session_id, wait=wait, timeout=timeout, takeover=takeover, paused=paused)
        )


def _resume_flow(
    store: Store, session_id: str, *, wait: bool, timeout: float | None, takeover: bool | str, paused: bool
) -> Flow[ResumePoint]:
    finished: ResumePoint | None = yield Transact(lambda: finished_point(store, session_id))
    if finished is not None:
        return finished
    held: Held = yield Transact(lambda: _own(store, session_id, takeover=takeover, paused=paused))
    try:
        latest, stands = yield Transact(lambda: _readable(store, held))
        yield from _pass_gate(store, held, wait=wait, timeout=timeout)
        point: ResumePoint = yield Transact(lambda: _point(store, held, latest, stands))
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(lambda: ownership.abandon(store, held))
        raise
    return point


def open_flow(
    store: Store,
    session_id: str,
    description: Description,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
) -> Flow[ResumePoint]:
    """Start or resume: create the session with `description` if it does not exist, then do what `resume_flow` does.

    A finished session gives its result, as in `resume_flow`; an existing session keeps its description. Raises what
    `resume_flow` raises, and `InvalidIdentifier` or `NotRepresentable` for what cannot describe a session.
    """
    yield Transact(lambda: starting.create(store, session_id, description))
    return (yield from resume_flow(store, session_id, wait=wait, timeout=timeout, takeover=takeover))


def start_flow(store: Store, session_id: str, description: Description, *, takeover: bool | str = False) -> Flow[Run]:
    """Create the session, or go on with it through the gate, and own it. Returns the run that drives it.

    On a session that this checkpointer owns and in which nothing is undecided it returns the run there is. Raises
    `InvalidIdentifier`, `NotRepresentable`, `SessionBusy`, `SessionFinished`, `SchemaFromFuture`, `PausedForPeers`,
    `CheckpointCorrupted` where the payload of the newest version is damaged, and `ReviewRequired` or `ApprovalRequired`
    where a person has to decide: then the session is released.
    """
    with store.in_use(checked("session id", session_id)):
        return (yield from _start_flow(store, session_id, description, takeover=takeover))


def _start_flow(store: Store, session_id: str, description: Description, *, takeover: bool | str) -> Flow[Run]:
    run: Run | None = yield Transact(lambda: _run_that_may_go_on(store, session_id))
    if run is not None:
        return run
    yield Transact(lambda: starting.create(store, session_id, description))
    held: Held = yield Transact(lambda: _own(store, session_id, takeover=takeover, paused=False))
    try:
        yield Transact(lambda: _require_readable_payload(store, held))
        yield from _pass_gate(store, held, wait=False, timeout=None)
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(lambda: ownership.abandon(store, held))
        raise
    return held.run


def _run_that_may_go_on(store: Store, session_id: str) -> Run | None:
    """The run that this checkpointer drives the session with; None where it has none or has to pass the gate."""
    held = store.holds(session_id)
    if held is None:
        return None
    if held.at_gate:
        raise AtGate(session_id)
    if not ownership.still_owns(store, held):
        store.drop(held)
        return None
    if _undecided(store, held):
        return None
    held.operations.reset()
    return held.run


def session_of(store: Store, run_id: object) -> str:
    """The id of the session that a run drove. Raises `RunNotFound`."""
    try:
        wanted = uuid.UUID(str(run_id))
    except ValueError:
        raise RunNotFound(run_id) from None
    with operation(store.using, writes=False):
        runs = Run.objects.using(store.using).filter(pk=wanted, session__workspace_id=store.workspace_id)
        found = runs.values_list("session__session_id", flat=True).first()
    if found is None:
        raise RunNotFound(run_id)
    return found


def _own(store: Store, session_id: str, *, takeover: bool | str, paused: bool) -> Held:
    held = store.holds(session_id)
    if held is not None and ownership.still_owns(store, held):
        settling.interrupt_abandoned(store, held)
        held.operations.reset()
        return held
    return ownership.take(store, session_id, takeover=takeover, paused=paused)


def _require_readable_payload(store: Store, held: Held) -> None:
    """Refuse to go on where a journaled answer of the model may be in a payload that is damaged: `CheckpointCorrupted`,
    `SchemaFromFuture`."""
    if held.head.version == 0:
        return
    with operation(store.using, writes=False):
        newest = checkpoints.newest_of(store.using, held.pk)
        if newest is not None:
            phases.standing_at(store, held.session_id, newest)


def _readable(store: Store, held: Held) -> tuple[dict[str, Any], Standing]:
    """The latest version, read and checked before anything is done about it."""
    latest = reading.load_latest(store, held.session_id) or dict(_EMPTY)
    return latest, phases.standing(store, held.session_id, held.pk, latest)


def _pass_gate(store: Store, held: Held, *, wait: bool, timeout: float | None) -> Flow[None]:
    probed: set[int] = set()
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        undecided: list[ToolCall] = yield Transact(lambda: _undecided(store, held))
        for probe in _probes(store, held, undecided, probed):
            probed.add(probe.call_pk)
            yield from verification.probe_flow(store, probe)
        if undecided:
            undecided = yield Transact(lambda: _undecided(store, held))
        if not undecided:
            yield Transact(lambda: _open(store, held))
            return
        if not wait or (until is not None and time.monotonic() >= until):
            unknown = any(call.status == CallStatus.INTERRUPTED for call in undecided)
            kind = ReviewRequired if unknown else ApprovalRequired
            raise kind(held.session_id, (yield Transact(partial(calls.as_dicts, store, undecided))))
        yield Transact(lambda: _wait(store, held))
        yield Sleep(POLL_SECONDS)


def _undecided(store: Store, held: Held) -> list[ToolCall]:
    with operation(store.using, writes=False):
        session = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence).first()
        if session is None:
            raise lookup.fence_lost(store, held)
        return calls.undecided(store, session)


def _probes(store: Store, held: Held, undecided: Iterable[ToolCall], probed: set[int]) -> Iterable[verification.Probe]:
    """The hooks to ask now: each once by itself, and again whenever a person asks for it."""
    for call in undecided:
        if call.status == CallStatus.INTERRUPTED and (call.pk not in probed or call.verify_requested_by):
            probe = verification.probe_of(store, held.session_id, call)
            if probe is not None:
                yield probe


def _open(store: Store, held: Held) -> None:
    """Let the run through: the session is active again. Raises `OwnershipLost`."""
    with operation(store.using):
        mine = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence, owner=held.run)
        if held.run.status != RunStatus.RUNNING or not mine.filter(status=SessionStatus.ACTIVE).exists():
            with transaction.atomic(using=store.using):
                ownership.mark(store, held, RunStatus.RUNNING)
                mine.update(status=SessionStatus.ACTIVE)
    held.run.status = RunStatus.RUNNING
    held.at_gate = False


def _wait(store: Store, held: Held) -> None:
    """Say, once, that the run waits for a person."""
    if held.run.status == RunStatus.WAITING:
        return
    with operation(store.using), transaction.atomic(using=store.using):
        ownership.mark(store, held, RunStatus.WAITING)
        actor = f"run {held.run.number}"
        audit.record(store, AuditKind.SESSION_NEEDS_REVIEW, session_pk=held.pk, actor=actor)
    held.run.status = RunStatus.WAITING


# where it goes on


def _point(store: Store, held: Held, latest: dict[str, Any], stands: Standing) -> ResumePoint:
    if stands.end is not None:
        return _ended(store, held, stands.end)
    with operation(store.using, writes=False):
        session = Session.objects.using(store.using).get(pk=held.pk)
        found = outlook.look(store, session, Tail(latest["transcript"], stands.pending))
    held.open_calls = dict(found.open)
    held.operations.reset(found.asked)
    for call in [*found.replay, *found.run]:
        held.operations.note(call.call_id, call.idempotency_key, call.pk, settled=call.status in SETTLED_CALL)
    held.replayed |= {call.pk for call in found.replay}
    return ResumePoint(
        held.run,
        latest["transcript"],
        latest["plan"],
        latest["budget_spent_usd"],
        latest["usage"],
        latest["version"],
        pending_response=stands.pending,
        replayable=ReplayableResults.of(held.operations, found.replay),
        snapshot=stands.snapshot,
    )


def _ended(store: Store, held: Held, end: RunTerminal) -> ResumePoint:
    """The run had ended and its process died before it could say so of the session."""
    starting.finish(store, held.session_id, end.state, end.terminal_result)
    point = finished_point(store, held.session_id)
    assert point is not None  # noqa: S101 - it has just been finished
    return point


def finished_point(store: Store, session_id: str) -> ResumePoint | None:
    """The stored end of a finished session; None while it is not finished. Raises `SessionNotFound`."""
    with operation(store.using, writes=False):
        session = lookup.session(store, session_id)
        if not session.finished:
            return None
        latest = reading.load_latest(store, session_id) or _EMPTY
    return ResumePoint(
        run=None,
        transcript=latest["transcript"],
        plan=latest["plan"],
        budget_spent_usd=latest["budget_spent_usd"],
        usage=latest["usage"],
        version=latest["version"],
        finished=True,
        result=_end_result(session),
    )


def _end_result(session: Session) -> Any:
    try:
        return None if session.result is None else parse(session.result)
    except ValueError as error:
        raise CheckpointCorrupted(session.session_id, "the result of the session", str(error)) from error


def preview(store: Store, session_id: str) -> dict[str, Any]:
    """What a resume would do now, without doing it: calls to `replay`, to `run`, and to `ask` a person about."""
    with operation(store.using, writes=False):
        session = lookup.session(store, session_id)
        latest = reading.load_tail(store, session_id, PREVIEWED_MESSAGES)
        stands = phases.standing(store, session_id, session.pk, latest) if latest else Standing()
        found = outlook.NOTHING
        finished = session.finished or stands.end is not None
        if not finished:
            said = latest["transcript"] if latest else []
            first = latest["message_count"] - len(said) if latest else 0
            found = outlook.look(store, session, Tail(said, stands.pending, first))
        unsettled = calls.with_status(store, session, {CallStatus.ISSUED, *UNDECIDED_CALL})
        undecided = [call for call in unsettled if call.status != CallStatus.ISSUED and not finished]
        orphans = [call for call in unsettled if call.status == CallStatus.ISSUED and call.mutates]
        return {
            "version": latest["version"] if latest else None,
            "finished": finished,
            "pending_response": stands.pending is not None,
            "replay": [calls.as_dict(call) for call in found.replay],
            "run": [calls.as_dict(call) for call in found.run],
            "ask": calls.as_dicts(store, [*undecided, *orphans]),
        }
