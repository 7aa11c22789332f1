"""Charts with one bar or point for each step of a period. Shapes are in SVG units, texts are outside the drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor, log, log10
from typing import Final

from django.utils import timezone
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from harness_site.core.formatting import (
    convert_to_zone,
    format_day,
    format_day_with_weekday,
    format_duration,
    format_duration_rounded_up,
    format_number,
)
from harness_site.overview.period_totals import SessionTotals, WaitingTimes
from harness_site.overview.periods import Period
from harness_site.sessions.money_and_count_formatting import format_count, format_money

WIDTH: Final = 700
HEIGHT: Final = 160
#: Maximum number of values of a line that are drawn as dots.
MOST_DOTS: Final = 31
#: Names of the lists that bars link to.
SESSIONS: Final = "harness_sessions:sessions"
CALLS: Final = "harness:calls-log"
DECISIONS: Final = "harness_review:review"
#: Filters of these lists that select what the bars count.
STARTED_QUERY: Final = "sort=started"
FAILED_QUERY: Final = "status=failed&sort=started"
INTERRUPTED_QUERY: Final = "interrupted=1"
DECIDED_QUERY: Final = "tab=decided&by=people"
#: Largest number of labels of a time axis of hours, and of one of days, which are wider.
_HOUR_LABELS: Final = 6
_DAY_LABELS: Final = 4
#: Distances of the labels of hours; each divides a day evenly.
_HOURS_BETWEEN_LABELS: Final = (1, 2, 3, 4, 6, 8, 12, 24)
#: Width of a label of the time axis in percent of the narrowest chart.
_LABEL_PERCENT: Final = 18
#: Part of a step that its bar fills.
_FILLED: Final = 0.72
#: Minimum height of a bar for a non-zero value.
_MIN_BAR_HEIGHT: Final = 2.0
#: Part of the highest bar that the others have to stay below for the axis to be cut above them.
_PART_THAT_IS_FLAT: Final = 1 / 6
#: Minimum number of bars with a value that a cut axis shows to scale, and maximum number of bars that it cuts.
_MIN_BARS_TO_SCALE: Final = 3
_MAX_CUT_BARS: Final = 3
#: Heights above the axis of what is drawn of a bar that is cut, of the middle of its gap, of the gap, and of its slope.
_HEIGHT_OF_CUT_END: Final = 18
_HEIGHT_OF_GAP_ABOVE_AXIS: Final = 8
_GAP: Final = 5
_GAP_SLOPE: Final = 6
#: Durations in seconds at the lines of a logarithmic axis: most decisions take minutes, and a few take days.
_DURATIONS: Final = (1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A part of a bar, of one kind."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of one step. `query` selects what it counts; `x` to `width` is the drawn part of the step.

    `incomplete_until` is the time of the drawing if the step is not over yet, else empty. A bar that `is_cut` is higher
    than the axis: it ends above the axis, with a white mark across it, and its pieces have the proportions of the whole
    bar.
    """

    step_x: float
    step_width: float
    x: float
    width: float
    pieces: tuple[BarPiece, ...]
    title: str
    query: str
    is_cut: bool = False
    incomplete_until: str = ""

    @property
    def cut_mark_polygon_points(self) -> str:
        """Corners of the slanted white mark across a bar that is cut, which reaches beyond its sides."""
        left, right = round(self.x - 1, 2), round(self.x + self.width + 1, 2)
        low, high = (-_HEIGHT_OF_GAP_ABOVE_AXIS + sign * _GAP_SLOPE / 2 for sign in (1, -1))
        corners = ((left, low), (right, high), (right, high - _GAP), (left, low - _GAP))
        return " ".join(f"{x:g},{y:g}" for x, y in corners)


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """Label of a step, below the axis or above a bar that is cut; `percent` is its place in the width."""

    percent: float
    text: str

    @property
    def x(self) -> str:
        return {"start": "0%", "end": "100%", "middle": f"{self.percent:.2f}%"}[self.text_anchor]

    @property
    def text_anchor(self) -> str:
        """Part of the text that is at `x`: labels near the edges do not reach beyond the drawing."""
        at_edge = _LABEL_PERCENT / 2
        return "start" if self.percent < at_edge else "end" if self.percent > 100 - at_edge else "middle"


