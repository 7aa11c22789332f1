"""Progress of the index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from django.db.models import BigIntegerField, Case, Max, QuerySet, Subquery, When

from checkpoints.db import clock
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import Kind, Progress

#: Time since the index was complete from which a reader is told about it. A working indexer stays far below it.
_WORTH_TELLING: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Progress of the index.

    `behind` is the approximate number of texts not indexed yet, `older` how many of them existed before the index,
    `complete_at` the last time when none was left.
    """

    behind: int
    older: int
    complete_at: datetime | None

    @property
    def was_ever_complete(self) -> bool:
        return self.complete_at is not None

    @property
    def is_up_to_date(self) -> bool:
        """Whether a search finds everything, except perhaps what was stored a moment ago."""
        return not self.behind and self.complete_at is not None and clock.now() - self.complete_at < _WORTH_TELLING


def load_index_status() -> IndexStatus:
    """Load the status in one query, and one more for each kind of which nothing is indexed yet."""
    progress = list(_select_progress_with_last_keys().all())
    missing_kinds = SOURCES.keys() - {row.kind for row in progress}
    behind = sum(_estimate_unindexed_newer_texts(row) for row in progress)
    behind += sum(SOURCES[kind]._default_manager.aggregate(last=Max("pk"))["last"] or 0 for kind in missing_kinds)
    older = sum(row.older for row in progress)
    return IndexStatus(
        behind + older, older, _find_earliest_completion_of_all_kinds(row.complete_at for row in progress)
    )


def _estimate_unindexed_newer_texts(row: Progress) -> int:
    last: int = row.last or 0  # type: ignore[attr-defined]
    return max(0, last - row.reached)


@cache
def _select_progress_with_last_keys() -> QuerySet[Progress]:
    """Select the progress with the last key of each source table."""
    last_keys = [
        When(kind=kind, then=Subquery(model._default_manager.order_by("-pk").values("pk")[:1]))
        for kind, model in SOURCES.items()
    ]
    return Progress.objects.annotate(last=Case(*last_keys, output_field=BigIntegerField()))


def find_time_up_to_which_sums_count() -> datetime | None:
    """Return the time as of which the sums of the overview are; None before they are complete for the first time."""
    rows = list(Progress.objects.values_list("complete_at", "sums_at"))
    complete_at = _find_earliest_completion_of_all_kinds(complete_at for complete_at, _sums_at in rows)
    sums_at = next((sums_at for _complete_at, sums_at in rows if sums_at is not None), None)
    return None if complete_at is None or sums_at is None else min(complete_at, sums_at)


def estimate_unindexed_backlog(kinds: Iterable[Kind]) -> int:
    """Estimate how many texts of these kinds existed before the index and are not indexed yet."""
    return sum(_query_backlog_counts(sorted(kinds)))


def _query_backlog_counts(kinds: list[str]) -> QuerySet[Progress, int]:
    return Progress.objects.filter(kind__in=kinds).values_list("older", flat=True)


def _find_earliest_completion_of_all_kinds(complete_at: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest time; None if there is not one for each kind."""
    times = [time for time in complete_at if time is not None]
    return min(times) if len(times) == len(Kind) else None
