"""Charts of numbers, one below the other on a common axis: of versions, or of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions import money_and_count_formatting
from harness_site.sessions.timeline.selectors.running_totals_by_version import RunningTotals, TotalsPoint
from harness_site.sessions.timeline.time_axis import Axis, AxisBreak, AxisLabel
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import TOP, Drawing

#: Size of one chart in its own units, and its plot area. A page stretches the width, so the chart has no text.
WIDTH = 960
HEIGHT = 92
_TOP = 8.0
_BOTTOM = 78.0
#: Distance of the first and of the last point from the edges.
_INSET = 6.0
#: Charts with more points have no dots.
_MAX_DOTS = 60
#: Height of a chart on an axis of time, its plot area, and the distance of the dots below which some are left out.
_STRIP_HEIGHT: Final = 66
_STRIP_TOP: Final = 8.0
_STRIP_BOTTOM: Final = 54.0
_DOTS_APART: Final = 8.0

Number = Decimal | int
#: Index of a point among all, the point, and its number.
Point: TypeAlias = tuple[int, TotalsPoint, Number]
#: Field of a point → heading of its chart, name of the number in a sentence, and its format.
_SHOWN: Final[dict[str, tuple[str | Promise, str | Promise, Callable[..., str]]]] = {
    "cost": (_("Cost"), _("cost"), money_and_count_formatting.format_money),
    "tokens": (_("Tokens"), _("tokens"), money_and_count_formatting.format_count),
    "messages": (_("Messages"), _("messages"), money_and_count_formatting.format_count),
}


@dataclass(frozen=True, slots=True)
class ChartDot:
    """One version; `left` and `width` are those of its hover area."""

    x: float
    y: float
    left: float
    width: float
    version: int
    title: str


@dataclass(frozen=True, slots=True)
class ValueAxisTick:
    """A line at a round number; `percent` is its place in the height of the chart, from the top."""

    y: float
    percent: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartStrip:
    """One chart with the newest value and the largest one, which is empty if it is the newest. It is drawn as steps.

    `line` and `area` are SVG paths; `words` describes the chart for screen readers. `ticks` begin at 0. `only_version`
    names the version if one alone states a value; it is empty otherwise.
    """

    name: str
    line: str
    area: str
    dots: tuple[ChartDot, ...]
    dotted_versions: frozenset[int]
    newest: str
    most: str
    words: str
    ticks: tuple[ValueAxisTick, ...]
    only_version: str
    hover_height: ClassVar[int] = 80
    is_stretched: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Chart:
    """Charts of a session; `missing` names the values that no version has."""

    strips: tuple[ChartStrip, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValueLabel:
    """The text beside a dot, which ends at `x` if `is_before` the dot, and begins there otherwise."""

    x: float
    y: float
    text: str
    is_before: bool


@dataclass(frozen=True, slots=True)
class TimeChartStrip:
    """One chart of a `TimeChart`, whose plot area begins at `y`. The total is drawn as steps: it changes at a version.

    `dots` has the hover areas of the versions; of versions that were saved together, one has a dot. `label` stands
    beside the dot of the only version that states a value.
    """

    name: str
    y: float
    line: str
    area: str
    dots: tuple[ChartDot, ...]
    dotted_versions: frozenset[int]
    newest: str
    words: str
    label: ValueLabel | None
    hover_height: ClassVar[int] = 54
    is_stretched: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Charts below a drawing, on its axis. `missing` names the values that no version has."""

    width: int
    height: float
    left: float
    right: float
    labels: tuple[AxisLabel, ...]
    breaks: tuple[AxisBreak, ...]
    strips: tuple[TimeChartStrip, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageDrop:
    """`version` has `count` messages fewer than `previous`, the version before it that is drawn."""

    previous: int
    version: int
    count: int


def list_message_drops(growth: RunningTotals) -> tuple[MessageDrop, ...]:
    return tuple(
        MessageDrop(before.version, after.version, before.messages - after.messages)
        for before, after in pairwise(growth.points)
        if after.messages < before.messages
    )


def list_headings_and_newest_values_beside_time_charts(growth: RunningTotals) -> tuple[str, ...]:
    """List the names and the numbers that stand to the left of the charts on an axis of time."""
    names: list[str] = []
    for heading, _name, format_value, points in _iterate_series(growth, tuple(_SHOWN)):
        if points:
            names += (heading, format_value(points[-1][2]))
    return tuple(names)


def compute_time_chart_layout(growth: RunningTotals, drawing: Drawing) -> TimeChart:
    """Lay out the charts of a session below a drawing of its runs, on the same axis."""
    strips: list[TimeChartStrip] = []
    missing: list[str] = []
    y = float(TOP)
    for field, (heading, name, format_value, points) in zip(
        _SHOWN, _iterate_series(growth, tuple(_SHOWN)), strict=True
    ):
        if points:
            before = getattr(growth.before, field, None)
            strips.append(_compute_time_chart_strip_layout(heading, points, format_value, drawing.axis, y, before))
            y += _STRIP_HEIGHT
        else:
            missing.append(name)
    axis = drawing.axis
    return TimeChart(
        drawing.width,
        y,
        round(axis.left, 1),
        round(axis.right, 1),
        drawing.labels,
        drawing.breaks,
        tuple(strips),
        tuple(missing),
    )


def _compute_time_chart_strip_layout(
    name: str,
    points: Sequence[Point],
    format_value: Callable[..., str],
    axis: Axis,
    y: float,
    before: Number | None,
) -> TimeChartStrip:
    """Lay out the steps of one total; they begin at the left edge if the total `before` the first point is known."""
    maximum = max(number for number in (*(number for *_, number in points), before) if number is not None)
    xs = [axis.convert_to_x(convert_to_microseconds(point.at)) for _, point, _ in points]
    dots: list[ChartDot] = []
    dotted: list[ChartDot] = []
    for (_index, point, number), (x, next_x) in zip(points, pairwise([*xs, round(axis.right, 1)]), strict=True):
        dot_y = _compute_y(number, maximum, _STRIP_TOP, _STRIP_BOTTOM)
        title = _format_dot_title(point, format_value(number))
        dots.append(ChartDot(x, dot_y, x, round(max(0.0, next_x - x), 1), point.version, title))
        if not dotted or x - dotted[-1].x >= _DOTS_APART:
            dotted.append(dots[-1])
    steps = "".join(f"H{dot.x}V{dot.y}" for dot in dots[1:])
    begin, start = dots[0].x, f"M{dots[0].x} {dots[0].y}"
    if before is not None:
        begin = round(axis.left, 1)
        start = f"M{begin} {_compute_y(before, maximum, _STRIP_TOP, _STRIP_BOTTOM)}H{dots[0].x}V{dots[0].y}"
    line = f"{start}{steps}H{round(axis.right, 1)}"
    area = f"{line}V{_STRIP_BOTTOM}H{begin}Z"
    words = _describe_strip(name, points, maximum, format_value)
    versions = frozenset(dot.version for dot in dotted)
    newest = format_value(points[-1][2])
    label = _build_label_of_only_dot(dots[0], newest, axis) if len(points) == 1 and before is None else None
    return TimeChartStrip(name, y, line, area, tuple(dots), versions, newest, words, label)


def _build_label_of_only_dot(dot: ChartDot, value: str, axis: Axis) -> ValueLabel:
    """Build the label of a dot without a line to or from another one: on its side that has more room."""
    text = gettext("%(value)s, only at version %(version)s") % {"value": value, "version": dot.version}
    is_before = dot.x > (axis.left + axis.right) / 2
    # The line of the total goes on to the right.
    return ValueLabel(*((dot.x - 8, dot.y + 4) if is_before else (dot.x + 2, dot.y + 18)), text, is_before)


def compute_version_chart_layout(growth: RunningTotals, *, fields: Collection[str] = tuple(_SHOWN)) -> Chart:
    """Lay out the charts of a session, one for each of the `fields` of its points."""
    strips, missing = [], []
    for heading, name, format_value, points in _iterate_series(growth, fields):
        if points:
            strips.append(_compute_chart_strip_layout(heading, points, format_value, len(growth.points)))
        else:
            missing.append(name)
    return Chart(tuple(strips), tuple(missing))


def _iterate_series(
    growth: RunningTotals, fields: Collection[str]
) -> Iterator[tuple[str, str, Callable[..., str], list[Point]]]:
    """Yield for each field its heading, its name in a sentence, its format, and the points that have a number."""
    for field in fields:
        heading, name, format_value = _SHOWN[field]
        points = [
            (index, point, number)
            for index, point in enumerate(growth.points)
            if (number := getattr(point, field)) is not None
        ]
        yield str(heading), str(name), format_value, points


def _compute_chart_strip_layout(
    name: str, points: Sequence[Point], format_value: Callable[..., str], places: int
) -> ChartStrip:
    maximum = max(number for *_, number in points)
    step = (WIDTH - 2 * _INSET) / max(1, places - 1)
    dots = []
    for index, point, number in points:
        x = round(_INSET + index * step, 1)
        y = _compute_y(number, maximum, _TOP, _BOTTOM)
        left, right = max(0.0, x - step / 2), min(float(WIDTH), x + step / 2)
        title = _format_dot_title(point, format_value(number))
        dots.append(ChartDot(x, y, round(left, 1), round(right - left, 1), point.version, title))
    steps = "".join(f"H{dot.x}V{dot.y}" for dot in dots[1:])
    line = f"M{dots[0].x} {dots[0].y}{steps}"
    area = f"{line}V{_BOTTOM}H{dots[0].x}Z"
    end = points[-1][2]
    return ChartStrip(
        name,
        line,
        area,
        tuple(dots),
        frozenset(dot.version for dot in dots) if len(dots) <= _MAX_DOTS else frozenset(),
        format_value(end),
        format_value(maximum) if maximum > end else "",
        _describe_strip(name, points, maximum, format_value),
        _build_value_axis_ticks(maximum, format_value),
        gettext("only at version %(version)s") % {"version": dots[0].version} if len(dots) == 1 else "",
    )


def _build_value_axis_ticks(maximum: Number, format_value: Callable[..., str]) -> tuple[ValueAxisTick, ...]:
    """Build lines at 0 and at one or two round numbers up to the maximum."""
    numbers: list[Number] = [type(maximum)(0)]
    if maximum > 0:
        unit = Decimal(10) ** Decimal(maximum).adjusted()
        step = next(factor * unit for factor in (5, 2, 1) if factor * unit <= maximum)
        numbers += [type(maximum)(step * count) for count in range(1, int(maximum / step) + 1)]
    ys = [(number, _compute_y(number, maximum, _TOP, _BOTTOM)) for number in numbers]
    return tuple(
        ValueAxisTick(y, round(100 * y / HEIGHT, 1), format_value(number) if number else "0") for number, y in ys
    )


def _compute_y(number: Number, maximum: Number, top: float, bottom: float) -> float:
    return round(bottom - (bottom - top) * (float(number) / float(maximum) if maximum > 0 else 0.0), 1)


def _format_dot_title(point: TotalsPoint, value: str) -> str:
    return gettext("Version %(version)s: %(value)s") % {"version": point.version, "value": value}


def _describe_strip(name: str, points: Sequence[Point], maximum: Number, format_value: Callable[..., str]) -> str:
    (_, first, begin), (_, last, end) = points[0], points[-1]
    sentence = gettext(
        "%(name)s: %(first)s at version %(first_version)s, %(last)s at version %(last_version)s, at most %(most)s."
    )
    return sentence % {
        "name": name,
        "first": format_value(begin),
        "first_version": first.version,
        "last": format_value(end),
        "last_version": last.version,
        "most": format_value(maximum),
    }
