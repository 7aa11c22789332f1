"""Periods and their steps, in the zone of the reader."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from harness_site.overview import periods
from harness_site.search import recount_session_sums_by_day
from tests.integration.overview.started_sessions_and_settled_calls import make_started_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("age", "key"),
    [
        (None, "14d"),
        (timedelta(0), "24h"),
        (timedelta(hours=30), "7d"),
        (timedelta(days=9), "14d"),
        (timedelta(days=30), "14d"),
    ],
)
def test_first_days_are_shown_in_a_short_period(age: timedelta | None, key: str) -> None:
    now = datetime.now(UTC)
    assert periods.choose_default_period_key(None if age is None else now - age, now) == key


def test_period_of_the_first_day_is_24_hours(reader: Client) -> None:
    make_started_session(0)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert "Last 24 hours in UTC" in visible_text(reader.get("/overview/"))
    make_started_session(20)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert re.search(r"\w+ to \w+ [\w ]+ in UTC", visible_text(reader.get("/overview/")))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("period=year", "There is no such period."),
        ("first=2026-01-01", "Enter both days."),
        ("first=2026-02-30&last=2026-03-01", "Enter both days."),
        ("first=2026-03-02&last=2026-03-01", "The first day is after the last one."),
        ("first=2020-01-01&last=2026-03-01", "A period can have 366 days at most."),
        ("first=0001-01-01&last=0001-01-02", "Choose days after 1999."),
    ],
)
def test_invalid_period_is_explained(query: str, sentence: str) -> None:
    period, problem = periods.parse_period_and_problem(QueryDict(query), datetime.now(UTC))
    assert period.key == periods.DEFAULT
    assert problem.startswith(sentence)
    assert problem.endswith("The last 14 days are shown instead.")


def test_long_periods_have_steps_of_seven_days_back_from_the_last_one() -> None:
    query = QueryDict("first=2026-01-01&last=2026-03-02")  # 61 days
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    steps = period.step_starts
    days = [(step.date().isoformat(), period.get_last_day_of_step(step).isoformat()) for step in steps]
    assert (days[0], days[1], days[-1]) == (
        ("2026-01-01", "2026-01-05"),
        ("2026-01-06", "2026-01-12"),
        ("2026-02-24", "2026-03-02"),
    )
    assert period.build_query_string_of_chart_step(steps[1]) == "first=2026-01-06&last=2026-01-12"


def test_days_of_a_zone_begin_with_its_first_full_hour() -> None:
    """The sums are those of hours in UTC."""
    now = datetime(2026, 3, 2, 18, 40, tzinfo=UTC)  # 00:10 in India
    with timezone.override("Asia/Kolkata"):
        period, _problem = periods.parse_period_and_problem(QueryDict("period=7d"), now)
    assert (period.first_day.isoformat(), period.last_day.isoformat()) == ("2026-02-24", "2026-03-02")
    assert period.day_start_time_unless_midnight == "00:30"
    step = period.step_starts[0]
    assert period.build_query_string_of_chart_step(step) == (
        "first=2026-02-24T00:30&last=2026-02-25T00:30&zone=Asia/Kolkata"
    )


def test_an_hour_that_the_clock_shows_twice_is_named_in_utc() -> None:
    now = datetime(2026, 10, 25, 8, 10, tzinfo=UTC)
    with timezone.override("Europe/Berlin"):
        period, _problem = periods.parse_period_and_problem(QueryDict("period=24h"), now)
    queries = [period.build_query_string_of_chart_step(step) for step in period.step_starts]
    assert "first=2026-10-25T01:00&last=2026-10-25T02:00" in queries
    assert "first=2026-10-25T03:00&last=2026-10-25T04:00&zone=Europe/Berlin" in queries


def test_few_hours_make_up_the_days_of_a_zone() -> None:
    """A year of hours would be read for each page otherwise."""
    query = QueryDict("first=2026-01-01&last=2026-02-14&zone=Europe/Berlin")
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    parts = period.map_hours_and_utc_days_to_signed_steps()
    assert sum(not hourly for hourly, _start in parts) == 90
    assert sum(hourly for hourly, _start in parts) == 47
