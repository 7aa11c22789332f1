"""What is wanted of a list of sessions: which, and in what order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import (
    QuerySet,
    TextChoices,
)

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.queries.standing import STANDING, Standing


class Sort(TextChoices):
    """By what a list is ordered, the largest or newest first."""

    UPDATED = "updated", "Newest activity"
    STARTED = "started", "Newest start"
    COST = "cost", "Highest cost"


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """`first` and `last` are days in UTC on which sessions began.
    `least` and `most` are US dollars. In each of the `among`, querysets of session keys, a session has to be."""

    standing: Standing | None = None
    agent: str = ""
    first: date | None = None
    last: date | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    among: tuple[QuerySet[Any, Any], ...] = ()
    sort: Sort = Sort.UPDATED

    def __bool__(self) -> bool:
        narrowed = (self.first, self.last, self.least, self.most)
        given = any(value is not None for value in narrowed)
        return bool(self.standing or self.agent or self.among or given)

    @property
    def time_field(self) -> str:
        return "created_at" if self.sort is Sort.STARTED else "updated_at"


def of(workspace_id: int) -> QuerySet[Session]:
    """All sessions of a workspace."""
    return Session.objects.filter(workspace_id=workspace_id)


def filtered(workspace_id: int, wanted: SessionFilter) -> QuerySet[Session]:
    """The sessions that are wanted, in no order."""
    found = of(workspace_id)
    if wanted.agent:
        found = found.filter(agent=wanted.agent.replace("\0", ""))
    if wanted.standing:
        found = found.filter(STANDING[wanted.standing])
    if wanted.first is not None:
        found = found.filter(created_at__gte=_midnight(wanted.first))
    if wanted.last is not None:
        found = found.filter(created_at__lt=_midnight(wanted.last) + timedelta(days=1))
    if wanted.least is not None:
        found = found.filter(budget_spent_usd__gte=wanted.least)
    if wanted.most is not None:
        found = found.filter(budget_spent_usd__lte=wanted.most)
    for keys in wanted.among:
        found = found.filter(pk__in=keys)
    return found


def streams(workspace_id: int, wanted: SessionFilter) -> list[QuerySet[Session]]:
    """What is wanted, as queries that an index answers each. Those by agent and cost hold the sessions that are not
    active, so that saves need not keep them: the active ones are few, and are looked at one by one."""
    found = filtered(workspace_id, wanted)
    if wanted.standing or not (wanted.agent or wanted.sort is Sort.COST):
        return [found]
    return [found.exclude(status=SessionStatus.ACTIVE), found.filter(status=SessionStatus.ACTIVE)]


def order(wanted: SessionFilter) -> tuple[str, str]:
    """The fields to order by."""
    return ("-budget_spent_usd" if wanted.sort is Sort.COST else f"-{wanted.time_field}"), "-pk"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
