"""Current numbers of sessions by state, each from an index scan with a limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.enums import OWNING_RUN_STATUSES, SessionStatus
from checkpoints.models import Run, Session
from checkpoints.sessions.display_status import LAST_RUN_WAS_LOST
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime, convert_to_microseconds
from harness_site.review.selectors.pending_calls import BoundedCount

#: Upper bound of the counts; beyond it the page displays that there are more.
LIMIT: Final = 1000
#: An agent that runs resumes a decided session within this time.
RESUMED_WITHIN: Final = timedelta(minutes=15)
#: Condition of the index by status: SQLite uses the index only for a query that repeats it.
_IS_INACTIVE: Final = ~Q(status=SessionStatus.ACTIVE)


@dataclass(frozen=True, slots=True)
class CurrentCounts:
    """`stalled` are the sessions whose last run was lost or whose owner has no lease; of the active sessions that no
    run owns, only those with the newest activity are counted. A quarantined session has no other status, as in lists,
    and no run owns it.

    `ready` are those whose calls are all decided and that nothing has resumed; the oldest has been so since
    `ready_since`, and `not_resumed_in_time_by_agent` counts by agent those that have been so for `RESUMED_WITHIN`.
    `paused` are those that wait for a decision or for another agent.
    """

    running: BoundedCount
    stalled: BoundedCount
    ready: BoundedCount
    ready_since: datetime | None
    not_resumed_in_time_by_agent: Counter[str]
    paused: BoundedCount
    quarantined: BoundedCount


def load_current_session_counts(workspace: int, agent: str = "") -> CurrentCounts:
    """Load the counts with five queries; with `agent`, those of this agent.

    Reading a thousand flags or keys takes less time than building a query that counts those of a subquery.
    """
    of_agent = {"agent": agent} if agent else {}
    runs_of_agent = {"session__agent": agent} if agent else {}
    leases = list(
        _select_lease_validity_of_owning_runs().filter(session__workspace=workspace, **runs_of_agent)[: LIMIT + 1]
    )
    losses = list(_select_loss_flags_of_unowned_sessions().filter(workspace=workspace, **of_agent)[: LIMIT + 1])
    ready = list(_select_last_activity_of_ready_sessions().filter(workspace=workspace, **of_agent)[: LIMIT + 1])
    long_ago = convert_to_microseconds(clock.now() - RESUMED_WITHIN)
    paused = _select_review_and_paused_sessions().filter(workspace=workspace, **of_agent)
    quarantined = _select_quarantined_sessions().filter(workspace=workspace, **of_agent)
    has_more_owned, has_more_unowned = len(leases) > LIMIT, len(losses) > LIMIT
    running = sum(leases)
    stalled = len(leases) - running + sum(losses)
    return CurrentCounts(
        running=BoundedCount(min(running, LIMIT), has_more_owned),
        stalled=BoundedCount(min(stalled, LIMIT), has_more_owned or has_more_unowned or stalled > LIMIT),
        ready=_cap_count_at_limit(len(ready)),
        ready_since=convert_to_datetime(ready[0][0]) if ready else None,
        not_resumed_in_time_by_agent=Counter([name for since, name in ready[:LIMIT] if since < long_ago]),
        paused=_cap_count_at_limit(len(paused[: LIMIT + 1])),
        quarantined=_cap_count_at_limit(len(quarantined[: LIMIT + 1])),
    )


def _cap_count_at_limit(number: int) -> BoundedCount:
    return BoundedCount(min(number, LIMIT), number > LIMIT)


@cache
def _select_lease_validity_of_owning_runs() -> QuerySet[Run, bool]:
    """Select whether the lease of each run that owns an active session holds."""
    runs = Run.objects.filter(
        status__in=sorted(OWNING_RUN_STATUSES), session__status=SessionStatus.ACTIVE, session__owner=F("pk")
    )
    has_lease = ExpressionWrapper(Q(lease_expires_at__gt=Now()), output_field=BooleanField())
    return runs.values_list(has_lease, flat=True)


@cache
def _select_loss_flags_of_unowned_sessions() -> QuerySet[Session, bool]:
    """Select whether the last run of each active session without an owner was lost, newest activity first."""
    unowned = Session.objects.filter(status=SessionStatus.ACTIVE, owner=None, quarantined_at=None)
    was_lost = ExpressionWrapper(LAST_RUN_WAS_LOST, output_field=BooleanField())
    return unowned.order_by("-updated_at", "-pk").values_list(was_lost, flat=True)


@cache
def _select_last_activity_of_ready_sessions() -> QuerySet[Session, tuple[int, str]]:
    """Select the last activity of each session that is ready to resume, in microseconds since 1970, and its agent.

    The oldest comes first.
    """
    ready = Session.objects.filter(_IS_INACTIVE, status=SessionStatus.READY, quarantined_at=None)
    return ready.order_by("updated_at", "pk").values_list(Instant("updated_at"), "agent")


@cache
def _select_review_and_paused_sessions() -> QuerySet[Session, int]:
    statuses = [SessionStatus.NEEDS_REVIEW, SessionStatus.PAUSED]
    paused = Session.objects.filter(_IS_INACTIVE, status__in=statuses, quarantined_at=None)
    return paused.values_list("pk", flat=True)


@cache
def _select_quarantined_sessions() -> QuerySet[Session, int]:
    return Session.objects.filter(quarantined_at__isnull=False).values_list("pk", flat=True)
