"""Horizontal time axis: conversion between moments and x positions.

Long gaps without events are folded into breaks, so that the milliseconds of a tool and the night a session waited for a
person are visible side by side. Between breaks, the scale is linear.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from heapq import nlargest
from itertools import pairwise
from math import ceil
from operator import sub
from typing import Final

from django.utils import timezone

from harness_site.core import formatting
from harness_site.core.epoch_microseconds import convert_to_datetime, convert_to_microseconds
from harness_site.core.formatting import convert_to_zone

#: Smallest and largest width of a break, maximum number of breaks, and the part of the axis that they may take.
MIN_BREAK_WIDTH = 34
MAX_BREAK_WIDTH = 112
_BREAKS = 8
_BREAKS_PART = 1 / 3
#: Shortest gap that is folded, in microseconds, and its minimum ratio to the remaining time if the session was idle in
#: it, and if something was going on. A gap shorter than `_LONG` is folded only beside a small fraction of its time.
_SHORTEST = 1_000_000
_LONG = 10_000_000
_IDLE_RATIO = 0.5
_BUSY_RATIO = 2.0
_SHORT_RATIO = 16.0
#: Longest gap that is never folded while the model works, in microseconds: it may be the only answer on the axis. Of a
#: longer one, a machine that slept is the likelier reason.
_LONGEST_ANSWER = 600_000_000
#: Distance between labels, width of a letter, and space for them before the first and after the last moment.
_APART = 92
_LETTER = 7.0
_MARGIN = 16
#: Number of first ticks that may be the first to name the day.
_MAX_TRIED: Final = 4
_SECOND: Final = 1_000_000
_STEPS: Final = (
    *(base * scale for scale in (0.001, 0.01, 0.1) for base in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 365)),
)


@dataclass(frozen=True, slots=True)
class AxisBreak:
    """A break in the axis over `seconds`. `text` is empty if there is no room for it."""

    x: float
    width: float
    seconds: float
    text: str

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """A label of the axis: its grid line is at `x`, and its text is centred at `text_x`."""

    x: float
    text: str
    text_x: float


@dataclass(frozen=True, slots=True)
class _AxisPiece:
    start: int
    end: int
    x: float
    width: float
    folded: bool

    @property
    def seconds(self) -> float:
        return self.end / _SECOND - self.start / _SECOND

    def convert_sorted_instants_to_x(self, instants: Sequence[int]) -> list[float]:
        """Return the x positions of sorted instants; instants outside of the piece are clamped to its edges."""
        start, end, x, scale = self.start, self.end, self.x, self.width / (self.end - self.start)
        if instants and (instants[0] < start or instants[-1] > end):
            instants = [min(max(at, start), end) for at in instants]
        return [x + (at - start) * scale for at in instants]


class Axis:
    """Axis from `since` at `left` to `until` at `right`; `instants` are the times of all events.

    In the `busy` periods, calls were going on, and in the `answering` ones the model or its program worked. They begin
    and end at one of the instants.
    """

    def __init__(
        self,
        instants: Iterable[int],
        since: datetime,
        until: datetime,
        *,
        left: float,
        right: float,
        busy: Iterable[tuple[int, int]] = (),
        answering: Iterable[tuple[int, int]] = (),
    ) -> None:
        start, end = (
            convert_to_microseconds(since),
            max(convert_to_microseconds(until), convert_to_microseconds(since) + 1000),
        )
        moments = list(dict.fromkeys(sorted(instants)))
        inside = [start, *moments[bisect_right(moments, start) : bisect_left(moments, end)], end]
        self.left, self.right = left, right
        self._pieces = _build_linear_and_folded_axis_pieces(inside, left, right, list(busy), list(answering))

    def convert_to_x(self, instant: int) -> float:
        """Return the x position of an instant, clamped to the axis and rounded."""
        return round(self.convert_all_to_x([instant])[0], 1)

    def convert_all_to_x(self, instants: Iterable[int]) -> list[float]:
        """Return the x positions of many instants without rounding, which would take most of the time.

        Sorted instants are faster.
        """
        instant_list = [*instants]
        in_order = sorted(instant_list)
        if instant_list == in_order:
            return self._convert_sorted_instants_to_x(instant_list)
        places = dict(zip(in_order, self._convert_sorted_instants_to_x(in_order), strict=True))
        return [places[at] for at in instant_list]

    def _convert_sorted_instants_to_x(self, instants: list[int]) -> list[float]:
        """Return the x positions of sorted instants."""
        positions: list[float] = []
        begin, last = 0, self._pieces[-1]
        for piece in self._pieces:
            end = len(instants) if piece is last else bisect_left(instants, piece.end, begin)
            positions += piece.convert_sorted_instants_to_x(instants[begin:end])
            begin = end
        return positions

    def convert_to_moment(self, x: float) -> datetime:
        """Return the moment at an x position."""
        piece = next((piece for piece in self._pieces if x <= piece.x + piece.width), self._pieces[-1])
        part = min(max((x - piece.x) / piece.width, 0.0), 1.0)
        return datetime.fromtimestamp(piece.start / _SECOND + part * piece.seconds, UTC)

    @cached_property
    def breaks(self) -> tuple[AxisBreak, ...]:
        axis_breaks: list[AxisBreak] = []
        for piece in self._pieces:
            if piece.folded:
                text = formatting.format_duration(piece.seconds)
                middle = piece.x + piece.width / 2
                room = all(
                    _are_labels_apart(middle, text, axis_break.middle, axis_break.text) for axis_break in axis_breaks
                )
                axis_breaks.append(
                    AxisBreak(round(piece.x, 1), round(piece.width, 1), piece.seconds, text if room else "")
                )
        return tuple(axis_breaks)

    def build_labels(self) -> tuple[AxisLabel, ...]:
        """Return labels at round times, except on breaks and their labels.

        The first label of a day names it. If the axis is within one day, a later label names it if more labels have
        room then: at the edge of the drawing, a label with the day would cover the next one.
        """
        step, ticks = self._compute_step_and_ticks()
        zone = timezone.get_current_timezone()
        ends = (convert_to_datetime(moment) for moment in (self._pieces[0].start, self._pieces[-1].end))
        is_one_day = len({convert_to_zone(end, zone).date() for end in ends}) == 1
        if not is_one_day:
            return self._place_labels(ticks, step)
        placed = [self._place_labels(ticks, step, first_named=number) for number in range(min(len(ticks), _MAX_TRIED))]
        return max(placed, key=len, default=())

    def _compute_step_and_ticks(self) -> tuple[float, list[tuple[datetime, float]]]:
        """Compute the seconds between labels, and the moments in the reader's time zone that may have one, with x."""
        scaled = [piece for piece in self._pieces if not piece.folded]
        second = sum(piece.width for piece in scaled) / sum(piece.seconds for piece in scaled)
        step = next((step for step in _STEPS if step * second >= _APART), _STEPS[-1])
        zone = timezone.get_current_timezone()
        ticks: list[tuple[datetime, float]] = []
        for piece in scaled:
            # Round times in the reader's time zone.
            shift = _get_utc_offset_seconds(piece.start, zone)
            first, last = piece.start / _SECOND + shift, piece.end / _SECOND + shift
            for number in range(ceil(first / step), int(last // step) + 1):
                moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=number * step)
                ticks.append((moment, self.convert_to_x(convert_to_microseconds(moment) - round(shift * _SECOND))))
        return step, ticks

    def _place_labels(
        self, ticks: Sequence[tuple[datetime, float]], step: float, *, first_named: int | None = None
    ) -> tuple[AxisLabel, ...]:
        """Place the labels that have room. On an axis of one day, the tick `first_named` is the first to name it."""
        of_breaks = [(axis_break.middle, axis_break.text) for axis_break in self.breaks]
        labels: list[AxisLabel] = []
        day = ""
        for number, (moment, x) in enumerate(ticks):
            if labels and x - labels[-1].x < _APART - 1:
                continue
            others = [*of_breaks, *((label.text_x, label.text) for label in labels[-1:])]
            this_day = f"{moment:%Y-%m-%d}"
            text = _format_tick_text(moment, step, this_day if number < (first_named or 0) else day)
            text_x = self._find_free_label_center(x, text, others)
            if text_x is None and first_named is not None:
                text = _format_tick_text(moment, step, this_day)
                text_x = self._find_free_label_center(x, text, others)
            elif text_x is not None and number >= (first_named or 0):
                day = this_day
            if text_x is not None:
                labels.append(AxisLabel(x, text, text_x))
        # A day has to be named, also if fewer labels have room then.
        return tuple(labels) if day or not first_named else ()

    def _find_free_label_center(self, x: float, text: str, others: Iterable[tuple[float, str]]) -> float | None:
        """Return the centre of a label for `x` that does not touch the other ones; None if it has no room."""
        half = len(text) * _LETTER / 2
        text_x = round(max(x, self.left - _MARGIN + half), 1)
        is_inside = text_x + half <= self.right + _MARGIN
        return text_x if is_inside and all(_are_labels_apart(text_x, text, *other) for other in others) else None


def _get_utc_offset_seconds(instant: int, zone: tzinfo) -> float:
    """Return the offset of a time zone from UTC at an instant, in seconds."""
    offset = convert_to_zone(convert_to_datetime(instant), zone).utcoffset()
    return offset.total_seconds() if offset else 0.0


def _are_labels_apart(x: float, text: str, other_x: float, other: str) -> bool:
    """Return whether two centred labels do not touch."""
    return not other or abs(x - other_x) >= (len(text) + len(other)) * _LETTER / 2 + _LETTER


def _build_linear_and_folded_axis_pieces(
    points: Sequence[int],
    left: float,
    right: float,
    busy: Sequence[tuple[int, int]],
    answering: Sequence[tuple[int, int]],
) -> list[_AxisPiece]:
    """Build the pieces of the axis; neighbouring linear gaps are merged."""
    room = (right - left) * _BREAKS_PART
    folded_gaps = _choose_folded_gaps(points, min(_BREAKS, int(room / MIN_BREAK_WIDTH)), busy, answering)
    break_width = min(MAX_BREAK_WIDTH, room / max(1, len(folded_gaps)))
    edges = sorted({0, len(points) - 1, *folded_gaps, *(index + 1 for index in folded_gaps)})
    seconds = {index: points[index] / _SECOND for index in edges}
    scaled = (seconds[edges[-1]] - seconds[0]) - sum(seconds[index + 1] - seconds[index] for index in folded_gaps)
    second = (right - left - break_width * len(folded_gaps)) / scaled
    pieces: list[_AxisPiece] = []
    x = left
    for first, last in pairwise(edges):
        is_break = first in folded_gaps
        width = break_width if is_break else (seconds[last] - seconds[first]) * second
        pieces.append(_AxisPiece(points[first], points[last], x, width, is_break))
        x += width
    return pieces


def _choose_folded_gaps(
    points: Sequence[int], most: int, busy: Sequence[tuple[int, int]], answering: Sequence[tuple[int, int]]
) -> set[int]:
    """Choose at most `most` gaps to fold: the longest ones, each long in comparison with all shorter ones together.

    An answer of the model is an event that takes time, so its gap is not folded. One of a call may be.
    """
    gaps = [*map(sub, points[1:], points)]
    time = points[-1] - points[0]
    longest_gap = max(gaps)
    if longest_gap < _SHORTEST or longest_gap * (most + 1 / _IDLE_RATIO) < time:
        return set()  # the remaining time is always too long in comparison with any one gap
    most = min(most, len(gaps) // 2)
    calling_gaps = _find_gaps_covered_by_busy_periods(points, busy)
    answering_gaps = _find_gaps_covered_by_busy_periods(points, answering)
    kept = {index for index in answering_gaps - calling_gaps if gaps[index] <= _LONGEST_ANSWER}
    longest = nlargest(2 * most, ((gap, index) for index, gap in enumerate(gaps) if index not in kept))
    busy_gaps = {index for _, index in longest} & (calling_gaps | answering_gaps)
    idle = _choose_gaps_above_ratio([gap for gap in longest if gap[1] not in busy_gaps][:most], time, _IDLE_RATIO)
    time -= sum(gaps[index] for index in idle)
    return idle | _choose_gaps_above_ratio(
        [gap for gap in longest if gap[1] not in idle][: most - len(idle)], time, _BUSY_RATIO
    )


def _find_gaps_covered_by_busy_periods(points: Sequence[int], busy: Iterable[tuple[int, int]]) -> set[int]:
    """Return the indexes of the gaps in which something was going on."""
    covered: set[int] = set()
    upto = 0
    for start, end in sorted(busy):
        first, last = max(bisect_right(points, start) - 1, upto), min(bisect_left(points, end), len(points) - 1)
        covered.update(range(first, last))
        upto = max(upto, last)
    return covered


def _choose_gaps_above_ratio(longest: Sequence[tuple[int, int]], time: int, ratio: float) -> set[int]:
    """Choose the first of the gaps (length and index, the longest first) whose lengths exceed `ratio` times the rest of
    the `time`."""
    chosen = 0
    for number, (length, _) in enumerate(longest, 1):
        time -= length
        if length >= _SHORTEST and length > (ratio if length >= _LONG else _SHORT_RATIO) * time:
            chosen = number
    return {index for _, index in longest[:chosen]}


def _format_tick_text(moment: datetime, step: float, day: str) -> str:
    if step >= 86_400:
        return f"{moment:%Y-%m-%d}"
    text = f"{moment:%H:%M}" if step >= 60 else f"{moment:%H:%M:%S}"
    if step < 1:
        text += f".{moment.microsecond // 1000:03}"
    return text if day == f"{moment:%Y-%m-%d}" else f"{formatting.format_day(moment.date())} {text}"
