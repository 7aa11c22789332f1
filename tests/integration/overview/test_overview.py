"""The overview says how things stand, from what was added up beside the store."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db.models import F
from django.test import Client

from checkpoints.enums import CallStatus, SessionStatus
from checkpoints.models import Session, ToolCall
from harness_site.overview import current_counts, day_totals
from harness_site.overview.day_totals import SessionTotals
from harness_site.search import indexer, session_days
from harness_site.search.models import Progress, SessionDay, ToolDay
from tests.integration.search.conftest import complete
from tests.support.factories import make_call, make_run, make_session, make_user, make_workspace
from tests.support.pages import said

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def begun(days_ago: int, cost: str = "0", **fields: object) -> Session:
    session = make_session(budget_spent_usd=cost, **fields)  # type: ignore[arg-type]
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=days_ago))
    return session


def settled(tool: str, *, seconds: float = 1, status: CallStatus = CallStatus.COMPLETED, **fields: object) -> ToolCall:
    now = datetime.now(UTC)
    times = {"issued_at": now, "settled_at": now + timedelta(seconds=seconds)}
    return make_call(session=make_session(), tool=tool, status=status, **times, **fields)  # type: ignore[arg-type]


def today_of(workspace: int) -> day_totals.DayTotals:
    return day_totals.load_day_totals(workspace, datetime.now(UTC).date())


@pytest.mark.parametrize("rows", [1, 3])
def test_the_number_of_queries_does_not_depend_on_what_there_is(
    reader: Client, rows: int, django_assert_num_queries: Queries
) -> None:
    for number in range(rows):
        session = begun(number, cost="1.5", agent=f"desk-{number}")
        make_run(session=session)
        make_call(session=session, tool=f"tool-{number}")
        settled(f"other-{number}")
    complete()
    session_days.update_session_days(None)
    with django_assert_num_queries(14):
        page = said(reader.get("/overview/"))
    assert all(f"desk-{number}" in page for number in range(rows))


def test_a_store_with_nothing_in_it_says_so(reader: Client) -> None:
    # A web process of another test may have indexed the store before it was emptied.
    Progress.objects.all().delete()
    page = said(reader.get("/overview/"))
    assert "Nothing waits for a person." in page
    assert "No session has begun in the last 14 days." in page
    assert "are being added up for the first time" in page


def test_what_runs_and_waits_is_as_it_is_now() -> None:
    make_run(session=make_session())
    make_run(session=make_session(), lease=timedelta(hours=-1))
    make_session()
    for status in (SessionStatus.NEEDS_REVIEW, SessionStatus.PAUSED, SessionStatus.FAILED, SessionStatus.COMPLETED):
        make_session(status=status)
    old = make_session(status=SessionStatus.FAILED)
    Session.objects.filter(pk=old.pk).update(updated_at=F("updated_at") - timedelta(hours=25))
    make_session(workspace=make_workspace(slug="other"))
    found = current_counts.load_current_counts(make_workspace().pk)
    assert [str(each) for each in (found.running, found.stalled, found.paused, found.failed, found.completed)] == [
        "1",
        "2",
        "2",
        "1",
        "1",
    ]


def test_numbers_stop_at_a_limit_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_counts, "LIMIT", 2)
    for _ in range(3):
        make_session()
        make_session(status=SessionStatus.FAILED)
    found = current_counts.load_current_counts(make_workspace().pk)
    assert (str(found.stalled), str(found.failed)) == ("2+", "2+")


def test_the_longest_waiting_call_leads_to_its_card(reader: Client) -> None:
    call = make_call(session=make_session(status=SessionStatus.NEEDS_REVIEW))
    page = reader.get("/overview/").content.decode()
    assert f'href="/review/calls/{call.pk}/"' in page
    assert ">Refund card: " in page


def test_sessions_and_costs_are_added_by_day_and_agent() -> None:
    begun(0, "1.25", agent="desk", status=SessionStatus.COMPLETED)
    begun(0, "2", agent="desk", status=SessionStatus.FAILED)
    begun(13, "4", agent="mail")
    begun(14, "8", agent="old")
    session_days.update_session_days(None)
    found = today_of(make_workspace().pk)
    assert found.today == SessionTotals(2, 1, 1, Decimal("3.25"))
    assert found.by_day[0][1] == SessionTotals(1, 0, 0, Decimal(4))
    assert [agent for agent, _ in found.by_agent] == ["mail", "desk"]
    assert found.total.cost == Decimal("7.25")


def test_a_day_in_which_something_has_changed_is_counted_anew() -> None:
    session = begun(3, "1", agent="desk")
    since = session_days.update_session_days(None)
    Session.objects.filter(pk=session.pk).update(budget_spent_usd=5, agent="mail", updated_at=since)
    session_days.update_session_days(since)
    assert list(SessionDay.objects.values_list("agent", "sessions", "cost")) == [("mail", 1, Decimal(5))]


def test_deleted_sessions_are_gone_with_the_next_hour() -> None:
    session = begun(3, "1")
    since = session_days.update_session_days(None)
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=90))
    session_days.update_session_days(since - timedelta(hours=1))
    assert not SessionDay.objects.exists()


def test_each_call_counts_once_when_it_is_settled() -> None:
    settled("slow", seconds=20)
    settled("slow", seconds=40)
    settled("quick", seconds=0.5, status=CallStatus.FAILED)
    settled("lost", interrupted_at=datetime.now(UTC))
    settled("never", status=CallStatus.REJECTED)
    waiting = make_call(session=make_session(), tool="waiting", issued_at=datetime.now(UTC))
    complete()
    complete()
    workspace = make_workspace().pk
    found = {tool.name: tool for tool in day_totals.load_tool_totals(workspace, datetime.now(UTC).date())}
    assert sorted(found) == ["lost", "quick", "slow"]
    assert (found["slow"].calls, round(found["slow"].mean or 0)) == (2, 30)
    assert (found["quick"].failed_share, found["lost"].interrupted_share) == (1, 1)
    assert found["lost"].mean is None
    assert [tool.name for tool in day_totals.sort_slowest_tools(found.values())] == ["slow", "quick"]
    assert [tool.name for tool in day_totals.sort_most_interrupted_tools(found.values())] == ["lost"]
    ToolCall.objects.filter(pk=waiting.pk).update(status="failed", revision=9)
    complete()
    assert ToolDay.objects.get(tool="waiting").interrupted == 1


def test_an_index_that_is_made_anew_counts_nothing_twice() -> None:
    settled("slow")
    complete()
    indexer.clear_index()
    complete()
    assert ToolDay.objects.get().calls == 1


def test_hostile_names_are_text(reader: Client) -> None:
    evil = "<script>alert(1)</script>"
    begun(0, agent=evil)
    settled(evil)
    make_call(session=make_session(), sentence=evil)
    complete()
    session_days.update_session_days(None)
    page = reader.get("/overview/").content.decode()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
