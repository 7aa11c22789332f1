"""Hours and days of the precomputed sums."""

from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from django.db import transaction

from harness_site.search.hourly_call_and_decision_sums import AMOUNTS, KEYS, Tally, add_tallies_to_sums
from harness_site.search.models import DecisionSums, ToolSums

#: Number of rows that one transaction adds up.
_CHUNK: Final = 2_000


def get_utc_day_start(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time.min, UTC)


def get_start_of_hourly_sums(now: datetime) -> datetime:
    """Return the start of the first day whose hours are kept: the day before yesterday.

    The newest 24 hours are compared with those before, which begin on that day.
    """
    return get_utc_day_start(now) - timedelta(days=2)


def merge_hourly_sums_into_days(now: datetime) -> None:
    """Add up the hours of all days whose hours are not kept."""
    for model in (ToolSums, DecisionSums):
        while _merge_chunk_of_hours(model, get_start_of_hourly_sums(now)):
            pass


def _merge_chunk_of_hours(model: type[ToolSums] | type[DecisionSums], before: datetime) -> bool:
    with transaction.atomic():
        rows: list[Any] = list(
            model._default_manager.select_for_update().filter(hourly=True, start__lt=before).order_by("pk")[:_CHUNK]
        )
        sums: defaultdict[Any, list[Any]] = defaultdict(lambda: [0] * len(AMOUNTS[model]))
        for row in rows:
            agent, value = (getattr(row, name) for name in KEYS[model])
            key = (row.workspace_id, get_utc_day_start(row.start), False, agent, value)
            amounts = (getattr(row, name) for name in AMOUNTS[model])
            sums[key] = [total + amount for total, amount in zip(sums[key], amounts, strict=True)]
        model._default_manager.filter(pk__in=[row.pk for row in rows]).delete()
        add_tallies_to_sums(Tally(model, key, tuple(amounts)) for key, amounts in sums.items())
    return bool(rows)
