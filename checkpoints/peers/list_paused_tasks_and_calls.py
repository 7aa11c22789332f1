"""Lists of paused tasks, of those that can be taken now, and of the calls that a session waits for."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Q, QuerySet

from checkpoints.constants import BATCH_LIMIT
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import FINISHED_SESSION_STATUSES, PAUSED_TASK_STATUSES, JoinStatus
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.seals import row_seals
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.database_client_state import Store


def list_paused_sessions(
    store: Store, *, ready: bool | None = None, agent: str | None = None, limit: int = BATCH_LIMIT
) -> list[dict[str, Any]]:
    """List the sessions that wait for other agents or whose responses are not used yet, longest waiting first.

    `ready` says whether `take_paused` would return something now: a join is complete, no live run has the session, and
    the session and its joins match their seals. Joins that do not match theirs are not named.
    """
    with database_operation(store.using, writes=False):
        tasks: list[dict[str, Any]] = []
        for row in _select_paused_sessions(store, agent, ready):
            task = _load_joins_and_build_paused_session_dict(store, row)
            if ready is None or task["ready"] == ready:
                tasks.append(task)
            if len(tasks) >= limit:
                break
        return tasks


def _select_paused_sessions(store: Store, agent: str | None, ready: bool | None) -> QuerySet[Session]:
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
    sessions = sessions.exclude(status__in=sorted(FINISHED_SESSION_STATUSES)).select_related("owner")
    if agent is not None:
        # No name has a NUL, and PostgreSQL takes none.
        sessions = sessions.none() if "\0" in agent else sessions.filter(agent=agent)
    joins = Join.objects.using(store.using).filter(
        _build_join_without_saved_results_condition(F("session__latest_version")), status=JoinStatus.COMPLETE
    )
    tasks = PausedTask.objects.using(store.using).filter(
        _build_join_without_saved_results_condition(F("session__latest_version")),
        status__in=sorted(PAUSED_TASK_STATUSES),
    )
    condition = Q(pk__in=joins.values("session"))
    if not ready:
        condition |= Q(pk__in=tasks.values("session"))
    return sessions.filter(condition).order_by("updated_at", "pk")


def _build_join_without_saved_results_condition(version: F) -> Q:
    return Q(taken_version=None) | Q(taken_version__gte=version)


def _load_joins_and_build_paused_session_dict(store: Store, row: Session) -> dict[str, Any]:
    stored_joins = list(Join.objects.using(store.using).filter(session=row).order_by("pk"))
    joins = [join for join in stored_joins if not row_seals.is_row_altered(join)]
    is_altered = len(joins) < len(stored_joins) or row_seals.is_row_altered(row)
    has_live_owner = row.owner is not None and run_liveness_check.is_run_alive(row.owner)
    complete = [
        join
        for join in joins
        if join.status == JoinStatus.COMPLETE
        and (join.taken_version is None or join.taken_version >= row.latest_version)
    ]
    return {
        "session_id": row.session_id,
        "agent": row.agent,
        "ready": bool(complete) and not has_live_owner and not is_altered,
        "driven": has_live_owner,
        "complete": [join.join_id for join in complete],
        "open": [join.join_id for join in joins if join.status == JoinStatus.WAITING],
    }


def list_calls_to_other_agents(store: Store, session_id: str) -> list[dict[str, Any]]:
    """List the calls of a session to other agents, oldest first. Raises `SessionNotFound`, `IntegrityError`."""
    with database_operation(store.using, writes=False):
        row = look_up_and_lock_rows.get_session(store, session_id)
        calls = PeerCall.objects.using(store.using).filter(session=row).select_related("join__task").order_by("pk")
        row_seals.verify_rows(calls)
        row_seals.verify_rows({call.join_id: call.join for call in calls}.values())
        row_seals.verify_rows({call.join.task_id: call.join.task for call in calls}.values())
        return [_convert_agent_call_to_dict(call) for call in calls]


def _convert_agent_call_to_dict(call: PeerCall) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "peer": call.peer,
        "join_id": call.join.join_id,
        "pause": call.join.task.number,
        "status": call.status,
        "created_at": call.created_at.isoformat(),
        "deadline": call.deadline.isoformat(),
        "settled_at": None if call.settled_at is None else call.settled_at.isoformat(),
        "result_json": call.result,
        "late_result_json": call.late_result,
        "late_at": None if call.late_at is None else call.late_at.isoformat(),
        "to_tell": call.notice or None,
    }
