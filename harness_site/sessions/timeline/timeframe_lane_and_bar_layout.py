"""Layout of a timeframe: a lane for each run, bars for durations, signs for moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.call_sentences import mask_and_format_tool_name
from harness_site.core.epoch_microseconds import convert_to_datetime
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.sessions.timeline import bar_packing
from harness_site.sessions.timeline.bar_packing import PackedBar
from harness_site.sessions.timeline.list_timeline_items import (
    END,
    START,
    ItemTexts,
    RunItems,
    TimelineItem,
    build_timeline_item,
    count_occurrences_by_kind,
    format_lane_name,
    format_title_of_lane_without_process_or_none,
    get_item_texts_in_current_language,
    list_wait_label_candidates,
)
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import Stretch
from harness_site.sessions.timeline.selectors.timeframe_contents import (
    Occurrence,
    PeerWait,
    RunCourse,
    StoredResult,
    Timeframe,
)
from harness_site.sessions.timeline.time_axis import Axis, AxisBreak, AxisLabel

#: Width of the drawing on a wide screen and on a phone.
WIDTHS: Final = (1040, 350)
LEFT = 50
#: Space to the right of the last moment.
MARGIN = 16
TOP = 30
#: Heights of the rows of a lane.
_TURN = 16
_CALL = 16
_SIGNS = 26
#: Height below the number of a group, for the edge that marks the failures in it.
_EDGE = 8
_BETWEEN = 3
_LANE_GAP = 14
#: Width of one letter, to test whether a label fits.
_LETTER = 7.0
#: The same of a bold label, which only calls with an unknown outcome have.
_BOLD_LETTER = 8.0
#: Space of a bar beside the letters of its label, and width of a bar below which not even one letter fits.
_LABEL_MARGIN: Final = 6
_MIN_LABELLED_WIDTH: Final = _LETTER + _LABEL_MARGIN
#: Maximum number of rows of calls in a lane: each tool has one, the rarest share the last one.
_MAX_CALL_ROWS: Final = 8
#: Largest number of letters of the name of a lane or of a tool, and of one on a phone.
_LONGEST_NAME: Final = 20
_LONGEST_NAME_ON_PHONE: Final = 11
#: Smallest number of letters of a shortened label.
_SHORTEST_LABEL = 5
#: Largest number of characters of a shortened label, for which the whole drawing has room.
_LONGEST_LABEL = 160
#: Half the width of a sign and of a version mark.
_SIGN = 6.0
_MARK = 3.0
#: Kinds of bars of time in which nothing went on.
_IDLE_KINDS: Final = ("wait", "peer", "replay")
_GRAVE: Final = ("lost", "failed", "crash", "takeover")
#: Kinds of bars in the legend, by style.
_BARS: Final = (
    "model",
    "tools",
    "agents",
    "turn",
    "ran",
    "failed",
    "lost",
    "unanswered",
    "running",
    "replay",
    "wait",
    "peer",
)
_SIGN_KINDS: Final = ("crash", "takeover", "pause", "taken", "verified", "vote", "decision", "version")


@dataclass(frozen=True, slots=True)
class Bar:
    """One item, or `count` merged ones, drawn as their most frequent kind.

    `grave` is the most severe kind of failure among them if it is a different one. A single item has a link. `label`
    begins at `label_x`.
    """

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
    item: TimelineItem | None
    since: datetime
    until: datetime

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True)
class RowName:
    """Name of a row of calls, to the left of it; `title` is the whole name."""

    text: str
    title: str
    y: float


@dataclass(frozen=True, slots=True)
class Lane:
    """Layout of one run; `life` is the y position of its line and its signs. `rows` names the rows of its calls.

    The line of a lost run is solid until its last sign of life, and dashed from there to `silent_until`. A fork
    operation has no line.
    """

    name: str
    title: str
    y: float
    x: float
    width: float
    life: float
    silent_until: float | None
    lost: bool
    has_line: bool
    rows: tuple[RowName, ...]
    bars: tuple[Bar, ...]
    signs: tuple[Bar, ...]
    versions: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Layout of a timeframe.

    `words` describes it for screen readers; `grouped` counts the items in merged bars and signs, which show a number.
    """

    lanes: tuple[Lane, ...]
    axis: Axis
    width: int
    height: float
    breaks: tuple[AxisBreak, ...]
    labels: tuple[AxisLabel, ...]
    words: str
    grouped: int
    bars: tuple[tuple[str, str], ...]
    signs: tuple[tuple[str, str], ...]

    @property
    def has_runs_not_lost(self) -> bool:
        """Return whether a grey line is drawn: a run from its start to its end."""
        return any(lane.has_line and not lane.lost for lane in self.lanes)

    @property
    def has_lost_runs(self) -> bool:
        return any(lane.lost for lane in self.lanes)

    @property
    def has_silent_runs(self) -> bool:
        """Return whether a lost run had given no sign of life for a while when the loss was noticed."""
        return any(lane.silent_until is not None for lane in self.lanes)

    @property
    def has_groups_with_failures(self) -> bool:
        """Return whether a group has a coloured edge, because some of its items failed."""
        return any(bar.grave for lane in self.lanes for bar in (*lane.bars, *lane.signs))


