"""The charts: their series, axes and labels."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from checkpoints.enums import SessionStatus
from harness_site.overview import charts, period_totals, periods
from harness_site.search import recount_session_sums_by_day
from tests.integration.overview.started_sessions_and_settled_calls import make_started_session
from tests.support.factories import make_call, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("period", periods.CHOICES)
def test_every_period_has_the_same_charts_with_axes(reader: Client, period: str) -> None:
    make_started_session(0, "1.234", status=SessionStatus.COMPLETED)
    make_call(session=make_session(), issued_at=datetime.now(UTC), interrupted_at=datetime.now(UTC))
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    response = reader.get(f"/overview/?period={period}")
    page = response.content.decode()
    names = ["sessions", "waits", "failures", "interruptions", "costs"]
    assert re.findall(r'<figure class="plot" aria-labelledby="chart-(\w+)"', page) == names
    assert all(len({*chart.ticks}) >= 2 and len(chart.labels) >= 2 for chart in response.context["charts"].values())
    empty = [name for name, chart in response.context["charts"].items() if chart.is_empty]
    assert empty == ["waits", "failures"]
    assert page.count("<figcaption") == 2
    assert ">No session failed in this period.</span></figcaption>" in page
    steps = {"24h": 24, "7d": 7, "14d": 14, "90d": 13}[period]
    assert {len(chart.bars) for chart in response.context["charts"].values()} == {steps}


def test_axes_name_the_zone_of_their_steps(reader: Client) -> None:
    make_session()
    reader.cookies["harness_zone"] = "Asia/Kolkata"
    days = reader.get("/overview/").content.decode()
    hours = reader.get("/overview/?period=24h").content.decode()
    assert set(re.findall(r'class="zone"[^>]*>(\w+)<', days)) == {"IST"}
    assert set(re.findall(r'class="zone"[^>]*>(\w+)<', hours)) == {"IST"}
    assert "each day from 00:30 in Asia/Kolkata" in visible_text(reader.get("/overview/"))
    assert "hours in Asia/Kolkata" in visible_text(reader.get("/overview/?period=24h"))


@pytest.mark.parametrize(
    ("median", "p95", "ticks", "heights"),
    [
        (60, 3_600, ("1 h", "10 min", "1 min"), (160, 0)),
        (600, 600, ("10 min", "5 min", "0"), (0, 0)),
        (0.2, 5, ("6 s", "3 s", "0"), (154.7, 26.7)),
        (120, 172_800, ("7 days", "1 day", "6 h", "1 h", "10 min", "1 min"), (150.4, 20.6)),
        (4e8, 9e8, ("12000 days", "6000 days", "0"), (98.3, 21.1)),
    ],
)
def test_waiting_times_are_at_their_labels_of_the_axis(
    median: float, p95: float, ticks: tuple[str, ...], heights: tuple[float, ...]
) -> None:
    period, _problem = periods.parse_period_and_problem(QueryDict("period=24h"), datetime.now(UTC))
    steps = [(step, period_totals.WaitingTimes(2, median, p95)) for step in period.step_starts]
    chart = charts.draw_waiting_times_chart(period, steps)
    assert chart.ticks == ticks
    assert chart.line is not None
    (band,) = chart.bars[0].pieces
    assert (float(chart.line.points.split()[0].split(",")[1]), band.y) == heights
    assert chart.is_logarithmic == (ticks[-1] != "0")


def test_hours_are_those_of_the_reader(reader: Client) -> None:
    make_started_session(0)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    reader.cookies["harness_zone"] = "Asia/Kolkata"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    page = reader.get("/overview/?period=24h").content.decode()
    local = hour + timedelta(hours=5, minutes=30)
    assert f'title="{hour:%Y-%m-%d %H}:00:00 UTC">{local:%H:%M}</time>' in page
    assert f'aria-label="{local:%H:%M}: 1 started;' in page


def test_labels_of_the_time_axis_stay_within_the_drawing() -> None:
    for query in ("period=7d", "period=14d", "period=90d"):
        period, _problem = periods.parse_period_and_problem(QueryDict(query), datetime.now(UTC))
        last = charts.build_time_axis_labels(period)[-1]
        assert (last.x, last.text_anchor) == ("100%", "end")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("hour", [0, 3, 11, 22])
def test_labels_of_hours_are_round_hours_of_the_reader_below_their_steps(zone: str, hour: int) -> None:
    now = datetime(2026, 3, 2, hour, 20, tzinfo=UTC)
    with timezone.override(zone):
        period, _problem = periods.parse_period_and_problem(QueryDict("period=24h"), now)
        labels = charts.build_time_axis_labels(period)
    *hours, end = labels
    assert {int(label.text[:2]) % 4 for label in hours} == {0}
    assert {label.text_anchor for label in hours} == {"middle"}
    assert len(hours) >= 4
    assert (end.text, end.x, end.text_anchor) == ("now", "100%", "end")
    assert end.percent - hours[-1].percent >= charts._LABEL_PERCENT  # the labels do not touch


def test_cancelled_sessions_and_those_that_wait_are_series_of_their_own(reader: Client) -> None:
    make_session(status=SessionStatus.CANCELLED)
    make_session(status=SessionStatus.NEEDS_REVIEW)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    assert page.context["charts"]["sessions"].piece_kinds == {"cancelled", "wait"}
    assert "1 cancelled; 0 running, paused or idle" in page.content.decode()
    assert page.context["sums"].total.other_sessions == 0


def draw_sessions_of_days(*sessions: int) -> charts.Chart:
    period, _problem = periods.parse_period_and_problem(QueryDict("period=14d"), datetime.now(UTC))
    assert len(sessions) == len(period.step_starts)
    steps = [
        (step, period_totals.SessionTotals(sessions=number, completed=number))
        for step, number in zip(period.step_starts, sessions, strict=True)
    ]
    return charts.draw_session_outcome_chart(period, steps)


def test_axis_is_cut_above_the_other_days_if_one_is_far_higher() -> None:
    chart = draw_sessions_of_days(4, 7, 4, 3, 14, 2, 5, 3, 900, 6, 6, 5, 3, 2)
    assert chart.ticks == ("16", "8", "0")
    assert [index for index, bar in enumerate(chart.bars) if bar.is_cut] == [8]
    (piece,) = chart.bars[8].pieces
    assert (piece.y, piece.y + piece.height) == (-18, 160)  # it goes on above the axis
    assert piece.y < min(float(corner.split(",")[1]) for corner in chart.bars[8].cut_mark_polygon_points.split())
    (label,) = chart.cut_labels
    assert (label.text, label.x) == ("900", f"{8.5 / 14 * 100:.2f}%")
    (other,) = chart.bars[4].pieces
    assert (other.height, chart.bars[4].is_cut) == (140, False)


def test_bar_of_today_says_until_when_it_counts() -> None:
    chart = draw_sessions_of_days(*[3] * 14)
    assert re.fullmatch(r"[0-2]\d:[0-5]\d", chart.incomplete_until)
    assert [bool(bar.incomplete_until) for bar in chart.bars] == [False] * 13 + [True]
    assert chart.bars[-1].title.endswith(f"(not over yet: until {chart.incomplete_until})")
    assert not draw_sessions_of_days(*[3] * 13, 0).incomplete_until


def draw_outcomes_of_last_day(**numbers: Any) -> charts.Chart:
    period, _problem = periods.parse_period_and_problem(QueryDict("period=14d"), datetime.now(UTC))
    small, last = period_totals.SessionTotals(sessions=3, completed=3), period_totals.SessionTotals(**numbers)
    steps = [(step, small) for step in period.step_starts[:-1]] + [(period.step_starts[-1], last)]
    return charts.draw_session_outcome_chart(period, steps)


def test_parts_of_a_cut_bar_have_the_proportions_of_the_whole_bar() -> None:
    chart = draw_outcomes_of_last_day(sessions=91, completed=15, undecided=62)
    bar = chart.bars[-1]
    assert bar.is_cut
    assert [piece.kind for piece in bar.pieces] == ["ok", "wait", "run"]
    shares = [piece.height / sum(each.height for each in bar.pieces) for piece in bar.pieces]
    assert shares == pytest.approx([15 / 91, 62 / 91, 14 / 91], abs=0.001)
    assert [piece.y + piece.height for piece in bar.pieces] == pytest.approx([160, *[p.y for p in bar.pieces[:-1]]])
    assert bar.pieces[-1].y == -18
    assert chart.piece_kinds == {"ok", "wait", "run"}  # the legend names each kind that the table counts


@pytest.mark.parametrize("completed", [8, 5_000])
def test_kind_with_few_sessions_is_seen_in_a_full_bar(completed: int) -> None:
    chart = draw_outcomes_of_last_day(sessions=completed + 2, completed=completed, failed=1, cancelled=1)
    many, *few = chart.bars[-1].pieces
    assert [piece.kind for piece in few] == ["bad", "cancelled"]
    assert all(piece.height >= 2 for piece in few)
    assert many.y + many.height == pytest.approx(160)


@pytest.mark.parametrize(
    "sessions",
    [
        (4, 7, 4, 3, 14, 2, 5, 3, 80, 6, 6, 5, 3, 2),  # the others are high enough to be compared
        (0, 0, 0, 0, 0, 0, 0, 0, 900, 6, 6, 0, 0, 0),  # too few others
        (900, 800, 900, 800, 900, 1, 2, 3, 1, 2, 3, 1, 2, 3),  # too many of them are high
        (0,) * 14,
    ],
)
def test_axis_reaches_the_highest_bar_if_the_others_can_be_compared_or_are_few(sessions: tuple[int, ...]) -> None:
    chart = draw_sessions_of_days(*sessions)
    assert int(chart.ticks[0].replace(",", "")) >= max(sessions)
    assert not chart.cut_labels
    assert not any(bar.is_cut for bar in chart.bars)


def test_values_of_cut_bars_beside_each_other_are_one_label() -> None:
    period, _problem = periods.parse_period_and_problem(QueryDict("period=24h"), datetime.now(UTC))
    sessions = [5] * 22 + [800, 900]
    steps = [
        (step, period_totals.SessionTotals(sessions=number, completed=number))
        for step, number in zip(period.step_starts, sessions, strict=True)
    ]
    chart = charts.draw_session_outcome_chart(period, steps)
    assert [(label.text, label.text_anchor) for label in chart.cut_labels] == [("800 · 900", "end")]


def test_page_shows_the_values_of_bars_that_are_higher_than_the_axis(reader: Client) -> None:
    for days in range(4):
        for _number in range(1 if days else 12):
            make_started_session(days)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=7d").content.decode()
    assert page.count('<polygon class="gap"') == 1
    assert re.search(r'<svg class="labels values" aria-hidden="true"><text [^>]+>12</text></svg>', page)
    assert "higher bars are cut" in page
