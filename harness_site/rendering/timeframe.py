"""Some time of a session as a drawing: a lane for each run, bars for what took time, signs for moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from checkpoints.queries.instants import moment
from checkpoints.queries.timeframe import Course, Occurrence, Timeframe
from harness_site import wording
from harness_site.rendering import packing
from harness_site.rendering.axis import Axis, Fold, Label
from harness_site.rendering.happenings import END, KIND, KINDS, START, Item, Told, item
from harness_site.rendering.packing import Packed
from harness_site.rendering.text import visible

WIDTH = 1040
LEFT = 72
RIGHT = 1024
TOP = 30
#: Heights of the rows of a lane.
_TURN = 10
_CALL = 16
_SIGNS = 26
_BETWEEN = 3
_LANE_GAP = 14
#: Width of one letter, to see whether words fit.
_LETTER = 6.6
#: Half the width of a sign, and of the mark of a version.
_SIGN = 6.0
_MARK = 3.0
_GRAVE: Final = ("lost", "failed", "crash", "takeover")
#: In the legend, by how they are drawn.
_BARS: Final = ("model", "tools", "agents", "turn", "ran", "failed", "lost", "running", "wait", "peer")
_SIGN_KINDS: Final = ("crash", "takeover", "pause", "taken", "decision", "version")


@dataclass(frozen=True, slots=True)
class Bar:
    """One item, or several: `count` says how many. They look like what most of them are; `grave` is the gravest kind of
    what went wrong among them, if it is another one. What is alone has a place to go. `label` begins at `label_x`."""

    kind: str
    grave: str
    x: float
    y: float
    width: float
    height: float
    label: str
    label_x: float
    count: int
    title: str
    item: Item | None
    since: datetime
    until: datetime

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True)
class Lane:
    """`life` and `signs_y` are the heights at which its line and its signs stand."""

    name: str
    title: str
    y: float
    x: float
    width: float
    life: float
    lost: bool
    bars: tuple[Bar, ...]
    signs: tuple[Bar, ...]
    versions: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """`words` tells the whole of it, for who cannot see it. `grouped` counts the items that stand for several."""

    lanes: tuple[Lane, ...]
    axis: Axis
    height: float
    folds: tuple[Fold, ...]
    labels: tuple[Label, ...]
    words: str
    grouped: int
    bars: tuple[tuple[str, str], ...]
    signs: tuple[tuple[str, str], ...]


def draw(frame: Timeframe, told: Sequence[Told]) -> Drawing:
    """`told` is what is told of each of its runs."""
    axis = Axis(_instants(frame.courses, told), frame.since, frame.until, left=LEFT, right=RIGHT)
    lanes: list[Lane] = []
    y = float(TOP)
    for course, each in zip(frame.courses, told, strict=True):
        lane, y = _lane(course, each, axis, y)
        lanes.append(lane)
    kinds = Counter(chain.from_iterable(map(KIND, some) for each in told for some in each.rows))
    return Drawing(
        lanes=tuple(lanes),
        axis=axis,
        height=y,
        folds=axis.folds,
        labels=axis.labels(),
        words=_words(kinds, frame),
        grouped=sum(bar.count for lane in lanes for bar in (*lane.bars, *lane.signs, *lane.versions) if bar.count > 1),
        bars=tuple((kind, KINDS[kind]) for kind in _BARS if kind in kinds),
        signs=tuple((kind, KINDS[kind]) for kind in _SIGN_KINDS if kind in kinds),
    )


def _instants(courses: Iterable[Course], told: Iterable[Told]) -> Iterator[int]:
    lanes = ((course.lane.start, course.lane.end) for course in courses)
    entries = [some for each in told for some in each.rows]
    return chain(*lanes, *(map(START, some) for some in entries), *(map(END, some) for some in entries))


def _lane(course: Course, told: Told, axis: Axis, y: float) -> tuple[Lane, float]:
    """The lane, and where the next one begins."""
    run = course.lane.run
    turns, below = _bars(told.turns, axis, y, _TURN, told.run)
    calls, below = _bars(told.calls, axis, below, _CALL, told.run)
    begin, end = axis.x(course.lane.start), axis.x(max(course.lane.end, course.lane.start))
    life = round(below + _SIGNS / 2, 1)
    state = "taken over" if course.lane.takeover else wording.state(run.status)[1].lower()
    lane = Lane(
        name=f"run {run.number}",
        title=f"Run {run.number} on {visible(run.host)}, {state}",
        y=y,
        x=begin,
        width=round(max(packing.LEAST, end - begin), 1),
        life=life,
        lost=run.status == "lost",
        bars=(*turns, *calls),
        signs=tuple(_points(told.signs, axis, life, _SIGN, told.run)),
        versions=tuple(_points(told.versions, axis, life, _MARK, told.run)),
    )
    return lane, below + _SIGNS + _LANE_GAP


def _bars(entries: Sequence[Occurrence], axis: Axis, y: float, height: float, run: int) -> tuple[list[Bar], float]:
    lefts, rights = axis.places(map(START, entries)), axis.places(map(END, entries))
    rows = packing.pack(zip(lefts, rights, entries, strict=True))
    drawn = [
        _bar(packed, y + index * (height + _BETWEEN), height, axis.folds, run)
        for index, row in enumerate(rows)
        for packed in row
    ]
    return drawn, y + max(1, len(rows)) * (height + _BETWEEN)


def _points(entries: Sequence[Occurrence], axis: Axis, y: float, half: float, run: int) -> Iterator[Bar]:
    """Signs that would touch are one, with their number."""
    places = axis.places(map(START, entries))
    bars = ((x - half, x + half, entry) for x, entry in zip(places, entries, strict=True))
    for row in packing.pack(bars, levels=1, small=float("inf")):
        for packed in row:
            yield _bar(packed, y - half, 2 * half, (), run)


def _bar(packed: Packed[Occurrence], y: float, height: float, folds: Sequence[Fold], run: int) -> Bar:
    entries = packed.items
    first, count = entries[0], len(entries)
    alone = item(first, run) if count == 1 else None
    kinds = Counter(map(KIND, entries))
    kind = kinds.most_common(1)[0][0]
    label, label_x = _fitting(alone.what if alone else f"{count}", packed.x, packed.width, folds)
    return Bar(
        kind=kind,
        grave=next((bad for bad in _GRAVE if bad != kind and bad in kinds), ""),
        x=round(packed.x, 1),
        y=round(y, 1),
        width=packed.width,
        height=height,
        label=label,
        label_x=label_x,
        count=count,
        title=alone.title if alone else f"{count:,} together: {_counted(kinds)}",
        item=alone,
        since=moment(first.start),
        until=moment(max(map(END, entries))),
    )


def _fitting(label: str, x: float, width: float, folds: Sequence[Fold]) -> tuple[str, float]:
    """The label and where it begins: in the first part of the bar with room for it that no break crosses."""
    inside = [fold for fold in folds if x < fold.x + fold.width and fold.x < x + width]
    begins = [x, *(fold.x + fold.width for fold in inside)]
    ends = [*(fold.x for fold in inside), x + width]
    for begin, end in zip(begins, ends, strict=True):
        if len(label) * _LETTER + 4 <= end - begin:
            return label, round(begin + 3, 1)
    return "", x


def _words(kinds: Counter[str], frame: Timeframe) -> str:
    runs = len(frame.courses)
    spoken = f"Timeline of {runs} {'run' if runs == 1 else 'runs'}"
    since, until = wording.exact(frame.since), wording.exact(frame.until)
    return f"{spoken}, {since} to {until}: {_counted(kinds) or 'nothing'}. The table below tells the same."


def _counted(kinds: Counter[str]) -> str:
    """“2 failed, 40 tool call”: the gravest first."""
    return ", ".join(f"{kinds[kind]:,} {KINDS[kind]}" for kind in KINDS if kinds[kind])