def compute_timeframe_layout(
    frame: Timeframe, items_by_run: Sequence[RunItems], width: int = WIDTHS[0], *, names_beside: Collection[str] = ()
) -> Drawing:
    """Lay out a timeframe; `items_by_run` has the items of each of its runs.

    Other drawings on the same axis have room for `names_beside` to the left of it.
    """
    longest = _LONGEST_NAME if width == WIDTHS[0] else _LONGEST_NAME_ON_PHONE
    call_rows = [_group_calls_into_rows(run_items.calls, longest) for run_items in items_by_run]
    instants = _iterate_timeframe_instants(frame.courses, items_by_run)
    names = [shorten_text(format_lane_name(run_course.lane), longest) for run_course in frame.courses]
    names_of_rows = (row.text for rows in call_rows for row in rows)
    left = max([LEFT, *(len(name) * _LETTER + 8 for name in chain(names, names_of_rows, names_beside))])
    axis = Axis(
        instants,
        frame.since,
        frame.until,
        left=left,
        right=width - MARGIN,
        busy=_iterate_call_periods(items_by_run),
        answering=_iterate_turn_periods(items_by_run),
    )
    texts = get_item_texts_in_current_language()
    lanes: list[Lane] = []
    y = float(TOP)
    for run_course, run_items, rows, name in zip(frame.courses, items_by_run, call_rows, names, strict=True):
        lane, y = _compute_lane_layout_and_next_y(run_course, run_items, rows, name, axis, y, texts)
        lanes.append(lane)
    kinds = count_occurrences_by_kind(entry for run_items in items_by_run for row in run_items.rows for entry in row)
    return Drawing(
        lanes=tuple(lanes),
        axis=axis,
        width=width,
        height=y,
        breaks=axis.breaks,
        labels=axis.build_labels(),
        words=_describe_timeframe(kinds, frame, texts),
        grouped=sum(bar.count for lane in lanes for bar in (*lane.bars, *lane.signs) if bar.count > 1),
        bars=tuple((kind, _get_legend_label_of_bars(kind, texts)) for kind in _BARS if kind in kinds),
        signs=tuple((kind, texts.kinds[kind]) for kind in _SIGN_KINDS if kind in kinds),
    )


def _get_legend_label_of_bars(kind: str, texts: ItemTexts) -> str:
    if kind == "replay":
        return _("Stored result given again, nothing ran")
    return texts.kinds[kind]


def _iterate_timeframe_instants(courses: Iterable[RunCourse], runs: Iterable[RunItems]) -> Iterator[int]:
    """Return when anything happened, also the last sign of life of a lost run; that of one that goes on is no event."""
    lanes = [run_course.lane for run_course in courses]
    starts, ends = (lane.start for lane in lanes), (lane.end for lane in lanes if lane.run.ended_at is not None)
    seen = (lane.seen_until for lane in lanes if lane.seen_until is not None)
    rows = [row for run_items in runs for row in run_items.rows]
    return chain(starts, ends, seen, *(map(START, row) for row in rows), *(map(END, row) for row in rows))


