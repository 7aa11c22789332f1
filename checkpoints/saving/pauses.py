"""What a paused task means for the session that holds it, for those who know nothing of other agents.

A task that nobody has taken, and one that was taken and whose run has saved no version since, hold their session:
it is gone on with by taking the task, and not removed. Version numbers only grow, and only the owner writes them, so
`taken_version` against the session's latest one tells whether the run that took a task has saved anything.
"""

from __future__ import annotations

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import PAUSED_TASK, JoinStatus, NoticeKind, PauseStatus, PeerCallStatus
from checkpoints.exceptions import PausedForPeers
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.saving.store import Store


def holding(store: Store, row: Session) -> PausedTask | None:
    """The task that holds a session; None where there is none."""
    tasks = PausedTask.objects.using(store.using).filter(session=row, status__in=sorted(PAUSED_TASK))
    return tasks.filter(_not_saved_since(row)).order_by("-number").first()


def takeable(store: Store, row: Session) -> QuerySet[Join]:
    """The complete joins of a session whose results are in no version yet."""
    joins = Join.objects.using(store.using).filter(session=row, status=JoinStatus.COMPLETE)
    return joins.filter(_not_saved_since(row))


def _not_saved_since(row: Session) -> Q:
    return Q(taken_version=None) | Q(taken_version__gte=row.latest_version)


def open_calls(store: Store, row: Session) -> QuerySet[PeerCall]:
    """The calls to other agents that a session still waits for."""
    return PeerCall.objects.using(store.using).filter(session=row, status=PeerCallStatus.WAITING)


def require_free(store: Store, row: Session) -> None:
    """Raises `PausedForPeers` where a task holds the session."""
    if holding(store, row) is not None:
        raise PausedForPeers(row.session_id)


def close_used(store: Store, row: Session, *, saved_now: bool = False) -> None:
    """Close what has been taken and is safe: in a version saved since, or with `saved_now` in what the caller saves."""
    taken = Q(taken_version__isnull=False) if saved_now else Q(taken_version__lt=row.latest_version)
    joins = Join.objects.using(store.using).filter(taken, session=row, status=JoinStatus.COMPLETE)
    joins.update(status=JoinStatus.USED)
    tasks = PausedTask.objects.using(store.using).filter(taken, session=row, status__in=sorted(PAUSED_TASK))
    tasks.update(status=PauseStatus.OVER, ended_at=Now())


def supersede(tasks: QuerySet[PausedTask]) -> None:
    """A session is held by its newest task: those before it are over. Their open joins stay open."""
    tasks.filter(status__in=sorted(PAUSED_TASK)).update(status=PauseStatus.OVER, ended_at=Now())


def close_all(store: Store, row: Session, status: PauseStatus) -> int:
    """Stop waiting, for good: nothing that still comes counts, and every agent that was asked is to be told so.

    Returns how many calls were waited for.
    """
    tasks = PausedTask.objects.using(store.using).filter(session=row)
    if not tasks.exists():
        return 0
    tasks.filter(status__in=sorted(PAUSED_TASK)).update(status=status, ended_at=Now())
    joins = Join.objects.using(store.using).filter(session=row)
    joins.filter(status=JoinStatus.COMPLETE, taken_version__isnull=False).update(status=JoinStatus.USED)
    joins.filter(status__in=[JoinStatus.WAITING, JoinStatus.COMPLETE]).update(status=JoinStatus.CANCELLED)
    return open_calls(store, row).update(
        status=PeerCallStatus.CANCELLED,
        settled_at=Now(),
        notice=NoticeKind.CANCEL,
        tell_after=Now(),
        tell_attempts=0,
    )


def touch(store: Store, row: Session) -> None:
    """Let the pages notice."""
    changed = Session.objects.using(store.using).filter(pk=row.pk)
    changed.update(revision=F("revision") + 1, updated_at=Now())
