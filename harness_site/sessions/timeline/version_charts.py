"""Charts of numbers by version, one below the other on a common axis."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from harness_site.sessions import session_formatting
from harness_site.sessions.timeline.selectors.running_totals_by_version import RunningTotals, TotalsPoint

#: Size of one chart in its own units, and its plot area. A page stretches the width, so the chart has no text.
WIDTH = 960
HEIGHT = 92
_TOP = 8.0
_BOTTOM = 78.0
#: Distance of the first and of the last point from the edges.
_INSET = 6.0
#: Charts with more points have no dots.
_MAX_DOTS = 60

Number = Decimal | int
#: Field of a point → heading of its chart, name of the number in a sentence, and its format.
_SHOWN: Final[dict[str, tuple[str | Promise, str | Promise, Callable[..., str]]]] = {
    "cost": (_("Cost"), _("cost"), session_formatting.format_money),
    "tokens": (_("Tokens"), _("tokens"), session_formatting.format_count),
    "messages": (_("Messages"), _("messages"), session_formatting.format_count),
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
class ChartStrip:
    """One chart with the newest value and the largest one, which is empty if it is the newest.

    `line` and `area` are SVG paths; `words` describes the chart for screen readers.
    """

    name: str
    line: str
    area: str
    dots: tuple[ChartDot, ...]
    dotted: bool
    newest: str
    most: str
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Charts of a session; `missing` names the values that no version has."""

    strips: tuple[ChartStrip, ...]
    missing: tuple[str, ...]


def compute_version_chart_layout(growth: RunningTotals, *, fields: Collection[str] = tuple(_SHOWN)) -> Chart:
    """Lay out the charts of a session, one for each of the `fields` of its points."""
    strips, missing = [], []
    for field in fields:
        heading, name, format_value = _SHOWN[field]
        points = [
            (index, point, number)
            for index, point in enumerate(growth.points)
            if (number := getattr(point, field)) is not None
        ]
        if points:
            strips.append(_compute_chart_strip_layout(str(heading), points, format_value, len(growth.points)))
        else:
            missing.append(str(name))
    return Chart(tuple(strips), tuple(missing))


def _compute_chart_strip_layout(
    name: str, points: Sequence[tuple[int, TotalsPoint, Number]], format_value: Callable[..., str], places: int
) -> ChartStrip:
    maximum = max(number for *_, number in points)
    step = (WIDTH - 2 * _INSET) / max(1, places - 1)
    dots = []
    for index, point, number in points:
        x = round(_INSET + index * step, 1)
        y = round(_BOTTOM - (_BOTTOM - _TOP) * (float(number) / float(maximum) if maximum > 0 else 0.0), 1)
        left, right = max(0.0, x - step / 2), min(float(WIDTH), x + step / 2)
        title = gettext("Version %(version)s: %(value)s") % {"version": point.version, "value": format_value(number)}
        dots.append(ChartDot(x, y, round(left, 1), round(right - left, 1), point.version, title))
    line = "M" + "L".join(f"{dot.x} {dot.y}" for dot in dots)
    area = f"{line}V{_BOTTOM}H{dots[0].x}Z"
    (_, first, begin), (_, last, end) = points[0], points[-1]
    sentence = gettext(
        "%(name)s: %(first)s at version %(first_version)s, %(last)s at version %(last_version)s, at most %(most)s."
    )
    words = sentence % {
        "name": name,
        "first": format_value(begin),
        "first_version": first.version,
        "last": format_value(end),
        "last_version": last.version,
        "most": format_value(maximum),
    }
    return ChartStrip(
        name,
        line,
        area,
        tuple(dots),
        len(dots) <= _MAX_DOTS,
        format_value(end),
        format_value(maximum) if maximum > end else "",
        words,
    )
