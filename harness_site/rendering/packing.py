"""Bars beside each other without one hiding another: what is too small or too close becomes one bar that is counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

#: A bar is at least so wide; one that is narrower than `SMALL` may be put together with its neighbours.
LEAST = 3.0
SMALL = 6.0
GAP = 1.0
#: How far small bars that are put together may reach.
_REACH = 30.0
#: Bars of the same time stand below each other, on so many levels.
LEVELS = 3


@dataclass(slots=True)
class Packed(Generic[T]):
    """One bar, or several that are drawn as one. `small` says that no long one is among them."""

    x: float
    right: float
    items: list[T]
    small: bool

    @property
    def width(self) -> float:
        return round(self.right - self.x, 1)


def pack(
    bars: Iterable[tuple[float, float, T]], *, levels: int = LEVELS, small: float = SMALL
) -> list[list[Packed[T]]]:
    """Levels of bars, from (left, right, item) in the order of their left. Every item is in exactly one of them.

    A level has no two that touch, so their number is bounded by the width of the drawing, however many come.
    """
    rows: list[list[Packed[T]]] = []
    for left, right, item in bars:
        right -= GAP
        if right < left + LEAST:
            right = left + LEAST
        first = rows[0][-1] if rows else None
        if first and first.small and left < first.right + GAP and left < first.x + _REACH and right - left < small:
            # As `_place` would find: of thousands of bars, nearly all come here.
            first.items.append(item)
            if right > first.right:
                first.right = right
        else:
            _place(rows, Packed(left, right, [item], right - left < small), levels)
    return rows


def _place(rows: list[list[Packed[T]]], new: Packed[T], levels: int) -> None:
    for row in rows:
        last = row[-1]
        if new.x >= last.right + GAP:
            row.append(new)
            return
        if not (new.small and last.small):
            continue
        if new.x < last.x + _REACH:
            _put_together(last, new)
        else:
            new.x, new.right = last.right + GAP, max(new.right, last.right + GAP + LEAST)
            row.append(new)
        return
    if len(rows) < levels:
        rows.append([new])
    else:
        _put_together(rows[-1][-1], new)


def _put_together(last: Packed[T], new: Packed[T]) -> None:
    last.items += new.items
    last.right, last.small = max(last.right, new.right), last.small and new.small
