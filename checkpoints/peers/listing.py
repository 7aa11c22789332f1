"""Which tasks are paused, which of them can be taken now, and what a session waits for."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Q, QuerySet

from checkpoints.enums import FINISHED_SESSION, PAUSED_TASK, JoinStatus
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.saving import liveness, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

LIMIT = 100


def paused(
    store: Store, *, ready: bool | None = None, agent: str | None = None, limit: int = LIMIT
) -> list[dict[str, Any]]:
    """Sessions that wait for other agents or whose answers are not used yet, those that have waited longest first.

    `ready` says whether `take_paused` would give something now: a join is complete, and no live run has the session.
    """
    with operation(store.using, writes=False):
        found: list[dict[str, Any]] = []
        for row in _candidates(store, agent, ready):
            described = _described(store, row)
            if ready is None or described["ready"] == ready:
                found.append(described)
            if len(found) >= limit:
                break
        return found


def _candidates(store: Store, agent: str | None, ready: bool | None) -> QuerySet[Session]:
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
    sessions = sessions.exclude(status__in=sorted(FINISHED_SESSION)).select_related("owner")
    if agent is not None:
        sessions = sessions.filter(agent=agent)
    joins = Join.objects.using(store.using).filter(_unused_of(F("session__latest_version")), status=JoinStatus.COMPLETE)
    tasks = PausedTask.objects.using(store.using).filter(
        _unused_of(F("session__latest_version")), status__in=sorted(PAUSED_TASK)
    )
    concerned = Q(pk__in=joins.values("session"))
    if not ready:
        concerned |= Q(pk__in=tasks.values("session"))
    return sessions.filter(concerned).order_by("updated_at", "pk")


def _unused_of(version: F) -> Q:
    return Q(taken_version=None) | Q(taken_version__gte=version)


def _described(store: Store, row: Session) -> dict[str, Any]:
    joins = list(Join.objects.using(store.using).filter(session=row).order_by("pk"))
    driven = row.owner is not None and liveness.is_alive(row.owner)
    complete = [
        join
        for join in joins
        if join.status == JoinStatus.COMPLETE
        and (join.taken_version is None or join.taken_version >= row.latest_version)
    ]
    return {
        "session_id": row.session_id,
        "agent": row.agent,
        "ready": bool(complete) and not driven,
        "driven": driven,
        "complete": [join.join_id for join in complete],
        "open": [join.join_id for join in joins if join.status == JoinStatus.WAITING],
    }


def calls_of(store: Store, session_id: str) -> list[dict[str, Any]]:
    """The calls of a session to other agents, oldest first. Raises `SessionNotFound`."""
    with operation(store.using, writes=False):
        row = lookup.session(store, session_id)
        calls = PeerCall.objects.using(store.using).filter(session=row)
        return [_call(call) for call in calls.select_related("join__task").order_by("pk")]


def _call(call: PeerCall) -> dict[str, Any]:
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
