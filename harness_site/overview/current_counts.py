"""Current numbers of sessions by state, each from an index scan with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.sessions.display_status import LAST_RUN_WAS_LOST
from harness_site.review.selectors.pending_calls import BoundedCount

#: Upper bound of the counts; beyond it the page displays that there are more.
LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class CurrentCounts:
    """`running` and `stalled` are of the active sessions with the newest activity."""

    running: BoundedCount
    stalled: BoundedCount
    paused: BoundedCount


def load_current_counts(workspace: int, agent: str = "") -> CurrentCounts:
    """Load the counts with two queries; with `agent`, those of this agent."""
    wanted: dict[str, Any] = {"workspace": workspace} | ({"agent": agent} if agent else {})
    # Reading a thousand rows takes less time than building a query that counts those of a subquery by two conditions.
    active = list(_select_active_sessions().filter(**wanted)[: LIMIT + 1])
    is_truncated = len(active) > LIMIT
    running = sum(bool(is_held) for is_held, _ in active)
    running_or_stalled = sum(bool(is_held_or_lost) for _, is_held_or_lost in active)
    return CurrentCounts(
        running=BoundedCount(min(running, LIMIT), is_truncated),
        stalled=BoundedCount(min(running_or_stalled - running, LIMIT), is_truncated),
        paused=_build_bounded_count(_select_paused_sessions().filter(**wanted)[: LIMIT + 1].count()),
    )


def _build_bounded_count(number: int) -> BoundedCount:
    return BoundedCount(min(number, LIMIT), number > LIMIT)


@cache
def _select_active_sessions() -> QuerySet[Session, tuple[bool | None, bool | None]]:
    """Select whether a live run owns each active session, and whether any run does or its last run was lost."""
    active = Session.objects.filter(status=SessionStatus.ACTIVE)
    has_live_owner = ExpressionWrapper(Q(owner__lease_expires_at__gt=Now()), output_field=BooleanField())
    has_owner_or_lost_run = Q(owner__isnull=False) | LAST_RUN_WAS_LOST
    return active.order_by("-updated_at", "-pk").values_list(
        has_live_owner, ExpressionWrapper(has_owner_or_lost_run, output_field=BooleanField())
    )


@cache
def _select_paused_sessions() -> QuerySet[Session]:
    return Session.objects.filter(status__in=[SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED])