@dataclass(frozen=True, slots=True)
class Line:
    """Line through all values: the points of a polyline, and the path of the values that are drawn as dots."""

    points: str
    dots: str


@dataclass(frozen=True, slots=True)
class Chart:
    """`ticks` are the labels of the value axis from top to bottom, at equal distances; `labels` are those of the time
    axis in `zone`. A logarithmic value axis `is_logarithmic`; `line` is None in a chart of bars alone.

    `cut_labels` are the values of the bars that are higher than the axis.

    `list_name` is the URL name of the list that the bars link to.
    """

    list_name: str
    bars: tuple[Bar, ...]
    ticks: tuple[str, ...]
    labels: tuple[AxisLabel, ...]
    zone: str
    line: Line | None = None
    is_logarithmic: bool = False
    cut_labels: tuple[AxisLabel, ...] = ()

    @property
    def incomplete_until(self) -> str:
        """Time until which the last bar counts, if its step is not over and it has a value; else empty."""
        return next((bar.incomplete_until for bar in self.bars if bar.incomplete_until and bar.pieces), "")

    @property
    def view_box(self) -> str:
        return f"0 0 {WIDTH} {HEIGHT}"

    @property
    def grid_path(self) -> str:
        """Path of the lines at the labels of the value axis."""
        distance = (HEIGHT - 1) / (len(self.ticks) - 1)  # half a unit inside of each edge
        return "".join(f"M0 {0.5 + number * distance:g}H{WIDTH}" for number in range(len(self.ticks)))

    @property
    def is_empty(self) -> bool:
        """Whether no step has a value."""
        return not self.piece_kinds

    @property
    def piece_kinds(self) -> set[str]:
        """The kinds of the pieces that are drawn, which the legend names."""
        return {piece.kind for bar in self.bars for piece in bar.pieces}


def draw_session_outcome_chart(period: Period, steps: Sequence[tuple[datetime, SessionTotals]]) -> Chart:
    """Draw the sessions that started in each step by their outcome."""
    amounts = [
        (
            ("ok", totals.completed),
            ("bad", totals.failed),
            ("wait", totals.undecided),
            ("ready", totals.ready),
            ("cancelled", totals.cancelled),
            ("run", totals.other_sessions),
        )
        for _step, totals in steps
    ]
    titles = [
        _(
            "%(time)s: %(sessions)s started; %(completed)s completed; %(failed)s failed; %(undecided)s need a decision;"
            " %(ready)s ready to resume; %(cancelled)s cancelled; %(others)s running, paused or idle"
        )
        % {
            "time": format_step_of_period(period, step),
            "sessions": format_count(totals.sessions),
            "completed": format_count(totals.completed),
            "failed": format_count(totals.failed),
            "undecided": format_count(totals.undecided),
            "ready": format_count(totals.ready),
            "cancelled": format_count(totals.cancelled),
            "others": format_count(totals.other_sessions),
        }
        for step, totals in steps
    ]
    link = SESSIONS, STARTED_QUERY
    return _draw_bar_chart(period, [step for step, _totals in steps], amounts, titles, link, format_count)


def draw_failed_sessions_chart(period: Period, steps: Sequence[tuple[datetime, SessionTotals]]) -> Chart:
    amounts = [(("bad", totals.failed),) for _step, totals in steps]
    titles = [
        ngettext("%(time)s: %(number)s session failed", "%(time)s: %(number)s sessions failed", totals.failed)
        % {"time": format_step_of_period(period, step), "number": format_count(totals.failed)}
        for step, totals in steps
    ]
    link = SESSIONS, FAILED_QUERY
    return _draw_bar_chart(period, [step for step, _totals in steps], amounts, titles, link, format_count)


def draw_interrupted_calls_chart(period: Period, steps: Sequence[tuple[datetime, int]]) -> Chart:
    amounts = [(("hatched", number),) for _step, number in steps]
    titles = [
        ngettext("%(time)s: %(number)s call was interrupted", "%(time)s: %(number)s calls were interrupted", number)
        % {"time": format_step_of_period(period, step), "number": format_count(number)}
        for step, number in steps
    ]
    link = CALLS, INTERRUPTED_QUERY
    return _draw_bar_chart(period, [step for step, _number in steps], amounts, titles, link, format_count)


