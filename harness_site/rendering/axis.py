"""Time from left to right: where a moment stands, and which moment stands there.

Long stretches in which nothing changes are folded into a break of fixed width, so that the milliseconds of a tool and
the night a session waited for a person can be seen side by side. Between breaks, time is to scale.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Final

from harness_site import wording

#: Width of a break, and how many there may be.
BREAK = 34
_BREAKS = 8
#: Shorter than this (in seconds) nothing is folded; and a fold is so many times as long as all that is left.
_SHORTEST = 10
_MANY_TIMES = 2
#: Between two labels, the width of one letter of them, and the room right of the last moment.
_APART = 92
_LETTER = 6.6
_MARGIN = 16
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
    start: float
    end: float
    x: float
    width: float
    folded: bool


class Axis:
    """From `since` at `left` until `until` at `right`; `moments` are those at which something changes."""

    def __init__(
        self, moments: Iterable[datetime], since: datetime, until: datetime, *, left: float, right: float
    ) -> None:
        start, end = since.timestamp(), max(until.timestamp(), since.timestamp() + 0.001)
        inside = {start, end, *(at for at in (moment.timestamp() for moment in moments) if start < at < end)}
        self.left, self.right = left, right
        self._pieces = _pieces(sorted(inside), left, right)
        self._starts = [piece.start for piece in self._pieces]

    def x(self, moment: datetime) -> float:
        """Moments outside stand at the edge."""
        at = min(max(moment.timestamp(), self._pieces[0].start), self._pieces[-1].end)
        piece = self._pieces[bisect_right(self._starts, at) - 1]
        return round(piece.x + (at - piece.start) / (piece.end - piece.start) * piece.width, 1)

    def moment(self, x: float) -> datetime:
        """The inverse of `x`."""
        piece = next((piece for piece in self._pieces if x <= piece.x + piece.width), self._pieces[-1])
        part = min(max((x - piece.x) / piece.width, 0.0), 1.0)
        return datetime.fromtimestamp(piece.start + part * (piece.end - piece.start), UTC)

    @property
    def folds(self) -> tuple[Fold, ...]:
        found: list[Fold] = []
        for piece in self._pieces:
            if piece.folded:
                text = wording.duration(piece.end - piece.start)
                middle = piece.x + piece.width / 2
                room = all(_apart(middle, text, fold.middle, fold.text) for fold in found)
                found.append(Fold(piece.x, piece.width, piece.end - piece.start, text if room else ""))
        return tuple(found)

    def labels(self) -> tuple[Label, ...]:
        """Times at round distances, and nothing where a break stands or says how long it is."""
        scaled = [piece for piece in self._pieces if not piece.folded]
        second = sum(piece.width for piece in scaled) / sum(piece.end - piece.start for piece in scaled)
        step = next((step for step in _STEPS if step * second >= _APART), _STEPS[-1])
        folds = self.folds
        found: list[Label] = []
        day = ""
        for piece in scaled:
            for number in range(ceil(piece.start / step), int(piece.end // step) + 1):
                moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=number * step)
                x = self.x(moment)
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


def _pieces(points: Sequence[float], left: float, right: float) -> list[_Piece]:
    """Neighbouring stretches that are to scale are one piece."""
    folded = _folded(points)
    scaled = (points[-1] - points[0]) - sum(points[index + 1] - points[index] for index in folded)
    second = (right - left - BREAK * len(folded)) / scaled
    edges = sorted({0, len(points) - 1, *folded, *(index + 1 for index in folded)})
    found: list[_Piece] = []
    x = left
    for first, last in pairwise(edges):
        start, end = points[first], points[last]
        breaks = first in folded
        width = BREAK if breaks else (end - start) * second
        found.append(_Piece(start, end, x, width, breaks))
        x += width
    return found


def _folded(points: Sequence[float]) -> set[int]:
    """The longest stretches, as many as are each far longer than everything that is shorter together."""
    gaps = sorted(((end - start, index) for index, (start, end) in enumerate(pairwise(points))), reverse=True)
    rest = points[-1] - points[0]
    chosen: set[int] = set()
    for number, (length, _) in enumerate(gaps[: min(_BREAKS, len(gaps) // 2)], start=1):
        rest -= length
        if length >= _SHORTEST and length > _MANY_TIMES * rest:
            chosen = {index for _, index in gaps[:number]}
    return chosen


def _text(moment: datetime, step: float, day: str) -> str:
    if step >= 86_400:
        return f"{moment:%Y-%m-%d}"
    text = f"{moment:%H:%M}" if step >= 60 else f"{moment:%H:%M:%S}"
    if step < 1:
        text += f".{moment.microsecond // 1000:03}"
    return text if day == f"{moment:%Y-%m-%d}" else f"{moment:%d %b} {text}"
