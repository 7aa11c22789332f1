"""Current numbers of sessions by state, each from an index scan with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import BooleanField, Count, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import OWNING_RUN_STATUSES, SessionStatus
from checkpoints.models import Run, Session
from checkpoints.sessions.display_status import LAST_RUN_WAS_LOST
from harness_site.review.selectors.pending_calls import BoundedCount

#: Upper bound of the counts; beyond it the page displays that there are more.
LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class CurrentCounts:
    """`stalled` are the sessions whose last run was lost or whose owner has no lease; of the active sessions that no
    run owns, only those with the newest activity are counted."""

    running: BoundedCount
    stalled: BoundedCount
    paused: BoundedCount


def load_current_counts(workspace: int, agent: str = "") -> CurrentCounts:
    """Load the counts with three queries; with `agent`, those of this agent."""
    sessions = Session.objects.filter(workspace=workspace)
    sessions = sessions.filter(agent=agent) if agent else sessions
    owned = _query_owning_runs(workspace, agent).aggregate(
        number=Count("pk"), running=Count("pk", filter=Q(has_lease=True))
    )
    unowned = _query_unowned_sessions(sessions).aggregate(number=Count("pk"), lost=Count("pk", filter=Q(was_lost=True)))
    has_more_owned, has_more_unowned = owned["number"] > LIMIT, unowned["number"] > LIMIT
    stalled = owned["number"] - owned["running"] + unowned["lost"]
    return CurrentCounts(
        running=BoundedCount(min(owned["running"], LIMIT), has_more_owned),
        stalled=BoundedCount(min(stalled, LIMIT), has_more_owned or has_more_unowned or stalled > LIMIT),
        paused=_build_bounded_count(_query_paused_sessions(sessions).count()),
    )


def _build_bounded_count(number: int) -> BoundedCount:
    return BoundedCount(min(number, LIMIT), number > LIMIT)


def _query_owning_runs(workspace: int, agent: str) -> QuerySet[Run]:
    """Query whether the lease of each run that owns an active session holds."""
    runs = Run.objects.filter(
        status__in=sorted(OWNING_RUN_STATUSES),
        session__workspace=workspace,
        session__status=SessionStatus.ACTIVE,
        session__owner=F("pk"),
    )
    runs = runs.filter(session__agent=agent) if agent else runs
    has_lease = ExpressionWrapper(Q(lease_expires_at__gt=Now()), output_field=BooleanField())
    return runs.annotate(has_lease=has_lease).only("pk")[: LIMIT + 1]


def _query_unowned_sessions(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """Query whether the last run of each active session without an owner was lost, newest activity first."""
    unowned = sessions.filter(status=SessionStatus.ACTIVE, owner=None).order_by("-updated_at", "-pk")
    was_lost = ExpressionWrapper(LAST_RUN_WAS_LOST, output_field=BooleanField())
    return unowned.annotate(was_lost=was_lost).only("pk")[: LIMIT + 1]


def _query_paused_sessions(sessions: QuerySet[Session]) -> QuerySet[Session]:
    statuses = [SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED]
    return sessions.filter(status__in=statuses)[: LIMIT + 1]
