"""Growth of a session: cost, tokens and messages by version, in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Window
from django.db.models.functions import Mod, RowNumber

from checkpoints.enums import CostBasis
from checkpoints.models import Checkpoint
from harness_site.sessions.selectors import version_list
from harness_site.sessions.timeline.selectors import timeline_queries

#: Maximum number of points; of more versions, every n-th and the newest one are points.
POINTS = 120


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """Totals of a session at a version. `cost` is in US dollars; values are None if they are not known."""

    version: int
    at: datetime
    cost: Decimal | None
    tokens: int | None
    messages: int


@dataclass(frozen=True, slots=True)
class VersionGrowth:
    """Points from the oldest to the newest of `total` versions; every `step`-th version is one."""

    points: tuple[GrowthPoint, ...]
    total: int
    step: int


def load_version_growth(
    session_pk: int, *, since: datetime | None = None, until: datetime | None = None
) -> VersionGrowth:
    """Load the growth over the versions saved from `since` to `until`, in one query, or three if there are many."""
    saved_between = timeline_queries.build_saved_between_condition(since, until)
    newest = Checkpoint.objects.filter(saved_between, session=session_pk).order_by("-version")
    rows, total, step = list(_select_growth_columns(newest)[: POINTS + 1]), 0, 1
    if len(rows) > POINTS:
        total = newest.count()
        step = -(-total // POINTS)
        place = Window(RowNumber(), order_by=[F("version").asc()])
        sample = newest.annotate(rest=Mod(place, step)).filter(rest=total % step)
        rows = list(_select_growth_columns(sample))
    points = tuple(_build_growth_point(*row) for row in reversed(rows))
    return VersionGrowth(points, total or len(points), step)


def _select_growth_columns(checkpoints: QuerySet[Checkpoint]) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return checkpoints.values_list(
        "version", "created_at", "budget_spent_usd", "usage", "length", "session__cost_basis"
    )


def _build_growth_point(
    version: int, at: datetime, spent: str, usage: str | None, length: int, cost_basis: str
) -> GrowthPoint:
    cost = None if cost_basis == CostBasis.UNKNOWN else version_list.parse_cost(spent)
    return GrowthPoint(version, at, cost, version_list.parse_total_tokens(usage), length)
