"""How a session grew: cost, tokens and messages by version, in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Window
from django.db.models.functions import Mod, RowNumber

from checkpoints.models import Checkpoint
from checkpoints.queries import versions
from checkpoints.queries.instants import closed

#: At most so many points; of more versions, every second, third, … is one, and always the newest.
POINTS = 120


@dataclass(frozen=True, slots=True)
class Point:
    """A version with what the session had come to by then. `cost` is in US dollars; what is None was not saved."""

    version: int
    at: datetime
    cost: Decimal | None
    tokens: int | None
    messages: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Points from the oldest version to the newest of `total`; every `step`-th is one."""

    points: tuple[Point, ...]
    total: int
    step: int


def read(session_pk: int, *, since: datetime | None = None, until: datetime | None = None) -> Growth:
    """The versions saved from `since` until `until`; one query, and two more where there are many."""
    begin, end = closed(since, until)
    newest = _saved(session_pk, begin, end).order_by("-version")
    rows, total, step = list(_told(newest)[: POINTS + 1]), 0, 1
    if len(rows) > POINTS:
        total = newest.count()
        step = -(-total // POINTS)
        place = Window(RowNumber(), order_by=[F("version").asc()])
        found = newest.annotate(rest=Mod(place, step)).filter(rest=total % step)
        rows = list(_told(found))
    points = tuple(_point(*row) for row in reversed(rows))
    return Growth(points, total or len(points), step)


def _saved(session: int, since: datetime, until: datetime) -> QuerySet[Checkpoint]:
    return Checkpoint.objects.filter(session=session, created_at__gte=since, created_at__lte=until)


def _told(found: QuerySet[Checkpoint]) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return found.values_list("version", "created_at", "budget_spent_usd", "usage", "length")


def _point(version: int, at: datetime, spent: str, usage: str | None, length: int) -> Point:
    return Point(version, at, versions.cost(spent), versions.tokens(usage), length)
