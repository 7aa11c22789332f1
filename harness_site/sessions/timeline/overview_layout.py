"""Layout of the timeline overview in SVG units.

The time scale is logarithmic between neighbouring events, and none of these distances takes much more than a third of
it, so that the milliseconds of a tool and the hour a session waited for a person are visible side by side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from math import log1p
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints.enums import RunStatus
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.call_sentences import mask_and_format_tool_name
from harness_site.core.epoch_microseconds import convert_to_datetime
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.sessions.timeline.list_timeline_items import (
    format_lane_name,
    format_title_of_lane_without_process_or_none,
    get_item_texts_in_current_language,
    list_wait_label_candidates,
)
from harness_site.sessions.timeline.selectors import lane_turns
from harness_site.sessions.timeline.selectors.run_lanes import Lane, Stretch, Timeline

WIDTH: Final = 1040
LEFT = 50
TOP = 3
#: Height of a row, and of one with a word below its line.
_ROW: Final = 30
_ROW_WITH_TAKEOVER: Final = 46
_LEAST = 5
#: Largest number of letters of the name of a lane.
_LONGEST_NAME: Final = 20
#: Number of bars, or of dots of versions, up to which each has about ten points of a phone's width.
_MAX_BARS_ON_PHONE: Final = 36
#: Width of one letter of a name or of a word below a line, to reserve room for it.
_LETTER = 7.0
#: Widths of the letters of a label, to test whether it fits; those of all others are `_LETTER`.
_WIDTHS_OF_LETTERS: Final = (
    dict.fromkeys("ijlI.,:;'|! ", 3.5) | dict.fromkeys("frt-_()", 5.2) | dict.fromkeys("mwMWOQ…", 10.5)
)
#: Kinds of calls that went as expected. The others have labels wherever there is room.
_EXPECTED: Final = "ran"
#: Kinds of calls that nobody has to look into any more.
_ENDED_CALLS: Final = frozenset({"ran", "failed", "unanswered"})
#: Time unit of the logarithmic scale, in microseconds.
_GRAIN = 50_000
#: Kind of a stretch → title of its bar.
_BAR_TITLES: Final[dict[str, str | Promise]] = {
    "wait": gettext_lazy("%(tool)s waited %(duration)s for a decision"),
    "lost": gettext_lazy("%(tool)s: outcome unknown after %(duration)s"),
    "running": gettext_lazy("%(tool)s: running"),
    "unanswered": gettext_lazy("%(tool)s: no result"),
    "failed": gettext_lazy("%(tool)s: failed after %(duration)s"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar. `label` begins at `label_x`: inside, or to the right of the bar if it is `beside`."""

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
class ModelTurn:
    """Time of a model turn, or a part of it between waits."""

    x: float
    width: float
    version: int
    title: str


@dataclass(frozen=True, slots=True)
class TakeoverMark:
    """Mark of a takeover with a label, which ends before it if there is no room behind it."""

    x: float
    label: str
    label_x: float
    is_label_before: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One run. The line of a lost run is solid until its last sign of life, and dashed from there to `silent_until`."""

    name: str
    title: str
    y: float
    x: float
    width: float
    silent_until: float | None
    lost: bool
    has_line: bool
    takeover: TakeoverMark | None
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    turns: tuple[ModelTurn, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Layout of the overview; `words` describes it for screen readers, and `omitted` counts runs that did nothing.

    If `shortened`, a time without events is drawn at less than half of its part of the whole time. Of what came before
    its start, nothing is drawn if `earlier`.
    """

    rows: tuple[Row, ...]
    width: int
    height: int
    start: datetime
    end: datetime
    words: str
    earlier: bool
    omitted: int
    shortened: bool

    @property
    def needs_milliseconds(self) -> bool:
        """Return whether its start and end may be equal without milliseconds."""
        return self.end - self.start < timedelta(seconds=2)

    @property
    def has_many_bars(self) -> bool:
        """Return whether a phone has no room to tell the bars apart."""
        return sum(len(row.bars) for row in self.rows) > _MAX_BARS_ON_PHONE

    @property
    def has_many_versions(self) -> bool:
        """Return whether a phone has no room to tell the dots of the versions apart."""
        return any(len(row.ticks) > _MAX_BARS_ON_PHONE for row in self.rows)


