"""What a timeline tells, item by item: the same for the drawing and for the table below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from checkpoints.queries.timeframe import Asked, Course, Event, Timeframe, Turn
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


@dataclass(frozen=True, slots=True)
class Item:
    """Something with a time. `what` names it, `told` says what came of it; at most one of the places below leads to it.

    `position` is that of the last message of `version`.
    """

    kind: str
    start: datetime
    end: datetime
    run: int
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
    """The items of one run, by the row of its lane that they stand in, each in order of time."""

    turns: tuple[Item, ...]
    calls: tuple[Item, ...]
    signs: tuple[Item, ...]
    versions: tuple[Item, ...]

    def __iter__(self) -> Iterator[Item]:
        yield from (*self.turns, *self.calls, *self.signs, *self.versions)


def told(frame: Timeframe) -> tuple[Told, ...]:
    """The items of each run, in the order of the runs."""
    return tuple(_told(course) for course in frame.courses)


def _told(course: Course) -> Told:
    run, lane = course.lane.run.number, course.lane
    return Told(
        turns=_in_order(_turn(one, run) for one in course.turns),
        calls=_in_order([_stretch(one, run) for one in lane.stretches] + [_asked(one, run) for one in course.asked]),
        signs=_in_order(_event(one, run) for one in course.events),
        versions=_in_order(_version(one, run) for one in lane.marks),
    )


def _in_order(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.start))


def listed(runs: Iterable[Told]) -> list[Item]:
    """Everything that was told, in order of time; versions are in it where no turn ends with them."""
    found: list[Item] = []
    for items in runs:
        ended = {turn.version for turn in items.turns}
        found += [*items.turns, *items.calls, *items.signs]
        found += [version for version in items.versions if version.version not in ended]
    return sorted(found, key=lambda item: (item.start, item.end))


def _turn(turn: Turn, run: int) -> Item:
    name, last = f"{KINDS[turn.kind].capitalize()} to version {turn.version}", _last(turn.length)
    return Item(turn.kind, turn.start, turn.end, run, name, "saved", version=turn.version, position=last)


def _version(mark: Mark, run: int) -> Item:
    name, phase = f"Version {mark.version}", wording.phase(mark.phase)
    return Item("version", mark.at, mark.at, run, name, phase, version=mark.version, position=_last(mark.length))


def _last(length: int) -> int | None:
    return length - 1 if length else None


def _stretch(stretch: Stretch, run: int) -> Item:
    outcome = {
        "ran": "completed",
        "failed": "failed",
        "running": "running",
        "lost": "outcome unknown",
        "wait": "waited for a person",
    }[stretch.kind]
    name = visible(stretch.tool)
    return Item(stretch.kind, stretch.start, stretch.end, run, name, outcome, call_pk=stretch.call_pk)


def _asked(asked: Asked, run: int) -> Item:
    outcome = _ANSWERS.get(asked.status, asked.status)
    return Item("peer", asked.start, asked.end, run, f"Asked {visible(asked.peer)}", outcome, peers=True)


def _event(event: Event, run: int) -> Item:
    if event.kind == "decision":
        name = f"{visible(event.actor)} about {visible(event.tool)}"
        outcome = wording.state(event.decision)[1].lower()
        return Item("decision", event.at, event.at, run, name, outcome, call_pk=event.call_pk)
    kind = "crash" if event.kind == "lost" else event.kind
    return Item(kind, event.at, event.at, run, f"Run {run}", _MOMENTS[kind], peers=kind in {"pause", "taken"})