def _iterate_turn_periods(runs: Iterable[RunItems]) -> Iterator[tuple[int, int]]:
    for run_items in runs:
        for turn in run_items.turns:
            yield from turn.periods_of_work


def _iterate_call_periods(runs: Iterable[RunItems]) -> Iterator[tuple[int, int]]:
    for run_items in runs:
        yield from ((call.start, call.end) for call in run_items.calls if call.kind not in _IDLE_KINDS)


@dataclass(frozen=True, slots=True)
class _CallRow:
    """Calls that have one row. It names their tool, unless they are of several ones."""

    text: str
    title: str
    calls: Sequence[Stretch | PeerWait | StoredResult | Turn]
    has_one_name: bool


def _group_calls_into_rows(calls: Sequence[Stretch | PeerWait | StoredResult | Turn], longest: int) -> list[_CallRow]:
    """Group the calls of a run by their tool, in the order of their first calls."""
    by_name: dict[str, list[Stretch | PeerWait | StoredResult | Turn]] = {}
    for call in calls:
        by_name.setdefault(_get_called_name(call), []).append(call)
    names = sorted(filter(None, by_name), key=lambda name: -len(by_name[name]))
    limit = _MAX_CALL_ROWS - bool("" in by_name)
    rare = set(names[limit - 1 :] if len(names) > limit else ())
    rows = [
        _build_named_call_row(name, row_calls, longest)
        for name, row_calls in by_name.items()
        if name and name not in rare
    ]
    of_rare = [call for call in calls if _get_called_name(call) in rare] if rare else []
    for title, row_calls in ((_("several tools"), by_name.get("", [])), (_("other tools"), of_rare)):
        if row_calls:
            rows.append(_CallRow(shorten_text(title, longest), title, row_calls, has_one_name=False))
    return rows


def _get_called_name(call: Stretch | PeerWait | StoredResult | Turn) -> str:
    """Return the tool or the agent that was called; calls that may be of several tools have no name."""
    if isinstance(call, PeerWait):
        return call.peer
    if isinstance(call, Turn):
        tools = set(call.contents.tools) if call.contents else set()
        return tools.pop() if len(tools) == 1 else ""
    if isinstance(call, StoredResult):
        return call.tool
    return call.tool if call.number == 1 else ""


def _build_named_call_row(
    name: str, calls: Sequence[Stretch | PeerWait | StoredResult | Turn], longest: int
) -> _CallRow:
    tool, title = mask_and_format_tool_name(name), mask_and_reveal_hidden(name)
    return _CallRow(shorten_text(tool, longest), title if title.endswith(tool) else tool, calls, has_one_name=True)


def _compute_lane_layout_and_next_y(
    run_course: RunCourse,
    run_items: RunItems,
    call_rows: Sequence[_CallRow],
    name: str,
    axis: Axis,
    y: float,
    texts: ItemTexts,
) -> tuple[Lane, float]:
    """Lay out a lane; return it with the y position of the next lane."""
    run = run_course.lane.run
    items = _RunItemsLayout(axis, run_items.run, texts)
    turns, below = items.compute_bar_layouts_and_next_y(list(_split_turns_at_waits(run_items.turns)), y, _TURN)
    calls: list[Bar] = []
    row_names: list[RowName] = []
    for row in call_rows:
        row_names.append(RowName(row.text, row.title, below))
        parts = list(_split_turns_at_waits(row.calls))
        bars, below = items.compute_bar_layouts_and_next_y(parts, below, _CALL, is_named=row.has_one_name)
        calls += bars
    begin, end = (
        axis.convert_to_x(run_course.lane.start),
        axis.convert_to_x(max(run_course.lane.end, run_course.lane.start)),
    )
    seen = end if run_course.lane.seen_until is None else min(end, axis.convert_to_x(run_course.lane.seen_until))
    width = round(max(bar_packing.MIN_BAR_WIDTH, seen - begin), 1)
    life = round(below + _SIGNS / 2, 1)
    state = (
        _("Taken over")
        if run_course.lane.takeover
        else status_and_decision_labels.get_status_shape_and_label(run.status)[1]
    )
    lane = Lane(
        name=name,
        title=format_title_of_lane_without_process_or_none(run_course.lane)
        or _("Run %(number)s on %(host)s: %(status)s")
        % {"number": run.number, "host": mask_and_reveal_hidden(run.host), "status": state},
        y=y,
        x=begin,
        width=width,
        life=life,
        silent_until=end if end > begin + width else None,
        lost=run.status == "lost",
        has_line=not run.stands_for_fork,
        rows=tuple(row_names),
        bars=(*turns, *calls),
        signs=tuple(items.compute_sign_layouts(run_items.signs, life, _SIGN)),
        versions=tuple(items.compute_sign_layouts(run_items.versions, life, _MARK)),
    )
    return lane, below + _SIGNS + _LANE_GAP


