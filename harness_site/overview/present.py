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
    driven = list(_driven(workspace))
    more = len(driven) > LIMIT
    return Present(
        running=Count(min(sum(map(bool, driven)), LIMIT), more),
        stalled=Count(min(sum(not one for one in driven), LIMIT), more),
        paused=_limited(_paused(workspace).count()),
        failed=_limited(_ended(workspace, SessionStatus.FAILED).count()),
        completed=_limited(_ended(workspace, SessionStatus.COMPLETED).count()),
    )


def _limited(found: int) -> Count:
    return Count(min(found, LIMIT), found > LIMIT)


def _driven(workspace: int) -> QuerySet[Session, bool]:
    active = Session.objects.filter(workspace=workspace, status=SessionStatus.ACTIVE)
    held = ExpressionWrapper(Q(owner__lease_expires_at__gt=Now()), output_field=BooleanField())
    newest = active.order_by("-updated_at", "-pk").annotate(held=held)
    return newest.values_list("held", flat=True)[: LIMIT + 1]


def _paused(workspace: int) -> QuerySet[Session]:
    paused = [SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED]
    return Session.objects.filter(workspace=workspace, status__in=paused)[: LIMIT + 1]


def _ended(workspace: int, status: SessionStatus) -> QuerySet[Session]:
    recent = Session.objects.filter(workspace=workspace, updated_at__gt=Now() - _DAY)
    return recent.filter(status=status)[: LIMIT + 1]
