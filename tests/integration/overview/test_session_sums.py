"""Sums of sessions by hour and day: how they are counted, counted again and kept."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import ImportedFile, Session
from harness_site.overview.period_totals import SessionTotals
from harness_site.search import hourly_call_and_decision_sums, hourly_sums_retention, recount_session_sums_by_day
from harness_site.search.models import SessionSums, ToolSums
from tests.integration.overview.started_sessions_and_settled_calls import (
    load_totals,
    make_settled_call,
    make_started_session,
)
from tests.integration.search.conftest import complete
from tests.support.factories import make_workspace

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


def test_sessions_and_costs_are_summed_by_day_and_agent() -> None:
    make_started_session(0, "1.25", agent="desk", status=SessionStatus.COMPLETED)
    make_started_session(0, "2", agent="desk", status=SessionStatus.FAILED)
    make_started_session(13, "4", agent="mail")
    make_started_session(14, "8", agent="old")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    found = load_totals()
    assert found.steps[-1][1] == SessionTotals(2, 1, 1, 0, 0, Decimal("3.25"))
    assert found.steps[0][1] == SessionTotals(1, 0, 0, 0, 0, Decimal(4))
    assert [agent.name for agent in found.agents] == ["mail", "desk"]
    assert found.total.cost == Decimal("7.25")
    assert found.preceding == SessionTotals(1, 0, 0, 0, 0, Decimal(8))
    assert load_totals("period=24h").total == SessionTotals(2, 1, 1, 0, 0, Decimal("3.25"))
    assert load_totals("period=90d").total.cost == Decimal("15.25")
    day = (datetime.now(UTC) - timedelta(days=14)).date().isoformat()
    assert load_totals(f"first={day}&last={day}").total == SessionTotals(1, 0, 0, 0, 0, Decimal(8))


def test_old_hours_are_deleted_and_days_keep_their_sums() -> None:
    make_started_session(0, "1")
    make_started_session(0, "2")
    make_settled_call("slow")
    complete()
    now = recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    make_settled_call("slow")
    complete()
    for sums in (SessionSums, ToolSums):
        assert set(sums.objects.values_list("hourly", flat=True)) == {True, False}
    hourly_sums_retention.delete_outdated_hourly_sums(now + timedelta(days=733))
    assert load_totals("period=24h").total == load_totals("period=7d").total == SessionTotals(3, cost=Decimal(3))
    hourly_sums_retention.delete_outdated_hourly_sums(now + timedelta(days=734))
    day = hourly_call_and_decision_sums.get_utc_day_start(now)
    assert list(SessionSums.objects.values_list("start", "hourly", "sessions", "cost")) == [(day, False, 3, Decimal(3))]
    assert list(ToolSums.objects.values_list("start", "hourly", "calls")) == [(day, False, 2)]


def test_changed_day_is_counted_again() -> None:
    session = make_started_session(3, "1", agent="desk")
    since = recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=session.pk).update(budget_spent_usd=5, agent="mail", updated_at=since)
    recount_session_sums_by_day.recount_changed_days_and_record_models(since)
    assert set(SessionSums.objects.values_list("agent", "sessions", "cost")) == {("mail", 1, Decimal(5))}


def test_sessions_of_transcripts_of_any_age_are_counted() -> None:
    make_started_session(400, "1", agent="desk")
    since = recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    # A session of the same day and one of another day are imported later.
    later = [make_started_session(400, "2", agent="desk"), make_started_session(500, "4", agent="desk")]
    Session.objects.filter(pk__in=[session.pk for session in later]).update(updated_at=F("created_at"))
    ImportedFile.objects.create(
        workspace=make_workspace(),
        path_digest="0" * 64,
        path="/old.jsonl",
        size=1,
        modified_ns=1,
        sessions=to_canonical_json([session.session_id for session in later]),
    )
    recount_session_sums_by_day.recount_changed_days_and_record_models(since)
    sums = SessionSums.objects.filter(hourly=False).order_by("start")
    assert list(sums.values_list("sessions", "cost")) == [(1, Decimal(4)), (2, Decimal(3))]


def test_old_day_keeps_the_cost_of_its_deleted_sessions() -> None:
    kept, deleted = make_started_session(400, "1", agent="desk"), make_started_session(400, "2", agent="desk")
    since = recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=deleted.pk).update(has_times=False)  # counts on no day
    Session.objects.filter(pk=kept.pk).update(budget_spent_usd=5, updated_at=since)
    recount_session_sums_by_day.recount_changed_days_and_record_models(since)
    assert list(SessionSums.objects.filter(hourly=False).values_list("sessions", "cost")) == [(2, Decimal(3))]


def test_deleted_sessions_are_removed_from_the_sums() -> None:
    session = make_started_session(3, "1")
    since = recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=90))
    recount_session_sums_by_day.recount_changed_days_and_record_models(since - timedelta(hours=1))
    assert not SessionSums.objects.exists()


def test_days_without_sessions_are_not_counted() -> None:
    """A server that starts does not spend seconds on days on which nothing has happened."""
    make_started_session(3, "1")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    with CaptureQueriesContext(connection) as one_day:
        recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    make_started_session(100, "1")
    with CaptureQueriesContext(connection) as two_days:
        recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert len(one_day) < 40
    assert len(two_days) < 60
    assert {start.date() for start in SessionSums.objects.values_list("start", flat=True)} == {
        (datetime.now(UTC) - timedelta(days=days)).date() for days in (3, 100)
    }
