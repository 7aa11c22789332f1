"""Point where a run continues, from the rows of its session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    SETTLED_CALL_STATUSES,
)
from checkpoints.exceptions import (
    CheckpointCorrupted,
)
from checkpoints.formats.canonical_json import parse_json
from checkpoints.integrity import quarantine
from checkpoints.loop_state.phase_details import RunTerminal
from checkpoints.models import Session, ToolCall
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import TranscriptTail
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.resume.stored_results_by_call_id import StoredResultsByCallId
from checkpoints.sessions import create_finish_release
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.versions import load_run_phase_and_snapshot, load_version
from checkpoints.versions.load_run_phase_and_snapshot import RunPosition

#: State from which a session without a checkpoint resumes.
EMPTY_VERSION: dict[str, Any] = {
    "transcript": [],
    "plan": None,
    "budget_spent_usd": 0.0,
    "usage": None,
    "version": 0,
    "payload": None,
}


def load_latest_version_and_run_position(
    store: Store, owned_session: OwnedSession
) -> tuple[dict[str, Any], RunPosition]:
    """Load and check the latest version, before anything is changed."""
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        latest = load_version.load_latest_version(store, owned_session.session_id) or dict(EMPTY_VERSION)
    return latest, load_run_phase_and_snapshot.load_run_position_after_version(
        store, owned_session.session_id, owned_session.pk, latest
    )


def prepare_or_finish_run_and_build_resume_point(
    store: Store, owned_session: OwnedSession, latest: dict[str, Any], position: RunPosition
) -> ResumePoint:
    """Open the calls that a run is to answer, and build the point where it continues; finish a run that had ended."""
    if position.terminal_details is not None:
        return _finish_session_of_ended_run(store, owned_session, position.terminal_details)
    reading = database_operation(store.using, writes=False)
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id), reading:
        session = Session.objects.using(store.using).get(pk=owned_session.pk)
        plan = resume_plan.plan_resume(store, session, TranscriptTail(latest["transcript"], position.pending))
    owned_session.open_calls = dict(plan.open)
    owned_session.operations.reset_pairings(plan.requested_calls)
    for call in [*plan.replay, *plan.run]:
        owned_session.operations.remember_logged_call(
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
        replayable=_build_replayable_results(owned_session.operations, plan.replay),
        snapshot=position.snapshot,
    )


def _build_replayable_results(operations: OpenOperations, answers: Iterable[ToolCall]) -> StoredResultsByCallId:
    """Build the results of `answers`, whose operations are among `operations`."""
    calls = list(answers)
    results = {call.call_id: resume_plan.build_replayed_result(call) for call in calls}
    return StoredResultsByCallId(results, operations, {call.call_id: call.pk for call in calls})


def load_resume_point_if_finished(store: Store, session_id: str) -> ResumePoint | None:
    """Load the stored end of a finished session; None while it is not finished. Raises `SessionNotFound`."""
    with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using, writes=False):
        session = look_up_and_lock_rows.get_session(store, session_id)
        look_up_and_lock_rows.require_not_quarantined(session)
        if not session.finished:
            return None
        latest = load_version.load_latest_version(store, session_id) or EMPTY_VERSION
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


def _finish_session_of_ended_run(store: Store, owned_session: OwnedSession, end: RunTerminal) -> ResumePoint:
    """Finish the session of a run that had ended and whose process died before it could finish the session."""
    create_finish_release.finish_session(store, owned_session.session_id, end.state, end.terminal_result)
    point = load_resume_point_if_finished(store, owned_session.session_id)
    assert point is not None  # noqa: S101 - it has just been finished
    return point
