"""Time from left to right: where a moment stands, and which moment stands there.

Long stretches in which nothing changes are folded into a break of fixed width, so that the milliseconds of a tool and
the night a session waited for a person can be seen side by side. Between breaks, time is to scale.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import nlargest
from itertools import count, pairwise
from math import ceil
from operator import sub
from typing import Final

from checkpoints.queries.instants import instant
from harness_site import wording

#: Width of a break, and how many there may be.
BREAK = 34
_BREAKS = 8
#: Shorter than this (in microseconds) nothing is folded; and a fold is so many times as long as all that is left.
_SHORTEST = 10_000_000
_MANY_TIMES = 2
#: Between two labels, the width of one letter of them, and the room right of the last moment.
_APART = 92
_LETTER = 6.6
_MARGIN = 16
_SECOND: Final = 1_000_000
_STEPS: Final = (
    *(base * scale for scale in (0.001, 0.01, 0.1) for base in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 365)),
)


@dataclass(frozen=True, slots=True)
class Fold:
    """A break in the axis: `seconds` that are not to scale. `text` is empty where it has no room."""

    x: float
    width: float
    seconds: float
    text: str

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    text: str


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    x: float
    width: float
    folded: bool

    @property
    def seconds(self) -> float:
        return self.end / _SECOND - self.start / _SECOND

    def places(self, instants: Sequence[int]) -> list[float]:
        """Where instants in order stand; what is outside stands at the edge."""
        start, end, x, scale = self.start, self.end, self.x, self.width / (self.end - self.start)
        if instants and (instants[0] < start or instants[-1] > end):
            instants = [min(max(at, start), end) for at in instants]
        return [x + (at - start) * scale for at in instants]


class Axis:
    """From `since` at `left` until `until` at `right`; `instants` are those at which something changes."""

    def __init__(self, instants: Iterable[int], since: datetime, until: datetime, *, left: float, right: float) -> None:
        start, end = instant(since), max(instant(until), instant(since) + 1000)
        found = list(dict.fromkeys(sorted(instants)))
        inside = [start, *found[bisect_right(found, start) : bisect_left(found, end)], end]
        self.left, self.right = left, right
        self._pieces = _pieces(inside, left, right)

    def x(self, instant: int) -> float:
        """Where it is drawn. What is outside stands at the edge."""
        return round(self.places([instant])[0], 1)

    def places(self, instants: Iterable[int]) -> list[float]:
        """`x` of each, not rounded: for thousands, that takes most of the time. Quickest where they come in order."""
        found = [*instants]
        in_order = sorted(found)
        if found == in_order:
            return self._places(found)
        places = dict(zip(in_order, self._places(in_order), strict=True))
        return [places[at] for at in found]

    def _places(self, instants: list[int]) -> list[float]:
        """Of instants in order."""
        found: list[float] = []
        begin, last = 0, self._pieces[-1]
        for piece in self._pieces:
            end = len(instants) if piece is last else bisect_left(instants, piece.end, begin)
            found += piece.places(instants[begin:end])
            begin = end
        return found

    def moment(self, x: float) -> datetime:
        """The inverse of `x`."""
        piece = next((piece for piece in self._pieces if x <= piece.x + piece.width), self._pieces[-1])
        part = min(max((x - piece.x) / piece.width, 0.0), 1.0)
        return datetime.fromtimestamp(piece.start / _SECOND + part * piece.seconds, UTC)

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        found: list[Fold] = []
        for piece in self._pieces:
            if piece.folded:
                text = wording.duration(piece.seconds)
                middle = piece.x + piece.width / 2
                room = all(_apart(middle, text, fold.middle, fold.text) for fold in found)
                found.append(Fold(piece.x, piece.width, piece.seconds, text if room else ""))
        return tuple(found)

    def labels(self) -> tuple[Label, ...]:
        """Times at round distances, and nothing where a break stands or says how long it is."""
        scaled = [piece for piece in self._pieces if not piece.folded]
        second = sum(piece.width for piece in scaled) / sum(piece.seconds for piece in scaled)
        step = next((step for step in _STEPS if step * second >= _APART), _STEPS[-1])
        folds = self.folds
        found: list[Label] = []
        day = ""
        for piece in scaled:
            for number in range(ceil(piece.start / _SECOND / step), int(piece.end / _SECOND // step) + 1):
                moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=number * step)
                x = self.x(instant(moment))
                if found and x - found[-1].x < _APART - 1:
                    continue
                text = _text(moment, step, day)
                inside = x + len(text) * _LETTER / 2 <= self.right + _MARGIN
                if inside and all(_apart(x, text, fold.middle, fold.text) for fold in folds):
                    found.append(Label(x, text))
                    day = f"{moment:%Y-%m-%d}"
        return tuple(found)


def _apart(x: float, text: str, other_x: float, other: str) -> bool:
    """Whether two words do not touch, each centred at its place."""
    return not other or abs(x - other_x) >= (len(text) + len(other)) * _LETTER / 2 + _LETTER


def _pieces(points: Sequence[int], left: float, right: float) -> list[_Piece]:
    """Neighbouring stretches that are to scale are one piece."""
    folded = _folded(points)
    edges = sorted({0, len(points) - 1, *folded, *(index + 1 for index in folded)})
    seconds = {index: points[index] / _SECOND for index in edges}
    scaled = (seconds[edges[-1]] - seconds[0]) - sum(seconds[index + 1] - seconds[index] for index in folded)
    second = (right - left - BREAK * len(folded)) / scaled
    found: list[_Piece] = []
    x = left
    for first, last in pairwise(edges):
        breaks = first in folded
        width = BREAK if breaks else (seconds[last] - seconds[first]) * second
        found.append(_Piece(points[first], points[last], x, width, breaks))
        x += width
    return found


def _folded(points: Sequence[int]) -> set[int]:
    """The longest stretches, as many as are each far longer than everything that is shorter together."""
    gaps = [*map(sub, points[1:], points)]
    rest = points[-1] - points[0]
    if max(gaps) * (_BREAKS + 1) < rest:
        return set()  # whichever are folded, what is left is longer than any of them
    longest: set[int] = set()
    chosen: set[int] = set()
    for length, index in nlargest(min(_BREAKS, len(gaps) // 2), zip(gaps, count(), strict=False)):
        rest -= length
        longest.add(index)
        if length >= _SHORTEST and length > _MANY_TIMES * rest:
            chosen = set(longest)
    return chosen


def _text(moment: datetime, step: float, day: str) -> str:
    if step >= 86_400:
        return f"{moment:%Y-%m-%d}"
    text = f"{moment:%H:%M}" if step >= 60 else f"{moment:%H:%M:%S}"
    if step < 1:
        text += f".{moment.microsecond // 1000:03}"
    return text if day == f"{moment:%Y-%m-%d}" else f"{moment:%d %b} {text}"