def compute_run_lanes_layout(timeline: Timeline) -> Drawing | None:
    """Lay out the runs of a timeline, or return None if there is nothing to draw.

    The drawing begins where everything is loaded: what is left out would look as if it had not happened.
    """
    since = timeline.complete_since
    lanes = [lane for lane in timeline.lanes if not _has_done_nothing(lane)] or list(timeline.lanes[-1:])
    omitted = len(timeline.lanes) - len(lanes)
    if since is not None:
        lanes = [lane for lane in lanes if max(_list_lane_instants(lane)) >= since]
    instants = sorted({instant for lane in lanes for instant in _list_lane_instants(lane)})
    if since is not None:
        instants = instants[bisect_left(instants, since) :]
    if not instants:
        return None
    words = " ".join([_("Timeline of the runs."), *(_describe_lane(lane) for lane in timeline.lanes)])
    start, end = convert_to_datetime(instants[0]), convert_to_datetime(instants[-1])
    names = [shorten_text(format_lane_name(lane), _LONGEST_NAME) for lane in lanes]
    scale = _LogScale(instants, max([LEFT, *(len(name) * _LETTER + 8 for name in names)]))
    heights = (_ROW if lane.takeover is None else _ROW_WITH_TAKEOVER for lane in lanes)
    *tops, height = accumulate(heights, initial=TOP)
    rows = tuple(
        _compute_layout_of_lane_bars_and_marks(lane, name, top, scale)
        for lane, name, top in zip(lanes, names, tops, strict=True)
    )
    return Drawing(rows, WIDTH, height, start, end, words, since is not None, omitted, scale.shortens_gaps)


def is_one_ended_turn(timeline: Timeline) -> bool:
    """Return whether a timeline has one run that ended in order, with one version and one answered call at most."""
    if len(timeline.lanes) != 1 or timeline.complete_since is not None:
        return False
    (lane,) = timeline.lanes
    calls = sum(each.number if each.kind in _ENDED_CALLS else 2 for each in lane.stretches)
    has_ended = lane.run.ended_at is not None and lane.run.status != RunStatus.LOST
    return has_ended and len(lane.marks) <= 1 and calls <= 1 and lane.takeover is None and not lane.run.stands_for_fork


def _has_done_nothing(lane: Lane) -> bool:
    """Return whether a run ended in order without a call, a version or a wait."""
    return lane.run.status == RunStatus.RELEASED and not lane.stretches and not lane.marks


def _list_lane_instants(lane: Lane) -> list[int]:
    """Return when anything happened; the last sign of life of a run that goes on is no event."""
    instants = [lane.start] if lane.run.ended_at is None else [lane.start, _get_drawn_end_of_lane(lane)]
    for stretch in lane.stretches:
        start = _get_drawn_start_of_stretch(stretch, lane)
        instants += [start, max(start, stretch.end)]
    if lane.seen_until is not None:
        instants.append(min(lane.seen_until, _get_drawn_end_of_lane(lane)))
    return instants + [mark.start for mark in lane.marks]


def _get_drawn_start_of_stretch(stretch: Stretch, lane: Lane) -> int:
    """Return where a stretch begins in its lane: a call may have waited before the run that waits for it began."""
    return max(stretch.start, lane.start) if stretch.kind == "wait" else stretch.start


def _get_drawn_end_of_lane(lane: Lane) -> int:
    """Return where the line of a run ends.

    A run that did nothing more than end after a call began to wait ends where the wait begins: the scale would give the
    milliseconds until then as much room as it gives the hours after them.
    """
    end = max(lane.end, lane.start)
    waits = [
        _get_drawn_start_of_stretch(stretch, lane)
        for stretch in lane.stretches
        if stretch.kind == "wait" and stretch.start <= end < stretch.end
    ]
    if lane.run.ended_at is None or not waits:
        return end
    work = [stretch.end for stretch in lane.stretches if stretch.kind != "wait"]
    return min(end, max([min(waits), *work, *(mark.end for mark in lane.marks)]))


