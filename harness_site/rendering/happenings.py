"""What a timeline tells, item by item: the same for the drawing and for the table below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from operator import itemgetter
from typing import Final

from checkpoints.queries.instants import moment
from checkpoints.queries.timeframe import Asked, Course, Event, Occurrence, Timeframe, Turn
from checkpoints.queries.timeline import Mark, Stretch
from harness_site import wording
from harness_site.rendering.text import visible

#: Kind → what it is called, the gravest first.
KINDS: Final = {
    "lost": "outcome unknown",
    "failed": "failed",
    "wait": "waits for a person",
    "running": "running",
    "peer": "waits for another agent",
    "ran": "tool call",
    "model": "model turn",
    "tools": "tools of a turn",
    "agents": "subagents",
    "turn": "turn",
    "crash": "run lost",
    "takeover": "taken over",
    "pause": "paused",
    "taken": "taken up again",
    "decision": "decision",
    "version": "version",
}
_MOMENTS: Final = {
    "crash": "the run was lost",
    "takeover": "the session was taken over",
    "pause": "paused for other agents",
    "taken": "the task was taken up again",
}
_ANSWERS: Final = {
    "waiting": "not answered yet",
    "answered": "answered",
    "expired": "no answer in time",
    "cancelled": "cancelled",
}


_OUTCOMES: Final = {
    "ran": "completed",
    "failed": "failed",
    "running": "running",
    "lost": "outcome unknown",
    "wait": "waited for a person",
}
#: Of whatever is told.
KIND, START, END = itemgetter(0), itemgetter(1), itemgetter(2)
_WHEN = itemgetter(1, 2)


@dataclass(frozen=True, slots=True)
class Item:
    """Something with a time, in words. `what` names it, `told` says what came of it; at most one of the places below
    leads to it. `position` is that of the last message of `version`. `run` is None where no run did it."""

    kind: str
    start: datetime
    end: datetime
    run: int | None
    what: str
    told: str
    call_pk: int | None = None
    version: int | None = None
    position: int | None = None
    peers: bool = False

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end - self.start).total_seconds())

    @property
    def moment(self) -> bool:
        return self.start == self.end and self.kind in {*_MOMENTS, "decision", "version"}

    @property
    def title(self) -> str:
        if self.moment:
            return f"{self.what}: {self.told}" if self.told else self.what
        return f"{self.what}: {self.told}, {wording.duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of one run, by the row of its lane that it stands in, each in order of time.

    There may be thousands; only what is shown on its own becomes an `Item`.
    """

    run: int
    turns: Sequence[Turn]
    calls: Sequence[Stretch | Asked]
    signs: Sequence[Event]
    versions: Sequence[Mark]

    @property
    def rows(self) -> tuple[Sequence[Occurrence], ...]:
        return self.turns, self.calls, self.signs, self.versions


def told(frame: Timeframe) -> tuple[Told, ...]:
    """What is told of each run, in the order of the runs."""
    return tuple(_told(course) for course in frame.courses)


def _told(course: Course) -> Told:
    lane = course.lane
    return Told(
        run=lane.run.number,
        turns=sorted(course.turns, key=START),
        calls=sorted([*lane.stretches, *course.asked], key=START),
        signs=sorted(course.events, key=START),
        versions=sorted(lane.marks, key=START),
    )


def listed(runs: Iterable[Told]) -> list[tuple[int, Occurrence]]:
    """Everything that was told with the number of its run, in order of time; versions where no turn ends with them."""
    found: list[tuple[int, Occurrence]] = []
    for each in runs:
        ended = {turn.version for turn in each.turns}
        found += zip(repeat(each.run), (*each.turns, *each.calls, *each.signs))
        found += [(each.run, mark) for mark in each.versions if mark.version not in ended]
    return sorted(found, key=lambda numbered: _WHEN(numbered[1]))


def item(entry: Occurrence, run: int) -> Item:
    """In words."""
    start = moment(entry.start)
    end = start if entry.end == entry.start else moment(entry.end)
    match entry:
        case Stretch():
            name = visible(entry.tool)
            return Item(entry.kind, start, end, run, name, _OUTCOMES[entry.kind], call_pk=entry.call_pk)
        case Turn():
            name, last = f"{KINDS[entry.kind].capitalize()} to version {entry.version}", _last(entry.length)
            return Item(entry.kind, start, end, run, name, "saved", version=entry.version, position=last)
        case Mark():
            name, last = f"Version {entry.version}", _last(entry.length)
            phase = wording.phase(entry.phase) if entry.by_run else "appended without a run"
            by = run if entry.by_run else None
            return Item("version", start, end, by, name, phase, version=entry.version, position=last)
        case Asked():
            outcome = _ANSWERS.get(entry.status, entry.status)
            return Item("peer", start, end, run, f"Asked {visible(entry.peer)}", outcome, peers=True)
        case Event():
            return _event(entry, start, run)


def _event(event: Event, at: datetime, run: int) -> Item:
    if event.kind == "decision":
        name = f"{visible(event.actor)} about {visible(event.tool)}"
        outcome = wording.state(event.decision)[1].lower()
        return Item("decision", at, at, run, name, outcome, call_pk=event.call_pk)
    return Item(event.kind, at, at, run, f"Run {run}", _MOMENTS[event.kind], peers=event.kind in {"pause", "taken"})


def _last(length: int) -> int | None:
    return length - 1 if length else None