def draw_cost_chart(period: Period, steps: Sequence[tuple[datetime, SessionTotals]]) -> Chart:
    amounts = [(("cost", float(totals.cost)),) for _step, totals in steps]
    titles = [f"{format_step_of_period(period, step)}: {format_money(totals.known_cost)}" for step, totals in steps]
    link = SESSIONS, STARTED_QUERY
    return _draw_bar_chart(period, [step for step, _totals in steps], amounts, titles, link, _format_dollars)


def draw_waiting_times_chart(period: Period, steps: Sequence[tuple[datetime, WaitingTimes]]) -> Chart:
    """Draw the median of the time from a question to its decision as a line, and a band up to the 95th percentile."""
    seconds = [value for _step, waits in steps for value in (waits.median, waits.p95) if value is not None]
    marks = _choose_duration_axis_marks(min(seconds, default=60), max(seconds, default=3_600))
    medians = [_compute_duration_share_of_axis(waits.median, marks) for _step, waits in steps]
    bands = [
        _build_band_from_median_to_p95(median, _compute_duration_share_of_axis(waits.p95, marks))
        for median, (_step, waits) in zip(medians, steps, strict=True)
    ]
    titles = [_describe_waiting_times(format_step_of_period(period, step), waits) for step, waits in steps]
    bars = _build_positioned_bars(period, [step for step, _waits in steps], bands, titles, DECIDED_QUERY)
    ticks = tuple(format_duration_rounded_up(mark) if mark else "0" for mark in reversed(marks))
    labels, zone = build_time_axis_labels(period), format_axis_zone(period)
    return Chart(DECISIONS, bars, ticks, labels, zone, _draw_line(medians), is_logarithmic=bool(marks[0]))


def _build_band_from_median_to_p95(median: float | None, p95: float | None) -> tuple[BarPiece, ...]:
    """Build the band between two heights, which are parts of the height of the drawing."""
    if median is None or p95 is None:
        return ()
    top = round(HEIGHT - p95 * HEIGHT, 1)
    return (BarPiece("p95", top, max(round(HEIGHT - median * HEIGHT - top, 1), _MIN_BAR_HEIGHT)),)


def _choose_duration_axis_marks(shortest: float, longest: float) -> Sequence[int]:
    """Choose the lines of the axis: from the last one that is not above `shortest` to the first not below `longest`.

    If these are neighbours, the axis is a linear one from 0, so that alike durations are not all at its lower end.
    """
    first = max((number for number, line in enumerate(_DURATIONS) if line <= shortest), default=0)
    last = next((number for number, line in enumerate(_DURATIONS) if line >= longest), len(_DURATIONS) - 1)
    if last - first > 1:
        return _DURATIONS[first : last + 1]
    unit = next((unit for unit in (86_400, 3_600, 60) if longest >= unit), 1)
    top = int(_round_up_to_axis_end(longest / unit, whole=True)) * unit
    return 0, top // 2, top


def _compute_duration_share_of_axis(seconds: float | None, lines: Sequence[int]) -> float | None:
    """Compute the height of a duration on the axis, from 0 to 1; the lines are at equal distances."""
    if seconds is None:
        return None
    if not lines[0]:
        return seconds / lines[-1]
    value = min(max(seconds, lines[0]), lines[-1])
    below = max(number for number, line in enumerate(lines[:-1]) if line <= value)
    return (below + log(value / lines[below]) / log(lines[below + 1] / lines[below])) / (len(lines) - 1)


def _describe_waiting_times(time: str, waits: WaitingTimes) -> str:
    """Describe how many decisions there were, and how long their calls waited."""
    if not waits.decisions:
        return _("%(time)s: no decision") % {"time": time}
    if waits.decisions == 1:
        return _("%(time)s: 1 decision; after %(median)s") % {
            "time": time,
            "median": format_duration(waits.median or 0),
        }
    values = {
        "time": time,
        "number": format_count(waits.decisions),
        "median": format_duration_rounded_up(waits.median or 0),
        "p95": format_duration_rounded_up(waits.p95 or 0),
    }
    return _("%(time)s: %(number)s decisions; half of them within %(median)s; 95 %% within %(p95)s") % values


