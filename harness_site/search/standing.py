"""How far the index is behind the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from harness_site.search.leaving import SOURCES
from harness_site.search.models import Kind, Progress


@dataclass(frozen=True, slots=True)
class Standing:
    """`behind` is about how many texts are not in the index yet, `complete_at` when nothing was left the last time."""

    behind: int
    complete_at: datetime | None

    @property
    def begun(self) -> bool:
        return self.complete_at is not None


def standing() -> Standing:
    """For the pages; five queries for the ends of five tables."""
    progress = {one.kind: one for one in Progress.objects.all()}
    behind = 0
    for kind, model in SOURCES.items():
        last = model._default_manager.aggregate(last=Max("pk"))["last"] or 0
        reached = progress[kind].reached if kind in progress else 0
        behind += max(0, last - reached)
    return Standing(behind, _earliest(progress.values()))


def complete_at() -> datetime | None:
    """When nothing of the store was left to read the last time; None while it is read for the first time."""
    return _earliest(Progress.objects.all())


def _earliest(progress: Iterable[Progress]) -> datetime | None:
    times = [one.complete_at for one in progress if one.complete_at is not None]
    return min(times) if len(times) == len(Kind) else None
