"""Bars, one for each day, in units of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from harness_site.overview.recent import Sums
from harness_site.rendering.saying import count, money

WIDTH: Final = 560
HEIGHT: Final = 120
_GAP: Final = 6
#: A bar that is not nothing is seen.
_LEAST: Final = 2.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar, of one kind."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    day: date
    x: float
    width: float
    pieces: tuple[Piece, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Drawing:
    bars: tuple[Bar, ...]
    highest: str

    @property
    def view(self) -> str:
        return f"0 0 {WIDTH} {HEIGHT}"


def sessions(days: Sequence[tuple[date, Sums]]) -> Drawing:
    """What became of the sessions of each day, the failed ones at the bottom."""
    parts = [(("bad", sums.failed), ("ok", sums.completed), ("run", sums.open)) for _, sums in days]
    titles = [
        f"{day:%a %d %b}: {count(sums.sessions)} began, {count(sums.completed)} completed, {count(sums.failed)} failed"
        for day, sums in days
    ]
    highest = max((sums.sessions for _, sums in days), default=0)
    return Drawing(_bars(days, parts, titles, highest), count(highest))


def costs(days: Sequence[tuple[date, Sums]]) -> Drawing:
    highest = max((sums.cost for _, sums in days), default=Decimal(0))
    parts = [(("cost", float(sums.cost)),) for _, sums in days]
    titles = [f"{day:%a %d %b}: {money(sums.cost)}" for day, sums in days]
    return Drawing(_bars(days, parts, titles, float(highest)), money(highest) if highest else "$0")


def _bars(
    days: Sequence[tuple[date, Sums]],
    parts: Sequence[Sequence[tuple[str, float]]],
    titles: Sequence[str],
    highest: float,
) -> tuple[Bar, ...]:
    step = WIDTH / max(1, len(days))
    return tuple(
        Bar(day, round(number * step + _GAP / 2, 1), round(step - _GAP, 1), _pieces(parts[number], highest), title)
        for number, ((day, _), title) in enumerate(zip(days, titles, strict=True))
    )


def _pieces(parts: Sequence[tuple[str, float]], highest: float) -> tuple[Piece, ...]:
    pieces, bottom = [], float(HEIGHT)
    for kind, amount in parts:
        if amount > 0 and highest > 0:
            height = min(max(amount / highest * HEIGHT, _LEAST), bottom)
            bottom -= height
            pieces.append(Piece(kind, round(bottom, 1), round(height, 1)))
    return tuple(pieces)
