"""Running totals of a session: cost, tokens and messages by version, in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Window
from django.db.models.functions import Mod, RowNumber

from checkpoints.enums import CostBasis
from checkpoints.models import Checkpoint
from harness_site.sessions.selectors import version_lookup
from harness_site.sessions.timeline.selectors import timeline_queries

#: Maximum number of points; of more versions, every n-th and the newest one are points.
POINTS = 120


@dataclass(frozen=True, slots=True)
class TotalsPoint:
    """Totals of a session at a version. `cost` is in US dollars; values are None if they are not known."""

    version: int
    at: datetime
    cost: Decimal | None
    tokens: int | None
    messages: int


@dataclass(frozen=True, slots=True)
class RunningTotals:
    """Points from the oldest to the newest of `total` versions; every `step`-th version is one.

    `before` is the version before them, None if they begin with the first one.
    """

    points: tuple[TotalsPoint, ...]
    total: int
    step: int
    before: TotalsPoint | None = None


def load_sampled_running_totals(
    session_pk: int, *, since: datetime | None = None, until: datetime | None = None
) -> RunningTotals:
    """Load the totals of the versions saved from `since` to `until`, in one query, or three if there are many.

    With `since`, one more query loads the version before.
    """
    saved_between = timeline_queries.build_saved_between_condition(since, until)
    newest = Checkpoint.objects.filter(saved_between, session=session_pk).order_by("-version")
    rows, total, step = list(_select_total_columns(newest)[: POINTS + 1]), 0, 1
    if len(rows) > POINTS:
        total = newest.count()
        step = -(-total // POINTS)
        place = Window(RowNumber(), order_by=[F("version").asc()])
        sample = newest.annotate(rest=Mod(place, step)).filter(rest=total % step)
        rows = list(_select_total_columns(sample))
    points = tuple(_build_totals_point(*row) for row in reversed(rows))
    earlier = (
        Checkpoint.objects.filter(session=session_pk, created_at__lt=since).order_by("-version") if since else None
    )
    row = None if earlier is None else _select_total_columns(earlier).first()
    return RunningTotals(points, total or len(points), step, None if row is None else _build_totals_point(*row))


def _select_total_columns(checkpoints: QuerySet[Checkpoint]) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return checkpoints.values_list(
        "version", "created_at", "budget_spent_usd", "usage", "length", "session__cost_basis"
    )


def _build_totals_point(
    version: int, at: datetime, spent: str, usage: str | None, length: int, cost_basis: str
) -> TotalsPoint:
    cost = None if cost_basis == CostBasis.UNKNOWN else version_lookup.parse_cost(spent)
    return TotalsPoint(version, at, cost, version_lookup.parse_total_tokens(usage), length)
