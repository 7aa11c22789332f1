"""Effect of a paused task on its session, for code that knows nothing of other agents.

A task that nobody has taken holds its session, and so does a task that was taken by a run that has saved no version
since: the session continues only by taking the task, and cannot be removed. Version numbers only grow, and only the
owner writes them, so comparing `taken_version` with the session's latest version tells whether the run that took a task
has saved anything.
"""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import PAUSED_TASK_STATUSES, JoinStatus, NoticeKind, PauseStatus, PeerCallStatus
from checkpoints.exceptions import PausedForPeers
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.store.database_client_state import Store


def find_blocking_paused_task(store: Store, row: Session) -> PausedTask | None:
    """Return the task that holds a session, or None."""
    tasks = PausedTask.objects.using(store.using).filter(session=row, status__in=sorted(PAUSED_TASK_STATUSES))
    return tasks.filter(_build_not_saved_since_taken_condition(row)).order_by("-number").first()


def select_complete_unsaved_joins(store: Store, row: Session) -> QuerySet[Join]:
    """Select the complete joins of a session whose results are in no version yet."""
    joins = Join.objects.using(store.using).filter(session=row, status=JoinStatus.COMPLETE)
    return joins.filter(_build_not_saved_since_taken_condition(row))


def _build_not_saved_since_taken_condition(row: Session) -> Q:
    return Q(taken_version=None) | Q(taken_version__gte=row.latest_version)


def select_open_calls_to_agents(store: Store, row: Session) -> QuerySet[PeerCall]:
    """Select the calls to other agents that a session still waits for."""
    return PeerCall.objects.using(store.using).filter(session=row, status=PeerCallStatus.WAITING)


def require_session_not_paused(store: Store, row: Session) -> None:
    """Raise `PausedForPeers` if a task holds the session."""
    if find_blocking_paused_task(store, row) is not None:
        raise PausedForPeers(row.session_id)


def close_taken_joins_and_tasks_after_save(store: Store, row: Session, *, saved_now: bool = False) -> None:
    """Close the joins that were taken and are durable: in a version saved since, or with `saved_now` in the
    caller's save."""
    condition = Q(taken_version__isnull=False) if saved_now else Q(taken_version__lt=row.latest_version)
    joins = Join.objects.using(store.using).filter(condition, session=row, status=JoinStatus.COMPLETE)
    joins.update(status=JoinStatus.USED)
    tasks = PausedTask.objects.using(store.using).filter(
        condition, session=row, status__in=sorted(PAUSED_TASK_STATUSES)
    )
    tasks.update(status=PauseStatus.OVER, ended_at=Now())


def supersede_paused_tasks(tasks: QuerySet[PausedTask]) -> None:
    """Mark older tasks as superseded by the session's newest one. Their open joins stay open."""
    tasks.filter(status__in=sorted(PAUSED_TASK_STATUSES)).update(status=PauseStatus.OVER, ended_at=Now())


def close_paused_tasks_and_cancel_agent_calls(store: Store, row: Session, status: PauseStatus) -> int:
    """Stop waiting for good: later responses do not count, and every agent with an open call gets a cancel notice.

    Returns the number of calls that were open.
    """
    tasks = PausedTask.objects.using(store.using).filter(session=row)
    if not tasks.exists():
        return 0
    tasks.filter(status__in=sorted(PAUSED_TASK_STATUSES)).update(status=status, ended_at=Now())
    joins = Join.objects.using(store.using).filter(session=row)
    joins.filter(status=JoinStatus.COMPLETE, taken_version__isnull=False).update(status=JoinStatus.USED)
    joins.filter(status__in=[JoinStatus.WAITING, JoinStatus.COMPLETE]).update(status=JoinStatus.CANCELLED)
    return select_open_calls_to_agents(store, row).update(
        status=PeerCallStatus.CANCELLED,
        settled_at=Now(),
        notice=NoticeKind.CANCEL,
        tell_after=Now(),
        tell_attempts=0,
    )