def format_step_of_period(period: Period, step: datetime) -> str:
    """Format a step: the start of an hour, or the days."""
    return _format_step_of_period_in_language(period, step, get_language())


@lru_cache(maxsize=1_000)
def _format_step_of_period_in_language(period: Period, step: datetime, _language: str | None) -> str:
    """Format it once for a step in the current language, as the titles of several charts have it."""
    local = convert_to_zone(step, period.zone)
    if period.has_hourly_steps:
        return f"{local:%H:%M}"
    first, last = local.date(), period.get_last_day_of_step(step)
    if first == last:
        return format_day_with_weekday(first)
    return _("%(first)s to %(last)s") % {"first": format_day(first), "last": format_day(last)}


def format_axis_zone(period: Period) -> str:
    """Return the abbreviated time zone of the steps, at the end of the period."""
    return f"{convert_to_zone(period.end, period.zone):%Z}"


def build_time_axis_labels(period: Period) -> tuple[AxisLabel, ...]:
    """Build labels for the time axis: of days at equal distances back from the last one, or of round hours and now."""
    steps = [convert_to_zone(step, period.zone) for step in period.step_starts]
    if period.has_hourly_steps:
        return tuple(_build_hour_labels(steps))
    distance = ceil(len(steps) / _DAY_LABELS)
    return tuple(
        AxisLabel((index + 0.5) / len(steps) * 100, format_day(step.date()))
        for index, step in enumerate(steps)
        if (len(steps) - 1 - index) % distance == 0
    )


def _build_hour_labels(steps: Sequence[datetime]) -> Iterator[AxisLabel]:
    """Build labels of hours that divide the local day evenly, and one for the end, without those too near an edge."""
    distance = next(hours for hours in _HOURS_BETWEEN_LABELS if len(steps) <= hours * _HOUR_LABELS)
    for index, step in enumerate(steps):
        label = AxisLabel((index + 0.5) / len(steps) * 100, f"{step:%H:%M}")
        if step.hour % distance == 0 and label.text_anchor == "middle" and label.percent <= 100 - _LABEL_PERCENT:
            yield label
    yield AxisLabel(100, _("now"))


def _format_dollars(amount: float) -> str:
    return (
        format_money(Decimal(str(round(amount, 2 if amount >= 1 else 4))))
        if amount
        else _("$%(amount)s") % {"amount": format_number(0)}
    )


def _draw_bar_chart(
    period: Period,
    steps: Sequence[datetime],
    amounts: Sequence[Sequence[tuple[str, float]]],
    titles: Sequence[str],
    link: tuple[str, str],
    format_amount: Callable[..., str],
) -> Chart:
    """Draw bars that link to a list; `link` is its URL name and the filter of what the bars count."""
    list_name, query = link
    sums = [float(sum(amount for _kind, amount in parts)) for parts in amounts]
    top = _round_up_to_axis_end(_find_highest_value_to_scale(sums), whole=format_amount is format_count)
    pieces = [
        _stack_bar_pieces(parts, value, HEIGHT + _HEIGHT_OF_CUT_END)
        if value > top
        else _stack_bar_pieces(parts, top, HEIGHT)
        for parts, value in zip(amounts, sums, strict=True)
    ]
    ticks = tuple(format_amount(_convert_to_int_if_whole(value)) for value in (top, top / 2, 0))
    bars = [
        replace(bar, is_cut=value > top)
        for bar, value in zip(_build_positioned_bars(period, steps, pieces, titles, query), sums, strict=True)
    ]
    values = [format_amount(_convert_to_int_if_whole(value)) if value > top else "" for value in sums]
    labels, zone = build_time_axis_labels(period), format_axis_zone(period)
    return Chart(list_name, tuple(bars), ticks, labels, zone, cut_labels=tuple(_build_cut_labels(values)))


