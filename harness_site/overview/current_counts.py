"""Current numbers of sessions by state, each from an index scan with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet
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
    active = (
        _select_active_sessions()
        .filter(**wanted)[: LIMIT + 1]
        .aggregate(
            number=Count("pk"),
            running=Count("pk", filter=Q(held=True)),
            running_or_stalled=Count("pk", filter=Q(held_or_lost=True)),
        )
    )
    is_truncated = active["number"] > LIMIT
    return CurrentCounts(
        running=BoundedCount(min(active["running"], LIMIT), is_truncated),
        stalled=BoundedCount(min(active["running_or_stalled"] - active["running"], LIMIT), is_truncated),
        paused=_build_bounded_count(_select_paused_sessions().filter(**wanted)[: LIMIT + 1].count()),
    )


def _build_bounded_count(number: int) -> BoundedCount:
    return BoundedCount(min(number, LIMIT), number > LIMIT)


@cache
def _select_active_sessions() -> QuerySet[Session]:
    """Select whether a live run owns each active session, and whether any run does or its last run was lost."""
    active = Session.objects.filter(status=SessionStatus.ACTIVE)
    has_live_owner = ExpressionWrapper(Q(owner__lease_expires_at__gt=Now()), output_field=BooleanField())
    has_owner_or_lost_run = Q(owner__isnull=False) | LAST_RUN_WAS_LOST
    newest_sessions = active.order_by("-updated_at", "-pk").annotate(
        held=has_live_owner, held_or_lost=ExpressionWrapper(has_owner_or_lost_run, output_field=BooleanField())
    )
    return newest_sessions.only("pk")


@cache
def _select_paused_sessions() -> QuerySet[Session]:
    return Session.objects.filter(status__in=[SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED])
