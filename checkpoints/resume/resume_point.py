"""Point where a run continues: the state of the newest version, and the results that are still to be answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from checkpoints.calls.outcome_types import ToolResult
from checkpoints.db.database_operation import database_operation
from checkpoints.enums import (
    SETTLED_CALL_STATUSES,
)
from checkpoints.exceptions import (
    CheckpointCorrupted,
)
from checkpoints.formats.canonical import parse_json
from checkpoints.integrity import quarantine
from checkpoints.loop_state.phase_details import RunTerminal
from checkpoints.loop_state.runtime_snapshot import RuntimeSnapshot
from checkpoints.models import Run, Session
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import TranscriptTail
from checkpoints.resume.stored_results import ReplayableResults
from checkpoints.sessions import create_finish_release
from checkpoints.store import row_lookups
from checkpoints.store.database_client_state import OwnedSession, Store
from checkpoints.versions import load_version, loop_state_at_version
from checkpoints.versions.loop_state_at_version import RunPosition

#: State from which a session without a checkpoint resumes.
EMPTY_VERSION: dict[str, Any] = {
    "transcript": [],
    "plan": None,
    "budget_spent_usd": 0.0,
    "usage": None,
    "version": 0,
    "payload": None,
}


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


def load_version_to_continue(store: Store, owned_session: OwnedSession) -> tuple[dict[str, Any], RunPosition]:
    """Load and check the latest version, before anything is changed."""
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        latest = load_version.load_latest_version(store, owned_session.session_id) or dict(EMPTY_VERSION)
    return latest, loop_state_at_version.load_run_position(store, owned_session.session_id, owned_session.pk, latest)


def build_resume_point(
    store: Store, owned_session: OwnedSession, latest: dict[str, Any], position: RunPosition
) -> ResumePoint:
    """Build the point at which a run continues, and open the calls it is to answer; finish a run that had ended."""
    if position.terminal_details is not None:
        return _finish_session_of_ended_run(store, owned_session, position.terminal_details)
    reading = database_operation(store.using, writes=False)
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id), reading:
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


def load_resume_point_if_finished(store: Store, session_id: str) -> ResumePoint | None:
    """Load the stored end of a finished session; None while it is not finished. Raises `SessionNotFound`."""
    with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using, writes=False):
        session = row_lookups.get_session(store, session_id)
        row_lookups.require_not_quarantined(session)
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
