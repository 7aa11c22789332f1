"""What is wanted of a list of sessions: which, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
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
class Among:
    """The condition `build(workspace_id, *values)`, whose statement is the same for other values."""

    build: Callable[..., Q]
    values: tuple[str, ...]


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
    among: tuple[Q | Among, ...] = ()
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

    @property
    def values(self) -> tuple[object, ...]:
        """Everything that a statement of its `shape` is filled with."""
        among = (value for one in self.among if isinstance(one, Among) for value in one.values)
        return (*self.lookups.values(), *among)


@dataclass(frozen=True, slots=True)
class Shape:
    """A filter without its values: those with the same shape have the same statements."""

    sort: Sort
    standing: Standing | None
    lookups: tuple[str, ...]
    #: Each with how many values it takes.
    among: tuple[tuple[Callable[..., Q], int], ...]

    @property
    def number(self) -> int:
        """How many values there are."""
        return len(self.lookups) + sum(number for _, number in self.among)

    def streams(self, workspace_id: int, *values: Any) -> list[QuerySet[Session]]:
        rest = iter(values)
        lookups = dict(zip(self.lookups, rest, strict=False))
        among = [build(workspace_id, *islice(rest, number)) for build, number in self.among]
        found = _narrowed(workspace_id, self.standing, lookups, among)
        return _parts(found, divided=self.divided)

    @property
    def divided(self) -> bool:
        """Whether active sessions are a stream of their own."""
        return _divided(self.standing, "agent" in self.lookups, self.sort)


def shape(wanted: SessionFilter) -> Shape | None:
    """None where a condition cannot be told from its values."""
    among = [(one.build, len(one.values)) for one in wanted.among if isinstance(one, Among)]
    if len(among) < len(wanted.among):
        return None
    return Shape(wanted.sort, wanted.standing, tuple(wanted.lookups), tuple(among))


def of(workspace_id: int) -> QuerySet[Session]:
    """All sessions of a workspace."""
    return Session.objects.filter(workspace_id=workspace_id)


def filtered(workspace_id: int, wanted: SessionFilter) -> QuerySet[Session]:
    """The sessions that are wanted, in no order."""
    among = [one.build(workspace_id, *one.values) if isinstance(one, Among) else one for one in wanted.among]
    return _narrowed(workspace_id, wanted.standing, wanted.lookups, among)


def _narrowed(
    workspace_id: int, standing: Standing | None, lookups: Mapping[str, Any], among: Iterable[Q]
) -> QuerySet[Session]:
    found = of(workspace_id).filter(**lookups)
    return (found.filter(STANDING[standing]) if standing else found).filter(*among)


def streams(workspace_id: int, wanted: SessionFilter) -> list[QuerySet[Session]]:
    """What is wanted, as queries that an index answers each. Those by agent and cost hold the sessions that are not
    active, so that saves need not keep them: the active ones are few, and are looked at one by one."""
    divided = _divided(wanted.standing, bool(wanted.agent), wanted.sort)
    return _parts(filtered(workspace_id, wanted), divided=divided)


def _divided(standing: Standing | None, of_agent: bool, sort: Sort) -> bool:
    return not standing and (of_agent or sort is Sort.COST)


def _parts(found: QuerySet[Session], *, divided: bool) -> list[QuerySet[Session]]:
    if not divided:
        return [found]
    return [found.exclude(status=SessionStatus.ACTIVE), found.filter(status=SessionStatus.ACTIVE)]


def order(sort: Sort) -> tuple[str, str]:
    """The fields to order by."""
    return ("-budget_spent_usd" if sort is Sort.COST else f"-{time_field(sort)}"), "-pk"


def time_field(sort: Sort) -> str:
    return "created_at" if sort is Sort.STARTED else "updated_at"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
