"""A timeline as a drawing: where each stretch of time stands, in units of an SVG.

Time is squeezed where nothing happens: between two moments it counts with its logarithm, so that the milliseconds of
a tool and the hour a session waited for a person can be seen side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import log1p

from checkpoints.queries.instants import moment
from checkpoints.queries.occasions import Takeover
from checkpoints.queries.timeline import Lane, Stretch, Timeline
from harness_site import wording
from harness_site.rendering.text import visible

WIDTH = 1040
LEFT = 60
ROW = 40
TOP = 18
_LEAST = 5
#: Width of one letter of a label, to see whether it fits.
_LETTER = 6.6
#: Shorter than this (in microseconds) counts as at once.
_GRAIN = 50_000


@dataclass(frozen=True, slots=True)
class Bar:
    """`label` begins at `label_x`: inside, or where it is `beside` the bar, to the right of it."""

    kind: str
    x: float
    y: float
    width: float
    label: str
    label_x: float
    beside: bool
    title: str
    call_pk: int


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    version: int


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    y: float
    x: float
    width: float
    lost: bool
    taken_x: float | None
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """`words` tells the whole of it, for who cannot see it."""

    rows: tuple[Row, ...]
    height: int
    start: datetime
    end: datetime
    words: str
    earlier: bool


def draw(timeline: Timeline) -> Drawing | None:
    """None where there is nothing to draw."""
    instants = sorted({instant for lane in timeline.lanes for instant in _instants(lane)})
    if not instants:
        return None
    scale = _Scale(instants)
    rows = tuple(_row(lane, TOP + ROW * index, scale) for index, lane in enumerate(timeline.lanes))
    words = "; ".join(_told(lane) for lane in timeline.lanes)
    start, end = moment(instants[0]), moment(instants[-1])
    return Drawing(rows, TOP + ROW * len(rows), start, end, f"Timeline: {words}.", timeline.earlier)


def _instants(lane: Lane) -> list[int]:
    found = [lane.start, max(lane.end, lane.start)]
    for stretch in lane.stretches:
        found += [stretch.start, max(stretch.start, stretch.end)]
    return found + [mark.start for mark in lane.marks]


class _Scale:
    def __init__(self, instants: Sequence[int]) -> None:
        places = [0.0]
        for before, after in pairwise(instants):
            places.append(places[-1] + log1p((after - before) / _GRAIN))
        unit = (WIDTH - LEFT - 8) / (places[-1] or 1.0)
        self.places = {instant: round(LEFT + place * unit, 1) for instant, place in zip(instants, places, strict=True)}

    def x(self, instant: int) -> float:
        """Of one of the instants."""
        return self.places[instant]


def _row(lane: Lane, y: float, scale: _Scale) -> Row:
    begin, end = scale.x(lane.start), scale.x(max(lane.end, lane.start))
    places = sorted({scale.x(stretch.start) for stretch in lane.stretches})
    bars = tuple(_bar(stretch, y, scale, places) for stretch in lane.stretches)
    state = wording.state(lane.run.status)[1].lower() if lane.takeover is None else _taken(lane.takeover)
    return Row(
        name=f"run {lane.run.number}",
        title=f"Run {lane.run.number} on {visible(lane.run.host)}, {state}",
        y=y,
        x=begin,
        width=max(_LEAST, end - begin),
        lost=lane.run.status == "lost",
        taken_x=None if lane.takeover is None else end,
        bars=bars,
        ticks=tuple(Tick(scale.x(mark.start), mark.version) for mark in lane.marks),
    )


def _bar(stretch: Stretch, y: float, scale: _Scale, places: Sequence[float]) -> Bar:
    x = scale.x(stretch.start)
    width = max(_LEAST, scale.x(max(stretch.end, stretch.start)) - x)
    after = bisect_right(places, x)
    following = places[after] if after < len(places) else WIDTH
    x = min(x, WIDTH - width)
    tool = visible(stretch.tool)
    took = wording.duration(max(0, stretch.end - stretch.start) / 1_000_000)
    labels = (f"waiting for a person, {took}", f"waiting, {took}", took) if stretch.kind == "wait" else (tool,)
    title = {
        "wait": f"{tool} waited {took} for a decision",
        "lost": f"{tool}: outcome unknown after {took}",
        "running": f"{tool}: running",
        "failed": f"{tool}: failed after {took}",
    }.get(stretch.kind, f"{tool}: {took}")
    label, beside = _label(labels, width, following - x - width)
    label_x = round(x + width + 5 if beside else x + 6, 1)
    return Bar(stretch.kind, x, y, round(width, 1), label, label_x, beside, title, stretch.call_pk)


def _label(labels: Sequence[str], inside: float, beside: float) -> tuple[str, bool]:
    """The longest of the words that fit into the bar, else those that fit beside it."""
    for room, outside in ((inside, False), (beside, True)):
        for label in labels:
            if len(label) * _LETTER + 12 <= room:
                return label, outside
    return "", False


def _taken(takeover: Takeover) -> str:
    seen = (
        "" if takeover.seen_at is None else f", although it gave signs of life until {wording.exact(takeover.seen_at)}"
    )
    return f"its session taken over at {wording.exact(takeover.at)}{seen}"


def _told(lane: Lane) -> str:
    counts = [sum(stretch.kind == kind for stretch in lane.stretches) for kind in ("lost", "wait")]
    calls = sum(stretch.kind != "wait" for stretch in lane.stretches)
    state = "taken over" if lane.takeover else wording.state(lane.run.status)[1].lower()
    said = f"run {lane.run.number} ({state}) with {calls} tool calls"
    said += f", {counts[0]} with an unknown outcome" if counts[0] else ""
    return said + (", waited for a decision" if counts[1] else "")
