"""Cost and tokens of the sessions that a filter of the session list selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final

from django.db.models import Count, Q, QuerySet, Sum

from checkpoints.db import clock
from checkpoints.enums import CostBasis
from checkpoints.models import Session
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, split_into_indexed_querysets
from harness_site.search.copied_tokens_and_cost_of_forks import load_copied_amounts_by_fork
from harness_site.search.hourly_call_and_decision_sums import get_utc_day_start
from harness_site.search.hourly_sums_retention import get_start_of_kept_hourly_sums
from harness_site.search.models import ModelSums, SessionSums
from harness_site.search.recount_session_sums_by_day import HOURLY_RECOUNTED_DAYS

_DAY: Final = timedelta(days=1)
#: Condition of a filter by start, which the sums have, too: the start of other sessions is unknown.
_SUMMED: Final = (Q(has_times=True),)


@dataclass(frozen=True, slots=True)
class SessionListTotals:
    """Cost in US dollars and tokens of the own runs of some sessions, of which `unpriced` have no known cost.

    What forks have copied from their originals is left out, as it counts there. `includes_deleted` is whether sessions
    that were deleted since count, too.
    """

    cost: Decimal
    tokens: int
    sessions: int
    unpriced: int
    includes_deleted: bool = False

    @property
    def has_known_cost(self) -> bool:
        return self.unpriced < self.sessions


def sum_few_matching_sessions(
    workspace_id: int, wanted: SessionFilter, pks: Sequence[int] | None = None
) -> SessionListTotals:
    """Sum the matching sessions, which a page counts completely. `pks` are their keys, if they are loaded already."""
    parts: Sequence[QuerySet[Session]] = (
        split_into_indexed_querysets(workspace_id, wanted) if pks is None else [Session.objects.filter(pk__in=pks)]
    )
    rows = [_aggregate_sessions(part) for part in parts]
    copied = [
        amounts
        for part, row in zip(parts, rows, strict=True)
        if row["forks"]
        for amounts in load_copied_amounts_by_fork(part.order_by()).values()
    ]
    return SessionListTotals(
        sum((row["cost"] or Decimal() for row in rows), Decimal()) - sum((each.cost for each in copied), Decimal()),
        sum(row["tokens"] or 0 for row in rows) - sum(each.tokens for each in copied),
        sum(row["sessions"] for row in rows),
        sum(row["unpriced"] for row in rows),
    )


def sum_sessions_of_period_or_none(workspace_id: int, wanted: SessionFilter) -> SessionListTotals | None:
    """Sum the sessions of a period, and of an agent, from the sums that the overview reads.

    Days that are not counted again every hour keep what was spent on sessions that were deleted since.
    None if the filter has any other condition, or if the period does not consist of hours or days that have sums.
    """
    period = _build_condition_of_period_or_none(wanted) if wanted.among == _SUMMED else None
    if period is None or wanted.since is None:
        return None
    sums = SessionSums.objects.filter(period, workspace=workspace_id)
    if wanted.agent:
        sums = sums.filter(agent=wanted.agent.replace("\0", ""))
    row = sums.aggregate(
        cost=Sum("cost"), number_of_tokens=Sum("tokens"), number=Sum("sessions"), number_unpriced=Sum("unpriced")
    )
    first_recounted = get_utc_day_start(clock.now()) - (HOURLY_RECOUNTED_DAYS - 1) * _DAY
    return SessionListTotals(
        row["cost"] or Decimal(),
        row["number_of_tokens"] or 0,
        row["number"] or 0,
        row["number_unpriced"] or 0,
        includes_deleted=wanted.since < first_recounted,
    )


@dataclass(frozen=True, slots=True)
class ModelPart:
    """Part of the cost in US dollars, and of the tokens, that one model has of the sessions that used it."""

    cost: Decimal
    tokens: int


def load_part_of_model_or_none(workspace_id: int, wanted: SessionFilter, model: str) -> ModelPart | None:
    """Load the part of a model from the sums that the overview reads.

    None if the filter has other conditions than the model, a period and an agent, or if the period does not consist of
    hours or days that have sums.
    """
    # One condition is the model, and the other one that the times are known.
    if not model or len(wanted.among) != len(_SUMMED) + 1 or wanted.among[-1:] != _SUMMED:
        return None
    period = _build_condition_of_period_or_none(wanted)
    if period is None:
        return None
    sums = ModelSums.objects.filter(period, workspace=workspace_id, model=model, several=False)
    if wanted.agent:
        sums = sums.filter(agent=wanted.agent.replace("\0", ""))
    row = sums.aggregate(all_cost=Sum("cost"), all_tokens=Sum("tokens"))
    return ModelPart(row["all_cost"] or Decimal(), row["all_tokens"] or 0)


def _build_condition_of_period_or_none(wanted: SessionFilter) -> Q | None:
    """Build the condition of the sums of a period; None if it has none, or the filter more conditions on columns."""
    has_other_conditions = wanted.display_status or not (wanted.least is None and wanted.most is None)
    if has_other_conditions or wanted.since is None or wanted.until is None or wanted.since >= wanted.until:
        return None
    ranges = _list_ranges_of_hours_and_utc_days_or_none(wanted.since, wanted.until)
    if ranges is None:
        return None
    return reduce(or_, [Q(hourly=hourly, start__gte=start, start__lt=end) for hourly, start, end in ranges])


def _aggregate_sessions(sessions: QuerySet[Session]) -> dict[str, Any]:
    return sessions.order_by().aggregate(
        cost=Sum("budget_spent_usd"),
        tokens=Sum("total_tokens"),
        sessions=Count("pk"),
        unpriced=Count("pk", filter=Q(cost_basis=CostBasis.UNKNOWN)),
        forks=Count("forked_version"),
    )


def _list_ranges_of_hours_and_utc_days_or_none(
    since: datetime, until: datetime
) -> list[tuple[bool, datetime, datetime]] | None:
    """List the ranges of hours (True) and of days in UTC (False) of a period; None without sums for its ends."""
    first, last = get_utc_day_start(since + _DAY - timedelta(microseconds=1)), get_utc_day_start(until)
    ranges = (
        [(True, since, until)] if first > last else [(True, since, first), (False, first, last), (True, last, until)]
    )
    kept = [(hourly, start, end) for hourly, start, end in ranges if start < end]
    hourly_bounds = [bound for hourly, start, end in kept if hourly for bound in (start, end)]
    begins_and_ends_with_hours = all(not (bound.minute or bound.second or bound.microsecond) for bound in hourly_bounds)
    are_hours_kept = not hourly_bounds or min(hourly_bounds) >= get_start_of_kept_hourly_sums(clock.now())
    return kept if begins_and_ends_with_hours and are_hours_kept else None
