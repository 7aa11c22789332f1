"""Point where a run continues, from the rows of its session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    SETTLED_CALL_STATUSES,
)
from checkpoints.integrity import quarantine
from checkpoints.models import Session, ToolCall
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import TranscriptTail
from checkpoints.resume.resume_point import EMPTY_VERSION, ResumePoint
from checkpoints.resume.resume_point_of_finished_session import finish_session_of_ended_run
from checkpoints.resume.stored_results_by_call_id import StoredResultsByCallId
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.versions import load_run_phase_and_snapshot, load_version
from checkpoints.versions.load_run_phase_and_snapshot import RunPosition


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
        return finish_session_of_ended_run(store, owned_session, position.terminal_details)
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
