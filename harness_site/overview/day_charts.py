"""Bar charts with one bar per day, in SVG units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from harness_site.overview.day_totals import SessionTotals
from harness_site.sessions.session_formatting import format_count, format_money

WIDTH: Final = 560
HEIGHT: Final = 120
_GAP: Final = 6
#: Minimum height of a bar for a non-zero value.
_LEAST: Final = 2.0


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A part of a bar, of one kind."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    day: date
    x: float
    width: float
    pieces: tuple[BarPiece, ...]
    title: str


@dataclass(frozen=True, slots=True)
class DayChart:
    bars: tuple[Bar, ...]
    highest: str

    @property
    def view(self) -> str:
        return f"0 0 {WIDTH} {HEIGHT}"


def draw_sessions_chart(days: Sequence[tuple[date, SessionTotals]]) -> DayChart:
    """Draw the outcomes of each day's sessions, the failed ones at the bottom."""
    parts = [(("bad", sums.failed), ("ok", sums.completed), ("run", sums.open)) for _, sums in days]
    titles = [
        f"{day:%a %d %b}: {format_count(sums.sessions)} began, {format_count(sums.completed)} "
        f"completed, {format_count(sums.failed)} failed"
        for day, sums in days
    ]
    highest = max((sums.sessions for _, sums in days), default=0)
    return DayChart(_build_bars(days, parts, titles, highest), format_count(highest))


def draw_costs_chart(days: Sequence[tuple[date, SessionTotals]]) -> DayChart:
    highest = max((sums.cost for _, sums in days), default=Decimal(0))
    parts = [(("cost", float(sums.cost)),) for _, sums in days]
    titles = [f"{day:%a %d %b}: {format_money(sums.cost)}" for day, sums in days]
    return DayChart(_build_bars(days, parts, titles, float(highest)), format_money(highest) if highest else "$0")


def _build_bars(
    days: Sequence[tuple[date, SessionTotals]],
    parts: Sequence[Sequence[tuple[str, float]]],
    titles: Sequence[str],
    highest: float,
) -> tuple[Bar, ...]:
    step = WIDTH / max(1, len(days))
    return tuple(
        Bar(
            day,
            round(index * step + _GAP / 2, 1),
            round(step - _GAP, 1),
            _build_bar_pieces(parts[index], highest),
            title,
        )
        for index, ((day, _), title) in enumerate(zip(days, titles, strict=True))
    )


def _build_bar_pieces(parts: Sequence[tuple[str, float]], highest: float) -> tuple[BarPiece, ...]:
    pieces, bottom = [], float(HEIGHT)
    for kind, amount in parts:
        if amount > 0 and highest > 0:
            height = min(max(amount / highest * HEIGHT, _LEAST), bottom)
            bottom -= height
            pieces.append(BarPiece(kind, round(bottom, 1), round(height, 1)))
    return tuple(pieces)
