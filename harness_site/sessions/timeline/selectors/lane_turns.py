"""Turns of a lane: the work of a run until each version, without the waits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from checkpoints.enums import Phase
from harness_site.sessions.timeline.selectors.run_lanes import Lane
from harness_site.sessions.timeline.selectors.turn_contents import TurnContents

#: Phase that ends a turn → kind of the turn.
_TURN_KINDS: Final[dict[str, str]] = {
    Phase.TURN: "turn",
    Phase.POST_LLM: "model",
    Phase.POST_TOOL_BATCH: "tools",
    Phase.POST_SUBAGENT_BATCH: "agents",
}


class Turn(NamedTuple):
    """The work of a run from its start, its previous version or a later prompt until `version` of `length` messages.

    `kind` is model, tools or agents by the phase of the version, else turn. During the `waits`, pairs of start and end
    in order of time, the run waited for a person or for another agent. With `contents`, which say what the version
    added, the kind is ran or failed if that are only results of tools whose calls are not logged. Such a turn may end
    before its version was `saved`; others end at that time. A part of a turn between two waits has the `whole` turn.
    """

    kind: str
    start: int
    end: int
    version: int
    length: int
    waits: tuple[tuple[int, int], ...] = ()
    contents: TurnContents | None = None
    saved: int | None = None
    whole: Turn | None = None

    @property
    def saved_at(self) -> int:
        """When the version was saved, as the list of versions says."""
        return self.end if self.saved is None else self.saved

    @property
    def worked_microseconds(self) -> int:
        """Microseconds of the turn without the waits."""
        return self.end - self.start - sum(end - start for start, end in self.waits)

    @property
    def periods_of_work(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each period between the waits."""
        if not self.waits:
            return ((self.start, self.end),)
        edges = [self.start, *(edge for wait in self.waits for edge in wait), self.end]
        periods = tuple((start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end)
        return periods or ((self.end, self.end),)


def derive_lane_turns_from_version_marks(lane: Lane, waits: Iterable[tuple[int, int]] = ()) -> Iterator[Turn]:
    """Yield the turns that the versions of a lane end.

    The stretches of the lane in which it waited for a person, and the `waits` for other agents, are not time of a turn.
    Nor is the time until a person wrote the next message, unless a tool ran in it: its result may have the role of a
    person.
    """
    stretches = ((stretch.start, stretch.end) for stretch in lane.stretches if stretch.kind == "wait")
    merged = merge_periods([*stretches, *waits])
    starts, ends = [start for start, _ in merged], [end for _, end in merged]
    since = lane.start
    for mark in lane.marks if not lane.run.stands_for_fork else ():
        kind = "model" if mark.has_answer else _TURN_KINDS.get(mark.phase)
        is_wait_for_prompt = mark.is_prompt and not _is_tool_running_between(lane, since, mark.end)
        if kind is not None and mark.by_run and not is_wait_for_prompt:
            start = min(since if mark.prompted is None else max(since, mark.prompted), mark.end)
            inside = merged[bisect_right(ends, start) : bisect_left(starts, mark.end)]
            during = tuple((max(begin, start), min(end, mark.end)) for begin, end in inside)
            if during and during[0][0] <= start:  # the work began after the wait
                start, during = during[0][1], during[1:]
            yield Turn(kind, start, mark.end, mark.version, mark.length, during)
        since = mark.end


def _is_tool_running_between(lane: Lane, start: int, end: int) -> bool:
    return any(each.kind != "wait" and each.start <= end and each.end >= start for each in lane.stretches)


def merge_periods(periods: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge periods that overlap or touch; return them in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(periods):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
