"""Preview of a resume, which changes nothing."""

from __future__ import annotations

from typing import Any

from checkpoints.calls import convert_calls_to_dicts, unfinished_call_queries
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    UNDECIDED_CALL_STATUSES,
    CallStatus,
)
from checkpoints.integrity import quarantine
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import PREVIEW_MESSAGE_COUNT, TranscriptTail
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions import load_run_phase_and_snapshot, load_version
from checkpoints.versions.load_run_phase_and_snapshot import RunPosition


def preview_resume(store: Store, session_id: str) -> dict[str, Any]:
    """Preview a resume without doing it: calls to `replay`, to `run`, and to `ask` a person about."""
    with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using, writes=False):
        session = look_up_and_lock_rows.get_session(store, session_id)
        latest = load_version.load_latest_version_with_last_messages(store, session_id, PREVIEW_MESSAGE_COUNT)
        position = (
            load_run_phase_and_snapshot.load_run_position_after_version(store, session_id, session.pk, latest)
            if latest
            else RunPosition()
        )
        plan = resume_plan.EMPTY_PLAN
        is_finished = session.finished or position.terminal_details is not None
        if not is_finished:
            messages = latest["transcript"] if latest else []
            first = latest["message_count"] - len(messages) if latest else 0
            plan = resume_plan.plan_resume(store, session, TranscriptTail(messages, position.pending, first))
        unsettled = unfinished_call_queries.list_verified_calls_of_session_with_status(
            store, session, {CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES}
        )
        undecided_calls = [call for call in unsettled if call.status != CallStatus.ISSUED and not is_finished]
        orphaned_calls = [call for call in unsettled if call.status == CallStatus.ISSUED and call.has_side_effects]
        return {
            "version": latest["version"] if latest else None,
            "finished": is_finished,
            "pending_response": position.pending is not None,
            "replay": [convert_calls_to_dicts.call_to_dict(call) for call in plan.replay],
            "run": [convert_calls_to_dicts.call_to_dict(call) for call in plan.run],
            "ask": convert_calls_to_dicts.load_calls_with_verify_reasons(store, [*undecided_calls, *orphaned_calls]),
        }