class _LogScale:
    def __init__(self, instants: Sequence[int], left: float) -> None:
        distances = [_compute_log_distance(before, after) for before, after in pairwise(instants)]
        longest = max(distances, default=0.0)
        limit = (sum(distances) - longest) / 2 or longest  # so that the longest one takes about a third
        places = [0.0, *accumulate(min(distance, limit) for distance in distances)]
        self._instants, self._places, self._left = instants, places, left
        self._unit = (WIDTH - left - 8) / (places[-1] or 1.0)

    @property
    def start(self) -> int:
        return self._instants[0]

    @property
    def shortens_gaps(self) -> bool:
        whole, drawn = self._instants[-1] - self._instants[0], self._places[-1]
        gaps = zip(pairwise(self._instants), pairwise(self._places), strict=True)
        return any(
            (place_after - place_before) * whole * 2 < (after - before) * drawn
            for (before, after), (place_before, place_after) in gaps
        )

    def convert_to_x(self, instant: int) -> float:
        """Return the x position of a moment. One before the scale, as differing clocks give it, is at its beginning."""
        instant = max(instant, self._instants[0])
        index = bisect_right(self._instants, instant) - 1
        place = self._places[index]
        if index + 1 < len(self._instants):
            place = min(place + _compute_log_distance(self._instants[index], instant), self._places[index + 1])
        return round(self._left + place * self._unit, 1)


def _compute_log_distance(start: int, end: int) -> float:
    return log1p((end - start) / _GRAIN)


def _compute_layout_of_lane_bars_and_marks(lane: Lane, name: str, y: float, scale: _LogScale) -> Row:
    begin, end = scale.convert_to_x(lane.start), scale.convert_to_x(_get_drawn_end_of_lane(lane))
    seen = end if lane.seen_until is None else min(end, scale.convert_to_x(lane.seen_until))
    width = round(max(_LEAST, seen - begin), 1)
    marks = [mark for mark in lane.marks if mark.start >= scale.start]
    stretches = [
        stretch
        for stretch in lane.stretches
        if max(_get_drawn_start_of_stretch(stretch, lane), stretch.end) >= scale.start
    ]
    starts = [scale.convert_to_x(_get_drawn_start_of_stretch(stretch, lane)) for stretch in stretches]
    places = sorted(set(starts))
    bars = tuple(
        _compute_bar_layout(stretch, x, y, scale, places) for stretch, x in zip(stretches, starts, strict=True)
    )
    bars = _remove_expected_labels_unless_all_fit(bars)
    return Row(
        name=name,
        title=_format_lane_title(lane),
        y=y,
        x=begin,
        width=width,
        silent_until=end if end > begin + width else None,
        lost=lane.run.status == "lost",
        has_line=not lane.run.stands_for_fork,
        takeover=None if lane.takeover is None else _compute_takeover_mark(end),
        bars=bars,
        ticks=tuple(Tick(scale.convert_to_x(mark.start), mark.version) for mark in marks),
        turns=tuple(_iterate_model_turn_layouts(lane, scale)),
    )


def _remove_expected_labels_unless_all_fit(bars: tuple[Bar, ...]) -> tuple[Bar, ...]:
    """Return the bars of a lane; those of expected calls have no labels if one of them has no room for its label.

    Labels on some of them would look as if these calls mattered more.
    """
    if all(bar.label for bar in bars if bar.kind == _EXPECTED):
        return bars
    return tuple(replace(bar, label="") if bar.kind == _EXPECTED else bar for bar in bars)


def _compute_takeover_mark(x: float) -> TakeoverMark:
    label = _("taken over")
    is_before = x + 8 + len(label) * _LETTER > WIDTH
    return TakeoverMark(x, label, round(x - 8 if is_before else x + 8, 1), is_before)


