"""How many sessions stand where, now. Every number comes from the beginning of an index and stops at a limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.queries.inbox import Count

#: Counted up to here; beyond it the page says that there are more.
LIMIT: Final = 1000
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Present:
    """`running` and `stalled` are of the active sessions with the newest activity; the last two are of 24 hours."""

    running: Count
    stalled: Count
    paused: Count
    failed: Count
    completed: Count


def read(workspace: int) -> Present:
    """Four queries."""
    sessions = Session.objects.filter(workspace=workspace)
    active = sessions.filter(status=SessionStatus.ACTIVE).order_by("-updated_at", "-pk")
    held = ExpressionWrapper(Q(owner__lease_expires_at__gt=Now()), output_field=BooleanField())
    driven = list(active.annotate(held=held).values_list("held", flat=True)[: LIMIT + 1])
    paused = Q(status__in=[SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED])
    recent = sessions.filter(updated_at__gt=Now() - _DAY)
    more = len(driven) > LIMIT
    return Present(
        running=Count(min(sum(map(bool, driven)), LIMIT), more),
        stalled=Count(min(sum(not one for one in driven), LIMIT), more),
        paused=_count(sessions.filter(paused)),
        failed=_count(recent.filter(status=SessionStatus.FAILED)),
        completed=_count(recent.filter(status=SessionStatus.COMPLETED)),
    )


def _count(sessions: QuerySet[Session]) -> Count:
    found = sessions.order_by()[: LIMIT + 1].count()
    return Count(min(found, LIMIT), found > LIMIT)
