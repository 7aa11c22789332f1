"""What is wanted of a list of sessions: which, and in what order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet, TextChoices

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
    `least` and `most` are US dollars. `among` are further conditions on a session's key."""

    standing: Standing | None = None
    agent: str = ""
    first: date | None = None
    last: date | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    among: tuple[Q, ...] = ()
    sort: Sort = Sort.UPDATED

    def __bool__(self) -> bool:
        narrowed = (self.first, self.last, self.least, self.most)
        given = any(value is not None for value in narrowed)
        return bool(self.standing or self.agent or self.among or given)

    @property
    def time_field(self) -> str:
        return time_field(self.sort)

    @property
    def lookups(self) -> dict[str, Any]:
        """What a session's own columns are compared with."""
        found = {
            "agent": self.agent.replace("\0", "") if self.agent else None,
            "created_at__gte": None if self.first is None else _midnight(self.first),
            "created_at__lt": None if self.last is None else _midnight(self.last) + timedelta(days=1),
            "budget_spent_usd__gte": self.least,
            "budget_spent_usd__lte": self.most,
        }
        return {name: value for name, value in found.items() if value is not None}


def of(workspace_id: int) -> QuerySet[Session]:
    """All sessions of a workspace."""
    return Session.objects.filter(workspace_id=workspace_id)


def filtered(workspace_id: int, wanted: SessionFilter) -> QuerySet[Session]:
    """The sessions that are wanted, in no order."""
    found = of(workspace_id).filter(**wanted.lookups)
    return (found.filter(STANDING[wanted.standing]) if wanted.standing else found).filter(*wanted.among)


def streams(workspace_id: int, wanted: SessionFilter) -> list[QuerySet[Session]]:
    """What is wanted, as queries that an index answers each. Those by agent and cost hold the sessions that are not
    active, so that saves need not keep them: the active ones are few, and are looked at one by one."""
    found = filtered(workspace_id, wanted)
    if wanted.standing or not (wanted.agent or wanted.sort is Sort.COST):
        return [found]
    return [found.exclude(status=SessionStatus.ACTIVE), found.filter(status=SessionStatus.ACTIVE)]


def order(sort: Sort) -> tuple[str, str]:
    """The fields to order by."""
    return ("-budget_spent_usd" if sort is Sort.COST else f"-{time_field(sort)}"), "-pk"


def time_field(sort: Sort) -> str:
    return "created_at" if sort is Sort.STARTED else "updated_at"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
