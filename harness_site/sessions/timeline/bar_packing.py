"""Packing of bars without overlap: bars that are too small or too close are merged into one with a count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

#: Minimum width of a bar; bars narrower than `SMALL` may be merged with their neighbours.
MIN_BAR_WIDTH = 3.0
SMALL = 6.0
GAP = 1.0
#: Maximum width of merged small bars.
_MAX_MERGED_WIDTH = 30.0
#: Number of levels below each other for simultaneous bars.
LEVELS = 3


@dataclass(slots=True)
class PackedBar(Generic[T]):
    """One bar, or several merged ones. `small` is True if all of them are small."""

    x: float
    right: float
    items: list[T]
    small: bool

    @property
    def width(self) -> float:
        return round(self.right - self.x, 1)


def pack_and_merge_bars_into_levels(
    bars: Iterable[tuple[float, float, T]], *, levels: int = LEVELS, small: float = SMALL
) -> list[list[PackedBar[T]]]:
    """Return levels of bars from (left, right, item) sorted by left; every item is in exactly one bar.

    Bars of a level do not touch, so their number is bounded by the width of the drawing. A bar that would overlap the
    end of the one before by a few units begins after it: short bars are drawn longer than they are.
    """
    rows: list[list[PackedBar[T]]] = []
    last: PackedBar[T] | None = None  # on the first level
    max_left = 0.0  # of a bar that may be merged into it
    for left, right, item in bars:
        right -= GAP
        if right < left + MIN_BAR_WIDTH:
            right = left + MIN_BAR_WIDTH
        if last and left < max_left and left < last.right + GAP and right - left < small:
            # Shortcut for the same result as `_place_or_merge_bar`: among thousands of bars, nearly all are merged
            # here.
            last.items.append(item)
            if right > last.right:
                last.right = right
        else:
            _place_or_merge_bar(rows, PackedBar(left, right, [item], right - left < small), levels)
            last = rows[0][-1]
            max_left = last.x + _MAX_MERGED_WIDTH if last.small else last.x
    return rows


def _place_or_merge_bar(rows: list[list[PackedBar[T]]], new: PackedBar[T], levels: int) -> None:
    for row in rows:
        last = row[-1]
        free = last.right + GAP
        if new.x >= free or (new.x > free - SMALL and not new.small and new.right >= free + MIN_BAR_WIDTH):
            new.x = max(new.x, free)
            row.append(new)
            return
        if not (new.small and last.small):
            continue
        if new.x < last.x + _MAX_MERGED_WIDTH:
            _merge_bar_into_last(last, new)
        else:
            new.x, new.right = free, max(new.right, free + MIN_BAR_WIDTH)
            row.append(new)
        return
    if len(rows) < levels:
        rows.append([new])
    else:
        _merge_bar_into_last(rows[-1][-1], new)


def _merge_bar_into_last(last: PackedBar[T], new: PackedBar[T]) -> None:
    last.items += new.items
    last.right, last.small = max(last.right, new.right), last.small and new.small