def _iterate_model_turn_layouts(lane: Lane, scale: _LogScale) -> Iterator[ModelTurn]:
    for turn in lane_turns.derive_lane_turns_from_version_marks(lane):
        if turn.kind == "model" and turn.end > max(turn.start, scale.start):
            took = formatting.format_duration(turn.worked_microseconds / 1_000_000)
            title = _("Model answer of version %(version)s, %(duration)s") % {"version": turn.version, "duration": took}
            for start, end in turn.periods_of_work:
                x = scale.convert_to_x(start)
                yield ModelTurn(x, round(max(3.0, scale.convert_to_x(end) - x), 1), turn.version, title)


def _compute_bar_layout(stretch: Stretch, x: float, y: float, scale: _LogScale, places: Sequence[float]) -> Bar:
    width = max(_LEAST, scale.convert_to_x(max(stretch.end, stretch.start)) - x)
    after = bisect_right(places, x)
    next_x = places[after] if after < len(places) else WIDTH
    x = min(x, WIDTH - width)
    tool = mask_and_format_tool_name(stretch.tool)
    took = formatting.format_duration(max(0, stretch.end - stretch.start) / 1_000_000)
    labels: tuple[str, ...] = (tool,)
    if stretch.kind == "wait":
        labels = list_wait_label_candidates(took)
    title = str(_BAR_TITLES.get(stretch.kind, "%(tool)s: %(duration)s")) % {"tool": tool, "duration": took}
    if stretch.has_one_time:
        title = f"{tool}: {get_item_texts_in_current_language().outcomes[stretch.kind]}"
    label, is_beside = _choose_bar_label_and_side(labels, min(width, next_x - x), next_x - x - width)
    label_x = round(x + width + 5 if is_beside else x + 6, 1)
    return Bar(stretch.kind, x, y, round(width, 1), label, label_x, is_beside, title, stretch.call_pk)


def _choose_bar_label_and_side(labels: Sequence[str], inside_room: float, outside_room: float) -> tuple[str, bool]:
    """Choose the longest label that fits into the bar, else the longest one that fits beside it."""
    for room, is_outside in ((inside_room, False), (outside_room, True)):
        for label in labels:
            if sum(_WIDTHS_OF_LETTERS.get(letter, _LETTER) for letter in label) + 12 <= room:
                return label, is_outside
    return "", False


def _format_lane_title(lane: Lane) -> str:
    title = format_title_of_lane_without_process_or_none(lane)
    if title is not None:
        return title
    run, takeover = lane.run, lane.takeover
    values = {"number": run.number, "host": mask_and_reveal_hidden(run.host)}
    if takeover is None:
        status = status_and_decision_labels.get_status_shape_and_label(run.status)[1]
        return _("Run %(number)s on %(host)s: %(status)s") % {**values, "status": status}
    values["time"] = formatting.format_utc_time(takeover.at)
    if takeover.seen_at is None:
        return _("Run %(number)s on %(host)s: its session was taken over at %(time)s.") % values
    values["seen"] = formatting.format_utc_time(takeover.seen_at)
    return (
        _(
            "Run %(number)s on %(host)s: its session was taken over at %(time)s, although it gave signs of life until "
            "%(seen)s."
        )
        % values
    )


def _describe_lane(lane: Lane) -> str:
    """Describe a lane for screen readers, in whole sentences."""
    lost, waits = (sum(stretch.kind == kind for stretch in lane.stretches) for kind in ("lost", "wait"))
    calls = sum(stretch.kind != "wait" for stretch in lane.stretches)
    status = (
        _("Taken over") if lane.takeover else status_and_decision_labels.get_status_shape_and_label(lane.run.status)[1]
    )
    run_sentence = ngettext(
        "Run %(number)s (%(status)s) made %(calls)s tool call.",
        "Run %(number)s (%(status)s) made %(calls)s tool calls.",
        calls,
    ) % {"number": lane.run.number, "status": status, "calls": calls}
    is_run = not lane.run.stands_for_fork and not lane.run.is_outside_of_runs
    sentences = [run_sentence if is_run else _format_lane_title(lane)]
    if lost:
        sentence = ngettext(
            "The outcome of %(count)s call is unknown.", "The outcome of %(count)s calls is unknown.", lost
        )
        sentences.append(sentence % {"count": lost})
    if waits:
        sentences.append(_("The run waited for a decision."))
    return " ".join(sentences)