def _find_highest_value_to_scale(values: Sequence[float]) -> float:
    """Return the highest value that the axis has to reach: of all values, or of those without a few far higher ones.

    One day with a hundred times as many sessions as the others would make their bars too flat to be compared.
    """
    highest_first = sorted((value for value in values if value > 0), reverse=True)
    most_cut = min(max(1, len(highest_first) // 10), _MAX_CUT_BARS, len(highest_first) - _MIN_BARS_TO_SCALE)
    for value in highest_first[1 : most_cut + 1]:
        if value < highest_first[0] * _PART_THAT_IS_FLAT:
            return value
    return max(highest_first, default=0.0)


def _build_cut_labels(values: Sequence[str]) -> Iterator[AxisLabel]:
    """Build labels of the steps whose value is not empty. Labels that would overlap become one, in the same order."""
    places: list[tuple[list[float], list[str]]] = []
    for index, value in enumerate(values):
        percent = (index + 0.5) / len(values) * 100
        if value and places and percent - places[-1][0][-1] < _LABEL_PERCENT:
            places[-1][0].append(percent)
            places[-1][1].append(value)
        elif value:
            places.append(([percent], [value]))
    for percents, texts in places:
        yield AxisLabel(sum(percents) / len(percents), " · ".join(texts))


def _convert_to_int_if_whole(value: float) -> float:
    return int(value) if value == int(value) else value


def _round_up_to_axis_end(highest: float, *, whole: bool) -> float:
    """Round the highest value up to an end of the axis whose half is a round number, too."""
    if highest <= 0:
        return 2.0
    unit = 10 ** floor(log10(highest))
    top = next(factor * unit for factor in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if factor * unit >= highest)
    return max(top, 2.0 * ceil(top / 2)) if whole else float(top)


def _build_positioned_bars(
    period: Period,
    steps: Sequence[datetime],
    pieces: Sequence[tuple[BarPiece, ...]],
    titles: Sequence[str],
    query: str,
) -> tuple[Bar, ...]:
    width = WIDTH / max(1, len(steps))
    now = timezone.now()
    is_last_incomplete = period.step_starts[-1] <= now < period.end
    until = f"{convert_to_zone(now, period.zone):%H:%M}"
    incomplete = [until if is_last_incomplete and step == period.step_starts[-1] else "" for step in steps]
    return tuple(
        Bar(
            step_x=round(index * width, 2),
            step_width=round(width, 2),
            x=round((index + (1 - _FILLED) / 2) * width, 2),
            width=round(width * _FILLED, 2),
            pieces=pieces[index],
            title=_describe_incomplete_step(titles[index], incomplete[index]),
            incomplete_until=incomplete[index],
            query=f"{period.build_query_string_of_chart_step(step)}&{query}",
        )
        for index, step in enumerate(steps)
    )


def _describe_incomplete_step(title: str, until: str) -> str:
    """Add to the title of a bar until when it counts, if its step is not over."""
    return _("%(title)s (not over yet: until %(time)s)") % {"title": title, "time": until} if until else title


def _stack_bar_pieces(parts: Sequence[tuple[str, float]], top: float, height: float) -> tuple[BarPiece, ...]:
    """Stack a piece for each kind with a value on the axis, where the value `top` is as high as `height`.

    Each of them is high enough to be seen; the highest one is as much lower if they would be higher than `height`.
    """
    kinds = [kind for kind, amount in parts if amount > 0]
    heights = [max(amount / top * height, _MIN_BAR_HEIGHT) for _kind, amount in parts if amount > 0]
    if (excess := sum(heights) - height) > 0:
        heights[heights.index(max(heights))] -= excess
    pieces, bottom = [], float(HEIGHT)
    for kind, piece_height in zip(kinds, heights, strict=True):
        bottom -= piece_height
        pieces.append(BarPiece(kind, round(bottom, 1), round(piece_height, 1)))
    return tuple(pieces)


def _draw_line(heights: Sequence[float | None]) -> Line:
    """Draw a line through the values of the steps that have one, and a dot for each of them, unless there are many.

    `heights` are parts of the height of the drawing.
    """
    width = WIDTH / max(1, len(heights))
    points = [
        (round((index + 0.5) * width, 1), round(HEIGHT - height * HEIGHT, 1))
        for index, height in enumerate(heights)
        if height is not None
    ]
    dots = "".join(f"M{x} {y}h0" for x, y in points) if len(heights) <= MOST_DOTS else ""
    return Line(" ".join(f"{x},{y}" for x, y in points), dots)