class _RunItemsLayout:
    """Layout of the items of one run, whose number is `run`."""

    def __init__(self, axis: Axis, run: int, texts: ItemTexts) -> None:
        self._axis, self._run, self._texts = axis, run, texts

    def compute_bar_layouts_and_next_y(
        self, entries: Sequence[Occurrence], y: float, height: float, *, is_named: bool = False
    ) -> tuple[list[Bar], float]:
        """Lay out bars from `y` downwards; return them with the y position below them.

        The bars of a row that `is_named` tell how long they took.
        """
        lefts = self._axis.convert_all_to_x(map(START, entries))
        rights = self._axis.convert_all_to_x(map(END, entries))
        bars: list[Bar] = []
        for row in bar_packing.pack_and_merge_bars_into_levels(zip(lefts, rights, entries, strict=True)):
            row_height = height + _EDGE if any(len(packed.items) > 1 for packed in row) else height
            limits = [*(following.x - bar_packing.GAP for following in row[1:]), self._axis.right]
            bars += (
                self._build_bar_of_occurrences(packed, y, row_height, self._axis.breaks, limit, is_named=is_named)
                for packed, limit in zip(row, limits, strict=True)
            )
            y += row_height + _BETWEEN
        return bars, y if bars else y + height + _BETWEEN

    def compute_sign_layouts(self, entries: Sequence[Occurrence], y: float, half: float) -> Iterator[Bar]:
        """Lay out signs; signs that would touch are merged into one with a count."""
        places = self._axis.convert_all_to_x(map(START, entries))
        bars = ((x - half, x + half, entry) for x, entry in zip(places, entries, strict=True))
        for row in bar_packing.pack_and_merge_bars_into_levels(bars, levels=1, small=float("inf")):
            for packed in row:
                yield self._build_bar_of_occurrences(packed, y - half, 2 * half, (), packed.right)

    def _build_bar_of_occurrences(
        self,
        packed: PackedBar[Occurrence],
        y: float,
        height: float,
        breaks: Sequence[AxisBreak],
        limit: float,
        *,
        is_named: bool = False,
    ) -> Bar:
        """Build a bar; a narrow one of a group becomes as wide as its number, unless that ends beyond the limit."""
        entries = packed.items
        first, width, letter = entries[0], packed.width, _LETTER
        labels: Sequence[str] = ()
        if len(entries) == 1 and not (isinstance(first, Stretch) and first.number > 1):
            count = 1
            item = build_timeline_item(first, self._run, self._texts)
            kind, grave, title = item.kind, "", item.title
            if isinstance(first, Turn) and first.whole is not None:  # the same words as in the list
                title = build_timeline_item(first.whole, self._run, self._texts).title
            if width >= _MIN_LABELLED_WIDTH:
                labels = _list_bar_label_candidates(item, self._texts, is_named=is_named)
            letter = _BOLD_LETTER if kind == "lost" else _LETTER
        else:
            kinds = count_occurrences_by_kind(entries)
            count = kinds.total()
            item, kind, labels = None, max(kinds, key=kinds.__getitem__), (f"{count}",)
            grave = next((bad for bad in _GRAVE if bad != kind and bad in kinds), "")
            title = _format_group_title(count, kinds, self._texts)
            if (right := packed.x + _compute_label_width(labels[0])) <= limit:
                packed.right = max(packed.right, right)
                width = packed.width
        label, label_x = _choose_bar_label_and_x(labels, packed.x, width, breaks, letter)
        return Bar(
            kind=kind,
            grave=grave,
            x=round(packed.x, 1),
            y=round(y, 1),
            width=width,
            height=height,
            label=label,
            label_x=label_x,
            count=count,
            title=title,
            item=item,
            since=convert_to_datetime(first.start),
            until=convert_to_datetime(max(map(END, entries))),
        )


