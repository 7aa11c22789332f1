"""The totals beside those of the period before."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from checkpoints.enums import RunStatus, SessionStatus
from harness_site.overview import period_totals, views
from harness_site.overview.period_totals import SessionTotals
from harness_site.search import recount_session_sums_by_day
from tests.integration.overview.started_sessions_and_settled_calls import make_started_session
from tests.support.factories import make_run
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_the_totals_are_compared_with_the_period_before(reader: Client) -> None:
    make_started_session(0, "1", agent="desk", status=SessionStatus.FAILED)
    make_started_session(0, "1", agent="desk")
    make_started_session(15, "1", agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "1 of 2" in page
    assert "50 %" not in page  # too few sessions for a share, as in the table of agents
    assert "$2.00 Waiting" not in page
    assert "was $" not in page
    assert "Last 14 days Sessions started2" in page
    make_started_session(40, "1", agent="desk")
    lost = datetime.now(UTC) - timedelta(days=15)
    make_run(session=make_started_session(15, agent="desk"), owner=False, status=RunStatus.LOST, ended_at=lost)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "1 of 2, up from 0 of 1" in page
    assert "+100 %, was $1.00" in page
    assert "no session lost a run in 14 days (was 1)" in page
    assert "Last 14 days, compared with the period before Sessions started2+100 %, was 1 Failed" in page
    for _ in range(3):
        make_started_session(0, "2", agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "Sessions started5" in page
    assert "×5, was 1" in page
    assert "×8, was $1.00" in page


def test_cost_is_not_compared_with_less_than_a_cent(reader: Client) -> None:
    make_started_session(0, "4")
    make_started_session(15, "0.001")
    make_started_session(40)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "Sessions started1as before" in page
    assert "was $" not in page


@pytest.mark.parametrize(
    ("failed", "sessions", "failed_before", "sessions_before", "trend"),
    [
        (28, 480, 26, 480, ""),
        (2, 3, 0, 2, ""),
        (90, 1000, 40, 1000, "worse"),
        (40, 1000, 90, 1000, "better"),
        (110_000, 1_000_000, 100_000, 1_000_000, ""),
        (9, 10, 0, 0, ""),
    ],
)
def test_only_a_real_change_of_failures_is_marked(
    failed: int, sessions: int, failed_before: int, sessions_before: int, trend: str
) -> None:
    total, before = SessionTotals(sessions, failed=failed), SessionTotals(sessions_before, failed=failed_before)
    assert views._get_trend_of_failures(total, before) == trend


@pytest.mark.parametrize(
    ("decisions", "p95", "p95_before", "trend"),
    [(20, 700, 600, ""), (20, 900, 600, "worse"), (20, 300, 600, "better"), (19, 900, 600, ""), (20, None, 600, "")],
)
def test_only_a_real_change_of_waiting_times_is_marked(
    decisions: int, p95: float | None, p95_before: float, trend: str
) -> None:
    waits, before = period_totals.WaitingTimes(decisions, 1, p95), period_totals.WaitingTimes(20, 1, p95_before)
    assert views._get_trend_of_waiting_times(waits, before) == trend
