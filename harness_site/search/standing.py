"""How far the index is behind the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import BigIntegerField, Case, Max, QuerySet, Subquery, When

from harness_site.search.leaving import SOURCES
from harness_site.search.models import Kind, Progress


@dataclass(frozen=True, slots=True)
class Standing:
    """`behind` is about how many texts are not in the index yet, `older` how many of them were there before it was
    begun and wait behind newer ones, `complete_at` when nothing was left the last time."""

    behind: int
    older: int
    complete_at: datetime | None

    @property
    def begun(self) -> bool:
        return self.complete_at is not None


def standing() -> Standing:
    """For the pages; one query, and one for each kind of which nothing was read yet."""
    progress = list(_progress())
    unbegun = SOURCES.keys() - {one.kind for one in progress}
    behind = sum(_behind(one) for one in progress)
    behind += sum(SOURCES[kind]._default_manager.aggregate(last=Max("pk"))["last"] or 0 for kind in unbegun)
    older = sum(one.older for one in progress)
    return Standing(behind + older, older, _earliest(progress))


def _behind(one: Progress) -> int:
    last: int = one.last or 0  # type: ignore[attr-defined]
    return max(0, last - one.reached)


def _progress() -> QuerySet[Progress]:
    """With the last key of what it is about."""
    ends = [
        When(kind=kind, then=Subquery(model._default_manager.order_by("-pk").values("pk")[:1]))
        for kind, model in SOURCES.items()
    ]
    return Progress.objects.annotate(last=Case(*ends, output_field=BigIntegerField()))


def complete_at() -> datetime | None:
    """When nothing of the store was left to read the last time; None while it is read for the first time."""
    return _earliest(_progress())


def unread(kinds: Iterable[Kind]) -> int:
    """About how many texts of these kinds were there before the index was begun and are not in it yet."""
    return sum(_older(sorted(kinds)))


def _older(kinds: list[str]) -> QuerySet[Progress, int]:
    return Progress.objects.filter(kind__in=kinds).values_list("older", flat=True)


def _earliest(progress: Iterable[Progress]) -> datetime | None:
    times = [one.complete_at for one in progress if one.complete_at is not None]
    return min(times) if len(times) == len(Kind) else None
