"""Current numbers of sessions by state, each from an index scan with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.sessions.display_status import LAST_RUN_WAS_LOST
from harness_site.review.selectors.pending_calls import BoundedCount

#: Upper bound of the counts; beyond it the page displays that there are more.
LIMIT: Final = 1000
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CurrentCounts:
    """`running` and `stalled` are of the active sessions with the newest activity; the last two are of 24 hours."""

    running: BoundedCount
    stalled: BoundedCount
    paused: BoundedCount
    failed: BoundedCount
    completed: BoundedCount


def load_current_counts(workspace: int, agent: str = "") -> CurrentCounts:
    """Load the counts with four queries; with `agent`, those of this agent."""
    sessions = Session.objects.filter(workspace=workspace)
    sessions = sessions.filter(agent=agent) if agent else sessions
    active = list(_query_active_sessions(sessions))
    is_truncated = len(active) > LIMIT
    return CurrentCounts(
        running=BoundedCount(min(sum(bool(held) for held, _ in active), LIMIT), is_truncated),
        stalled=BoundedCount(min(sum(lost and not held for held, lost in active), LIMIT), is_truncated),
        paused=_build_bounded_count(_query_paused_sessions(sessions).count()),
        failed=_build_bounded_count(_query_recently_ended(sessions, SessionStatus.FAILED).count()),
        completed=_build_bounded_count(_query_recently_ended(sessions, SessionStatus.COMPLETED).count()),
    )


def _build_bounded_count(number: int) -> BoundedCount:
    return BoundedCount(min(number, LIMIT), number > LIMIT)


def _query_active_sessions(sessions: QuerySet[Session]) -> QuerySet[Session, tuple[bool | None, bool]]:
    """Query whether a live run owns each active session, and whether a dead one does or its last run was lost."""
    active = sessions.filter(status=SessionStatus.ACTIVE)
    has_live_owner = ExpressionWrapper(Q(owner__lease_expires_at__gt=Now()), output_field=BooleanField())
    is_lost = ExpressionWrapper(Q(owner__isnull=False) | LAST_RUN_WAS_LOST, output_field=BooleanField())
    newest_sessions = active.order_by("-updated_at", "-pk").annotate(held=has_live_owner, lost=is_lost)
    return newest_sessions.values_list("held", "lost")[: LIMIT + 1]


def _query_paused_sessions(sessions: QuerySet[Session]) -> QuerySet[Session]:
    statuses = [SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED]
    return sessions.filter(status__in=statuses)[: LIMIT + 1]


def _query_recently_ended(sessions: QuerySet[Session], status: SessionStatus) -> QuerySet[Session]:
    recent = sessions.filter(updated_at__gt=Now() - _DAY, has_times=True)
    return recent.filter(status=status)[: LIMIT + 1]