def _split_turns_at_waits(
    entries: Iterable[Stretch | PeerWait | StoredResult | Turn],
) -> Iterator[Stretch | PeerWait | StoredResult | Turn]:
    """Yield turns and calls, and of turns that waited a part for each period of work."""
    for entry in entries:
        if isinstance(entry, Turn) and entry.waits:
            yield from (
                entry._replace(start=start, end=end, waits=(), saved=entry.saved_at, whole=entry)
                for start, end in entry.periods_of_work
            )
        else:
            yield entry


def _list_bar_label_candidates(item: TimelineItem, texts: ItemTexts, *, is_named: bool) -> tuple[str, ...]:
    """List the possible labels of a bar, the longest first."""
    if item.kind == "wait":
        return list_wait_label_candidates(formatting.format_duration(item.seconds))
    if is_named and item.kind == "replay":
        return (texts.kinds["replay"],)
    if is_named and item.version is not None:
        return (formatting.format_duration(item.seconds),)
    if item.short_names:
        return item.what, *item.short_names, *_list_beginnings(item.short_names[-1])
    if item.version is not None:
        return f"{texts.kinds[item.kind]} v{item.version}", f"v{item.version}"
    if is_named:
        outcomes = (texts.kinds["lost"],) if item.kind == "lost" else ()
        return *outcomes, *([formatting.format_duration(item.seconds)] if item.has_known_duration else [])
    return item.what, *_list_beginnings(item.what)


def _list_beginnings(name: str) -> tuple[str, ...]:
    """List how a name may be shortened, the longest first: no bar has room for more than `_LONGEST_LABEL`."""
    longest = min(len(name) - 2, _LONGEST_LABEL)
    return tuple(f"{name[:length]}…" for length in range(longest, _SHORTEST_LABEL - 2, -1))


def _choose_bar_label_and_x(
    labels: Sequence[str], x: float, width: float, breaks: Sequence[AxisBreak], letter: float
) -> tuple[str, float]:
    """Return the longest label with room in a part of the bar that no edge of a break crosses, and its x position."""
    if not labels:
        return "", round(x + 4, 1)
    edges = [
        edge
        for axis_break in breaks
        for edge in (axis_break.x, axis_break.x + axis_break.width)
        if x < edge < x + width
    ]
    start, end = max(pairwise([x, *edges, x + width]), key=lambda part: part[1] - part[0])
    label = next((label for label in labels if _compute_label_width(label, letter) <= end - start), "")
    return label, round(start + 4, 1)


def _compute_label_width(label: str, letter: float = _LETTER) -> float:
    """Return the width that a bar needs for a label whose letters are `letter` wide."""
    return len(label) * letter + _LABEL_MARGIN


def _describe_timeframe(kinds: Counter[str], frame: Timeframe, texts: ItemTexts) -> str:
    runs = len(frame.courses)
    sentence = ngettext(
        "Timeline of %(runs)s run from %(since)s to %(until)s (%(counts)s). The table below lists the same entries.",
        "Timeline of %(runs)s runs from %(since)s to %(until)s (%(counts)s). The table below lists the same entries.",
        runs,
    )
    return sentence % {
        "runs": runs,
        "since": formatting.format_utc_time(frame.since),
        "until": formatting.format_utc_time(frame.until),
        "counts": _format_item_counts(kinds, texts) or _("no entries"),
    }


def _format_group_title(count: int, kinds: Counter[str], texts: ItemTexts) -> str:
    return texts.sentences["group"] % {
        "count": formatting.format_number(count),
        "counts": _format_item_counts(kinds, texts),
    }


def _format_item_counts(kinds: Counter[str], texts: ItemTexts) -> str:
    """Format counts, most severe kinds first: “Failed: 2, Tool call: 40”."""
    counts = [
        f"{label}: {formatting.format_number(kinds[kind])}" for kind, label in texts.kinds.items() if kind in kinds
    ]
    return ", ".join(counts)
