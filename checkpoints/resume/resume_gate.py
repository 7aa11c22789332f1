"""Gate: no run continues while the outcome of a call is unknown.

Own the session, let verify hooks settle the calls they can, and hold the run while a person has to decide the others.
The effect of a resume is computed in `resume_plan`, for the resume itself and for its preview.
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
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from checkpoints.audit import append_events
from checkpoints.calls import call_dicts, outcome_log, pending_calls, signed_decisions
from checkpoints.calls.outcome_types import ToolResult
from checkpoints.db.database_operation import database_operation
from checkpoints.decisions import run_verify_hooks
from checkpoints.enums import (
    SETTLED_CALL_STATUSES,
    UNDECIDED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    KeyPolicy,
    RunStatus,
    SessionStatus,
)
from checkpoints.exceptions import (
    ApprovalRequired,
    AtGate,
    CheckpointCorrupted,
    OwnershipLost,
    ReviewRequired,
    RunNotFound,
    SessionFinished,
)
from checkpoints.formats.canonical import parse_json
from checkpoints.ids import validate_id
from checkpoints.integrity import quarantine, verification
from checkpoints.loop_state.phase_details import RunTerminal
from checkpoints.loop_state.runtime_snapshot import RuntimeSnapshot
from checkpoints.models import Decision, Run, Session, ToolCall
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import TranscriptTail
from checkpoints.resume.stored_results import ReplayableResults
from checkpoints.sansio import Flow, Sleep, Transact
from checkpoints.sessions import create_finish_release, ownership
from checkpoints.sessions.create_finish_release import SessionDescription
from checkpoints.store import row_lookups
from checkpoints.store.store import OwnedSession, Store
from checkpoints.tracing import RESUME, trace_session_flow
from checkpoints.versions import load_version, run_position, save_version
from checkpoints.versions.run_position import RunPosition

#: State from which a session without a checkpoint resumes.
_EMPTY_VERSION: dict[str, Any] = {
    "transcript": [],
    "plan": None,
    "budget_spent_usd": 0.0,
    "usage": None,
    "version": 0,
    "payload": None,
}
#: Seconds between two checks for decisions while a run waits for them.
POLL_SECONDS = 0.25
#: Number of messages at the end of the transcript in which a preview searches for unanswered calls.
PREVIEW_MESSAGE_COUNT = 200


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


@trace_session_flow(RESUME)
def resume_flow(
    store: Store,
    session_id: str,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> Flow[ResumePoint]:
    """Take the session, pass the gate, and return the point where the run continues.

    Raises `SessionNotFound`, `SessionBusy`, `CheckpointCorrupted`, `SchemaFromFuture`, `OwnershipLost` if another
    run takes the session over meanwhile, and `ReviewRequired` if a person has to decide: at once, or with `wait`
    after `timeout` seconds (None waits without limit). After `ReviewRequired` the session is released. `paused` is for
    callers that take a session that waits for other agents.
    """
    with store.keep_session_from_idling(session_id):
        return (
            yield from _resume_without_idle_release_flow(
                store, session_id, wait=wait, timeout=timeout, takeover=takeover, paused=paused
            )
        )


def _resume_without_idle_release_flow(
    store: Store, session_id: str, *, wait: bool, timeout: float | None, takeover: bool | str, paused: bool
) -> Flow[ResumePoint]:
    finished_point: ResumePoint | None = yield Transact(lambda: load_resume_point_of_finished(store, session_id))
    if finished_point is not None:
        return finished_point
    owned_session: OwnedSession = yield Transact(
        lambda: _take_or_renew_ownership(store, session_id, takeover=takeover, paused=paused)
    )
    try:
        latest, position = yield Transact(lambda: _load_latest_version(store, owned_session))
        yield from _wait_for_decisions_flow(store, owned_session, wait=wait, timeout=timeout)
        point: ResumePoint = yield Transact(lambda: _build_resume_point(store, owned_session, latest, position))
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(lambda: ownership.release_ownership_quietly(store, owned_session))
        raise
    return point


def open_session_flow(
    store: Store,
    session_id: str,
    description: SessionDescription,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
) -> Flow[ResumePoint]:
    """Start or resume: create the session with `description` if it does not exist, then do what `resume_flow` does.

    A finished session returns its result, as in `resume_flow`; an existing session keeps its description. Raises what
    `resume_flow` raises, and `InvalidIdentifier` or `NotRepresentable` for an invalid description.
    """
    yield Transact(lambda: create_finish_release.create_session(store, session_id, description))
    return (yield from resume_flow(store, session_id, wait=wait, timeout=timeout, takeover=takeover))


# runs of processes elsewhere, in steps


def attach_run(store: Store, session_id: str, fence: int) -> OwnedSession:
    """Hold a session again whose run belongs to this store's token, after the process that held it has ended.

    Raises `SessionNotFound`, `SessionFinished`, `IntegrityError`, and `OwnershipLost` if another run has taken the
    session since.
    """
    with (
        quarantine.quarantine_if_altered(store, session_id),
        database_operation(store.using, writes=False),
        transaction.atomic(using=store.using),
    ):
        session = row_lookups.get_session(store, session_id, lock=True)
        if session.finished:
            raise SessionFinished(session_id, session.status)
        run = session.owner
        if run is None or session.fence != fence or run.owner_token != store.token:
            raise OwnershipLost(session_id)
        owned_session = OwnedSession(
            session.pk,
            session_id,
            run,
            fence,
            session.key_space,
            save_version.get_session_transcript_head(session),
            live_keys=verification.verify_session_records(store.using, session),
            at_gate=run.status == RunStatus.WAITING,
        )
        latest = load_version.load_latest_tail(store, session_id, PREVIEW_MESSAGE_COUNT) or _EMPTY_VERSION
        position = run_position.load_run_position(store, session_id, session.pk, latest)
        first = latest.get("message_count", 0) - len(latest["transcript"])
        plan = resume_plan.plan_resume(store, session, TranscriptTail(latest["transcript"], position.pending, first))
        owned_session.open_calls = dict(plan.open)
        for call in ToolCall.objects.using(store.using).filter(session=session, run=run, answered_version=None):
            if call.key_policy == KeyPolicy.UNANSWERED:
                owned_session.operations.restore_pairing(call)
            if call.status == CallStatus.ISSUED:  # its process reports the outcome
                store.issued.add(call.pk)
                store.executing.add(call.pk)
    store.add_owned(owned_session)
    return owned_session


def try_gate(
    store: Store,
    session_id: str,
    *,
    description: SessionDescription | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> ResumePoint | list[ToolCall]:
    """Take the session if it is not owned, and pass the gate if nothing is undecided.

    Returns the point where the run continues, or the undecided calls; then the run stays at the gate. With a
    `description` a session that does not exist is created. Raises what `resume_flow` raises but `ReviewRequired`; after
    an error the session is released.
    """
    if description is not None:
        create_finish_release.create_session(store, session_id, description)
    finished_point = load_resume_point_of_finished(store, session_id)
    if finished_point is not None:
        return finished_point
    owned_session = _take_or_renew_ownership(store, session_id, takeover=takeover, paused=paused)
    try:
        latest, position = _load_latest_version(store, owned_session)
        while True:
            undecided_calls = _list_undecided_calls(store, owned_session)
            if undecided_calls:
                _mark_run_waiting(store, owned_session)
                return undecided_calls
            if _activate_session_after_decisions(store, owned_session):
                return _build_resume_point(store, owned_session, latest, position)
    except OwnershipLost:
        raise
    except BaseException:
        ownership.release_ownership_quietly(store, owned_session)
        raise


@trace_session_flow(RESUME)
def start_session_flow(
    store: Store, session_id: str, description: SessionDescription, *, takeover: bool | str = False
) -> Flow[Run]:
    """Create the session, or continue it through the gate, and own it. Returns the run that drives it.

    On a session that this checkpointer owns and in which nothing is undecided it returns the existing run. Raises
    `InvalidIdentifier`, `NotRepresentable`, `SessionBusy`, `SessionFinished`, `SchemaFromFuture`, `PausedForPeers`,
    `CheckpointCorrupted` if the payload of the newest version is damaged, and `ReviewRequired` or `ApprovalRequired`
    if a person has to decide: then the session is released.
    """
    with store.keep_session_from_idling(validate_id("session id", session_id)):
        return (yield from _start_without_idle_release_flow(store, session_id, description, takeover=takeover))


def _start_without_idle_release_flow(
    store: Store, session_id: str, description: SessionDescription, *, takeover: bool | str
) -> Flow[Run]:
    run: Run | None = yield Transact(lambda: _find_continuable_run(store, session_id))
    if run is not None:
        return run
    yield Transact(lambda: create_finish_release.create_session(store, session_id, description))
    owned_session: OwnedSession = yield Transact(
        lambda: _take_or_renew_ownership(store, session_id, takeover=takeover, paused=False)
    )
    try:
        yield Transact(lambda: _require_readable_payload(store, owned_session))
        yield from _wait_for_decisions_flow(store, owned_session, wait=False, timeout=None)
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(lambda: ownership.release_ownership_quietly(store, owned_session))
        raise
    return owned_session.run


def _find_continuable_run(store: Store, session_id: str) -> Run | None:
    """Return the run with which this checkpointer drives the session; None if it has none or has to pass the gate."""
    owned_session = store.find_owned(session_id)
    if owned_session is None:
        return None
    if owned_session.at_gate:
        raise AtGate(session_id)
    if not ownership.renew_ownership(store, owned_session):
        store.remove_owned(owned_session)
        return None
    if _list_undecided_calls(store, owned_session):
        return None
    owned_session.operations.reset_pairings()
    return owned_session.run


def find_session_id_of_run(store: Store, run_id: object) -> str:
    """Find the id of the session that a run drove. Raises `RunNotFound`."""
    try:
        run_uuid = uuid.UUID(str(run_id))
    except ValueError:
        raise RunNotFound(run_id) from None
    with database_operation(store.using, writes=False):
        runs = Run.objects.using(store.using).filter(pk=run_uuid, session__workspace_id=store.workspace_id)
        session_id = runs.values_list("session__session_id", flat=True).first()
    if session_id is None:
        raise RunNotFound(run_id)
    return session_id


def _take_or_renew_ownership(store: Store, session_id: str, *, takeover: bool | str, paused: bool) -> OwnedSession:
    owned_session = store.find_owned(session_id)
    if owned_session is not None and ownership.renew_ownership(store, owned_session):
        outcome_log.interrupt_abandoned_calls(store, owned_session)
        owned_session.operations.reset_pairings()
        return owned_session
    return ownership.take_session(store, session_id, takeover=takeover, paused=paused)


def _require_readable_payload(store: Store, owned_session: OwnedSession) -> None:
    """Refuse to continue if a journaled model answer may be in a damaged payload.

    Raises `CheckpointCorrupted`, `SchemaFromFuture`.
    """
    if owned_session.head.version == 0:
        return
    with database_operation(store.using, writes=False):
        newest = save_version.find_newest_version(store.using, owned_session.pk)
        if newest is not None:
            run_position.load_run_position_at_version(store, owned_session.session_id, newest)


def _load_latest_version(store: Store, owned_session: OwnedSession) -> tuple[dict[str, Any], RunPosition]:
    """Load and check the latest version, before anything is changed."""
    with quarantine.quarantine_if_altered(store, owned_session.session_id):
        latest = load_version.load_latest_version(store, owned_session.session_id) or dict(_EMPTY_VERSION)
    return latest, run_position.load_run_position(store, owned_session.session_id, owned_session.pk, latest)


def _wait_for_decisions_flow(
    store: Store, owned_session: OwnedSession, *, wait: bool, timeout: float | None
) -> Flow[None]:
    probed_pks: set[int] = set()
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        undecided_calls: list[ToolCall] = yield Transact(lambda: _list_undecided_calls(store, owned_session))
        for probe in _iterate_due_probes(store, owned_session, undecided_calls, probed_pks):
            probed_pks.add(probe.call_pk)
            yield from run_verify_hooks.run_probe_flow(store, probe)
        if undecided_calls:
            undecided_calls = yield Transact(lambda: _list_undecided_calls(store, owned_session))
        if not undecided_calls:
            if (yield Transact(lambda: _activate_session_after_decisions(store, owned_session))):
                return
            continue
        if not wait or (until is not None and time.monotonic() >= until):
            unknown = any(call.status == CallStatus.INTERRUPTED for call in undecided_calls)
            kind = ReviewRequired if unknown else ApprovalRequired
            raise kind(
                owned_session.session_id, (yield Transact(partial(call_dicts.calls_to_dicts, store, undecided_calls)))
            )
        yield Transact(lambda: _mark_run_waiting(store, owned_session))
        yield Sleep(POLL_SECONDS)


def _list_undecided_calls(store: Store, owned_session: OwnedSession) -> list[ToolCall]:
    with database_operation(store.using, writes=False):
        session = Session.objects.using(store.using).filter(pk=owned_session.pk, fence=owned_session.fence).first()
        if session is None:
            raise row_lookups.build_fence_lost_error(store, owned_session)
        return pending_calls.list_calls_at_gate(store, session)


def _iterate_due_probes(
    store: Store, owned_session: OwnedSession, calls: Iterable[ToolCall], probed_pks: set[int]
) -> Iterable[run_verify_hooks.VerifyProbe]:
    """Iterate over the probes to run now: each once automatically, and again whenever a person requests it."""
    for call in calls:
        if call.status == CallStatus.INTERRUPTED and (call.pk not in probed_pks or call.verify_requested_by):
            probe = run_verify_hooks.build_verify_probe(store, owned_session.session_id, call)
            if probe is not None:
                yield probe


def _activate_session_after_decisions(store: Store, owned_session: OwnedSession) -> bool:
    """Let the run through: the session is active again, and the decisions made so far are used.

    Returns False if a person has withdrawn a decision in the meantime. Raises `OwnershipLost`.
    """
    with quarantine.quarantine_if_altered(store, owned_session.session_id), database_operation(store.using):
        owned_row = Session.objects.using(store.using).filter(
            pk=owned_session.pk, fence=owned_session.fence, owner=owned_session.run
        )
        # A call that was dispatched after a decision has made the session active; the decision is used only now.
        decided = Decision.objects.using(store.using).filter(session=OuterRef("pk"))
        nothing_to_use = owned_row.filter(~Exists(decided), status=SessionStatus.ACTIVE)
        if owned_session.run.status != RunStatus.RUNNING or not nothing_to_use.exists():
            with transaction.atomic(using=store.using):
                session = owned_row.select_for_update().first()
                if session is not None and pending_calls.list_calls_at_gate(store, session):
                    return False
                signed_decisions.verify_session(store.using, owned_session.pk)
                ownership.mark_run_status(store, owned_session, RunStatus.RUNNING)
                is_waiting = session is not None and pending_calls.list_undecided_calls(store, session)
                status = SessionStatus.NEEDS_REVIEW if is_waiting else SessionStatus.ACTIVE
                owned_row.update(status=status, gate_opened_at=Now())
    owned_session.run.status = RunStatus.RUNNING
    owned_session.at_gate = False
    return True


def _mark_run_waiting(store: Store, owned_session: OwnedSession) -> None:
    """Mark the run, once, as waiting for a person."""
    if owned_session.run.status == RunStatus.WAITING:
        return
    with database_operation(store.using), transaction.atomic(using=store.using):
        ownership.mark_run_status(store, owned_session, RunStatus.WAITING)
        actor = f"run {owned_session.run.number}"
        append_events.record_event(store, AuditKind.SESSION_NEEDS_REVIEW, session_pk=owned_session.pk, actor=actor)
    owned_session.run.status = RunStatus.WAITING


# point to continue from


def _build_resume_point(
    store: Store, owned_session: OwnedSession, latest: dict[str, Any], position: RunPosition
) -> ResumePoint:
    if position.terminal_details is not None:
        return _finish_ended_run(store, owned_session, position.terminal_details)
    reading = database_operation(store.using, writes=False)
    with quarantine.quarantine_if_altered(store, owned_session.session_id), reading:
        session = Session.objects.using(store.using).get(pk=owned_session.pk)
        plan = resume_plan.plan_resume(store, session, TranscriptTail(latest["transcript"], position.pending))
    owned_session.open_calls = dict(plan.open)
    owned_session.operations.reset_pairings(plan.requested_calls)
    for call in [*plan.replay, *plan.run]:
        owned_session.operations.record_logged_call(
            call.call_id, call.idempotency_key, call.pk, settled=call.status in SETTLED_CALL_STATUSES
        )
    owned_session.replayed |= {call.pk for call in plan.replay}
    return ResumePoint(
        owned_session.run,
        latest["transcript"],
        latest["plan"],
        latest["budget_spent_usd"],
        latest["usage"],
        latest["version"],
        pending_response=position.pending,
        replayable=ReplayableResults.from_calls(owned_session.operations, plan.replay),
        snapshot=position.snapshot,
    )


def _finish_ended_run(store: Store, owned_session: OwnedSession, end: RunTerminal) -> ResumePoint:
    """Finish the session of a run that had ended and whose process died before it could finish the session."""
    create_finish_release.finish_session(store, owned_session.session_id, end.state, end.terminal_result)
    point = load_resume_point_of_finished(store, owned_session.session_id)
    assert point is not None  # noqa: S101 - it has just been finished
    return point


def load_resume_point_of_finished(store: Store, session_id: str) -> ResumePoint | None:
    """Load the stored end of a finished session; None while it is not finished. Raises `SessionNotFound`."""
    with quarantine.quarantine_if_altered(store, session_id), database_operation(store.using, writes=False):
        session = row_lookups.get_session(store, session_id)
        row_lookups.require_not_quarantined(session)
        if not session.finished:
            return None
        latest = load_version.load_latest_version(store, session_id) or _EMPTY_VERSION
    return ResumePoint(
        run=None,
        transcript=latest["transcript"],
        plan=latest["plan"],
        budget_spent_usd=latest["budget_spent_usd"],
        usage=latest["usage"],
        version=latest["version"],
        finished=True,
        result=_parse_session_result(session),
    )


def _parse_session_result(session: Session) -> Any:
    try:
        return None if session.result is None else parse_json(session.result)
    except ValueError as error:
        raise CheckpointCorrupted(session.session_id, "the result of the session", str(error)) from error


def preview_resume(store: Store, session_id: str) -> dict[str, Any]:
    """Preview a resume without doing it: calls to `replay`, to `run`, and to `ask` a person about."""
    with quarantine.quarantine_if_altered(store, session_id), database_operation(store.using, writes=False):
        session = row_lookups.get_session(store, session_id)
        latest = load_version.load_latest_tail(store, session_id, PREVIEW_MESSAGE_COUNT)
        position = run_position.load_run_position(store, session_id, session.pk, latest) if latest else RunPosition()
        plan = resume_plan.EMPTY_PLAN
        is_finished = session.finished or position.terminal_details is not None
        if not is_finished:
            messages = latest["transcript"] if latest else []
            first = latest["message_count"] - len(messages) if latest else 0
            plan = resume_plan.plan_resume(store, session, TranscriptTail(messages, position.pending, first))
        unsettled = pending_calls.list_calls_with_status(store, session, {CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES})
        undecided_calls = [call for call in unsettled if call.status != CallStatus.ISSUED and not is_finished]
        orphaned_calls = [call for call in unsettled if call.status == CallStatus.ISSUED and call.mutates]
        return {
            "version": latest["version"] if latest else None,
            "finished": is_finished,
            "pending_response": position.pending is not None,
            "replay": [call_dicts.call_to_dict(call) for call in plan.replay],
            "run": [call_dicts.call_to_dict(call) for call in plan.run],
            "ask": call_dicts.calls_to_dicts(store, [*undecided_calls, *orphaned_calls]),
        }
