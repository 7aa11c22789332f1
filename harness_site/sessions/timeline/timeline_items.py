"""Items of a timeline with their descriptions, for both the drawing and the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from operator import itemgetter
from typing import Final

from harness_site.core import formatting
from harness_site.core.epoch_microseconds import convert_to_datetime
from harness_site.core.rendering.display_text import mask_and_reveal_hidden
from harness_site.sessions.timeline.selectors.run_lanes import Stretch, VersionMark
from harness_site.sessions.timeline.selectors.timeframe_contents import (
    Event,
    Occurrence,
    PeerWait,
    RunCourse,
    Timeframe,
    Turn,
)

#: Kind → label, most severe first.
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
#: Common leading fields of all occurrences.
KIND, START, END = itemgetter(0), itemgetter(1), itemgetter(2)
_WHEN = itemgetter(1, 2)


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """An occurrence with its description: `what` names it, `told` describes the outcome.

    At most one of the link targets below is set. `position` is that of the last message of `version`. `run` is None if
    no run caused it.
    """

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
        return f"{self.what}: {self.told}, {formatting.format_duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class RunItems:
    """Occurrences of one run by row of its lane, each in order of time.

    There may be thousands; only displayed ones are converted to a `TimelineItem`.
    """

    run: int
    turns: Sequence[Turn]
    calls: Sequence[Stretch | PeerWait]
    signs: Sequence[Event]
    versions: Sequence[VersionMark]

    @property
    def rows(self) -> tuple[Sequence[Occurrence], ...]:
        return self.turns, self.calls, self.signs, self.versions


def describe_runs(frame: Timeframe) -> tuple[RunItems, ...]:
    """List the occurrences of each run, in the order of the runs."""
    return tuple(_describe_run_course(run_course) for run_course in frame.courses)


def _describe_run_course(run_course: RunCourse) -> RunItems:
    lane = run_course.lane
    return RunItems(
        run=lane.run.number,
        turns=sorted(run_course.turns, key=START),
        calls=sorted([*lane.stretches, *run_course.asked], key=START),
        signs=sorted(run_course.events, key=START),
        versions=sorted(lane.marks, key=START),
    )


def list_items_in_time_order(runs: Iterable[RunItems]) -> list[tuple[int, Occurrence]]:
    """List all occurrences in order of time with the number of their run.

    Versions that end a turn are left out, as the turn represents them.
    """
    items: list[tuple[int, Occurrence]] = []
    for run_items in runs:
        turn_versions = {turn.version for turn in run_items.turns}
        items += zip(repeat(run_items.run), (*run_items.turns, *run_items.calls, *run_items.signs))
        items += [(run_items.run, mark) for mark in run_items.versions if mark.version not in turn_versions]
    return sorted(items, key=lambda numbered: _WHEN(numbered[1]))


def describe_item(entry: Occurrence, run: int) -> TimelineItem:
    """Convert an occurrence to an item."""
    start = convert_to_datetime(entry.start)
    end = start if entry.end == entry.start else convert_to_datetime(entry.end)
    match entry:
        case Stretch():
            name = mask_and_reveal_hidden(entry.tool)
            return TimelineItem(entry.kind, start, end, run, name, _OUTCOMES[entry.kind], call_pk=entry.call_pk)
        case Turn():
            name, last = (
                f"{KINDS[entry.kind].capitalize()} to version {entry.version}",
                _get_last_message_position(entry.length),
            )
            return TimelineItem(entry.kind, start, end, run, name, "saved", version=entry.version, position=last)
        case VersionMark():
            name, last = f"Version {entry.version}", _get_last_message_position(entry.length)
            phase = formatting.format_phase(entry.phase) if entry.by_run else "appended without a run"
            by = run if entry.by_run else None
            return TimelineItem("version", start, end, by, name, phase, version=entry.version, position=last)
        case PeerWait():
            outcome = _ANSWERS.get(entry.status, entry.status)
            return TimelineItem(
                "peer", start, end, run, f"Asked {mask_and_reveal_hidden(entry.peer)}", outcome, peers=True
            )
        case Event():
            return _describe_event(entry, start, run)


def _describe_event(event: Event, at: datetime, run: int) -> TimelineItem:
    if event.kind == "decision":
        name = f"{mask_and_reveal_hidden(event.actor)} about {mask_and_reveal_hidden(event.tool)}"
        outcome = formatting.format_status_chip(event.decision)[1].lower()
        return TimelineItem("decision", at, at, run, name, outcome, call_pk=event.call_pk)
    return TimelineItem(
        event.kind, at, at, run, f"Run {run}", _MOMENTS[event.kind], peers=event.kind in {"pause", "taken"}
    )


def _get_last_message_position(length: int) -> int | None:
    return length - 1 if length else None
