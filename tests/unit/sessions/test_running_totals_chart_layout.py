from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions.timeline import running_totals_chart_layout
from harness_site.sessions.timeline.selectors.running_totals_by_version import POINTS, RunningTotals, TotalsPoint
from harness_site.sessions.timeline.time_axis import Axis
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import Drawing

THEN = datetime(2026, 3, 4, tzinfo=UTC)


def grown(*points: tuple[str | None, int | None, int]) -> RunningTotals:
    made = tuple(
        TotalsPoint(number + 1, THEN, None if cost is None else Decimal(cost), tokens, messages)
        for number, (cost, tokens, messages) in enumerate(points)
    )
    return RunningTotals(made, len(made), 1)


def test_each_series_is_scaled_to_its_maximum() -> None:
    drawn = running_totals_chart_layout.compute_version_chart_layout(grown(("0", 10, 1), ("0.5", 20, 2), ("1", 40, 4)))
    assert [(strip.name, strip.newest, strip.most) for strip in drawn.strips] == [
        ("Cost", "$1.00", ""),
        ("Tokens", "40", ""),
        ("Messages", "4", ""),
    ]
    assert [dot.y for dot in drawn.strips[0].dots] == [78.0, 43.0, 8.0]
    first, second, third = (dot.x for dot in drawn.strips[0].dots)
    assert drawn.strips[0].line == f"M{first} 78.0H{second}V43.0H{third}V8.0"
    assert [[(tick.y, tick.text) for tick in strip.ticks] for strip in drawn.strips] == [
        [(78.0, "0"), (8.0, "$1.00")],
        [(78.0, "0"), (43.0, "20"), (8.0, "40")],
        [(78.0, "0"), (43.0, "2"), (8.0, "4")],
    ]
    assert drawn.strips[1].dots[1].title == "Version 2: 20"
    assert drawn.strips[1].dotted_versions == {1, 2, 3}
    assert drawn.strips[2].words == "Messages: 1 at version 1, 4 at version 3, at most 4."


def test_newest_value_is_the_total_also_if_it_was_larger() -> None:
    drawn = running_totals_chart_layout.compute_version_chart_layout(grown(("0.13", None, 1), ("0.02", None, 2)))
    assert (drawn.strips[0].newest, drawn.strips[0].most) == ("$0.02", "$0.13")


def test_missing_series_is_named_and_missing_values_are_not_drawn() -> None:
    drawn = running_totals_chart_layout.compute_version_chart_layout(grown((None, None, 0), ("1", None, 0)))
    assert drawn.missing == ("tokens",)
    assert [(strip.name, len(strip.dots)) for strip in drawn.strips] == [("Cost", 1), ("Messages", 2)]
    assert drawn.strips[0].line == "M954.0 8.0"


def test_many_points_have_no_dots_but_have_tooltips() -> None:
    drawn = running_totals_chart_layout.compute_version_chart_layout(
        grown(*[(str(number), number, number) for number in range(POINTS)])
    )
    strip = drawn.strips[0]
    assert (len(strip.dots), strip.dotted_versions) == (POINTS, frozenset())
    assert all(dot.left <= dot.x <= dot.left + dot.width <= running_totals_chart_layout.WIDTH for dot in strip.dots)
    assert all(abs(dot.left + dot.width - after.left) < 0.2 for dot, after in pairwise(strip.dots))


def test_totals_are_steps_at_the_times_of_the_versions() -> None:
    until = THEN + timedelta(seconds=10)
    saved = [THEN + timedelta(seconds=seconds) for seconds in (1, 6, 6.01)]
    points = tuple(TotalsPoint(number, at, None, 10 * number, number) for number, at in enumerate(saved, 1))
    axis = Axis(map(convert_to_microseconds, saved), THEN, until, left=40, right=1040)
    drawing = Drawing((), axis, 1056, 90.0, axis.breaks, axis.build_labels(), "", 0, (), ())
    growth = RunningTotals(points, 3, 1)
    chart = running_totals_chart_layout.compute_time_chart_layout(growth, drawing)
    assert (chart.missing, [strip.name for strip in chart.strips]) == (("cost",), ["Tokens", "Messages"])
    tokens = chart.strips[0]
    assert tokens.line == "M140.0 38.7H640.0V23.3H641.0V8.0H1040"
    assert [(dot.left, dot.width) for dot in tokens.dots] == [(140.0, 500.0), (640.0, 1.0), (641.0, 399.0)]
    assert tokens.dotted_versions == {1, 2}
    assert chart.labels == drawing.labels
    assert running_totals_chart_layout.list_headings_and_newest_values_beside_time_charts(growth) == (
        "Tokens",
        "30",
        "Messages",
        "3",
    )
    assert tokens.label is None
    part = RunningTotals(points[1:], 2, 1, before=points[0])
    tokens = running_totals_chart_layout.compute_time_chart_layout(part, drawing).strips[0]
    assert tokens.line == "M40 38.7H640.0V23.3H641.0V8.0H1040"
    assert tokens.area.endswith("V54.0H40Z")


def test_drops_of_the_number_of_messages_are_listed() -> None:
    growth = grown((None, None, 5), (None, None, 9), (None, None, 2), (None, None, 2), (None, None, 1))
    drops = running_totals_chart_layout.list_message_drops(growth)
    assert [(drop.previous, drop.version, drop.count) for drop in drops] == [(2, 3, 7), (4, 5, 1)]


def test_only_value_of_a_chart_has_a_label_beside_its_dot() -> None:
    until = THEN + timedelta(seconds=10)
    saved = [THEN + timedelta(seconds=seconds) for seconds in (1, 9)]
    axis = Axis(map(convert_to_microseconds, saved), THEN, until, left=40, right=1040)
    drawing = Drawing((), axis, 1056, 90.0, axis.breaks, axis.build_labels(), "", 0, (), ())
    for tokens, x, is_before in (((7, None), 142.0, False), ((None, 7), 932.0, True)):
        points = tuple(
            TotalsPoint(number, at, None, count, number)
            for number, (at, count) in enumerate(zip(saved, tokens, strict=True), 1)
        )
        growth = RunningTotals(points, 2, 1)
        label = running_totals_chart_layout.compute_time_chart_layout(growth, drawing).strips[0].label
        assert label is not None
        version = 2 if is_before else 1
        assert (label.x, label.is_before, label.text) == (x, is_before, f"7, only at version {version}")
        strips = running_totals_chart_layout.compute_version_chart_layout(growth).strips
        assert [strip.only_version for strip in strips] == [f"only at version {version}", ""]
