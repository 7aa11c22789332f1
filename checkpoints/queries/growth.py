"""How a session grew: cost, tokens and messages by version, in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, F, Q, Window
from django.db.models.functions import Mod, RowNumber

from checkpoints.models import Checkpoint
from checkpoints.queries import versions

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
    """The versions saved from `since` until `until`; two queries."""
    wanted = Q(session=session_pk)
    if since is not None:
        wanted &= Q(created_at__gte=since)
    if until is not None:
        wanted &= Q(created_at__lte=until)
    found = Checkpoint.objects.filter(wanted)
    total: int = found.aggregate(total=Count("pk"))["total"]
    step = max(1, -(-total // POINTS))
    place = Window(RowNumber(), order_by=[F("version").asc()])
    light = found.only("version", "created_at", "budget_spent_usd", "usage", "length")
    chosen = light.annotate(rest=Mod(place, step)).filter(rest=total % step) if step > 1 else light
    points = sorted((_point(row) for row in chosen), key=lambda point: point.version)
    return Growth(tuple(points), total, step)


def _point(row: Checkpoint) -> Point:
    return Point(
        version=row.version,
        at=row.created_at,
        cost=versions.cost(row.budget_spent_usd),
        tokens=versions.tokens(row.usage),
        messages=row.length,
    )
