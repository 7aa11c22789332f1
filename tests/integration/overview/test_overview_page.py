"""The overview page: what it lists and offers."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.http import QueryDict
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Role, SessionStatus
from checkpoints.models import Session, ToolCall
from harness_site.overview import period_totals, periods
from harness_site.overview.period_totals import SessionTotals
from harness_site.review.selectors import pending_calls
from harness_site.search import recount_session_sums_by_day
from harness_site.search.models import Progress
from tests.integration.overview.started_sessions_and_settled_calls import make_settled_call, make_started_session
from tests.integration.search.conftest import complete
from tests.support.factories import (
    make_call,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_the_data(reader: Client, rows: int, django_assert_num_queries: Queries) -> None:
    for number in range(rows):
        session = make_started_session(number, cost="1.5", agent=f"desk-{number}")
        make_run(session=session)
        make_call(session=session, tool=f"tool-{number}")
        make_settled_call(f"other-{number}")
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    with django_assert_num_queries(26):  # two of them are about usual amounts of the tools
        page = visible_text(reader.get("/overview/"))
    assert all(f"desk-{number}" in page for number in range(rows))


def test_agents_have_the_number_of_their_waiting_calls_whatever_the_state_of_the_session(reader: Client) -> None:
    desk, other = make_started_session(1, agent="desk"), make_started_session(2, agent="other")
    Session.objects.filter(pk=desk.pk).update(status=SessionStatus.COMPLETED)
    for number in range(2):
        make_call(session=desk, call_id=f"call_{number}")
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    context = reader.get("/overview/").context
    waiting = {each.name: str(number) for each, number in context["agents_with_undecided"]}
    assert waiting == {desk.agent: "2", other.agent: "0"}
    assert str(context["undecided"]) == "2"
    workspace = desk.workspace
    bounded = pending_calls.count_pending_calls_by_agent(workspace, [desk.agent, other.agent], limit=1)
    assert {name: str(count) for name, count in bounded.items()} == {desk.agent: "1+", other.agent: "0+"}


def test_a_store_that_was_not_counted_yet_is_reported(reader: Client) -> None:
    make_session()
    page = visible_text(reader.get("/overview/"))
    assert "nothing waits" in page
    assert "No session was started in this period." in page
    assert "the sums are being computed for the first time" in page


def test_page_says_as_of_when_its_sums_are(reader: Client) -> None:
    make_started_session(0)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    before = datetime.now(UTC) - timedelta(minutes=7)
    Progress.objects.filter(sums_at__isnull=False).update(sums_at=before)
    page = reader.get("/overview/").content.decode()
    assert f'updated <time datetime="{before:%Y-%m-%dT%H:%M:%S}' in page
    assert 'hx-trigger="live:any from:body, every 15s"' in page


def test_agents_are_a_choice_once_there_are_two(reader: Client) -> None:
    make_started_session(0, agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert 'id="agent"' not in reader.get("/overview/").content.decode()
    assert 'id="agent"' in reader.get("/overview/?agent=other").content.decode()
    make_started_session(0, agent="mail")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert 'id="agent"' in reader.get("/overview/").content.decode()


def test_an_agent_narrows_every_number_and_stays_in_the_links(reader: Client) -> None:
    desk = make_session(agent="refund desk", status=SessionStatus.FAILED, budget_spent_usd="2", title="Cracked shade")
    mail = make_session(agent="mail", budget_spent_usd="4")
    now = datetime.now(UTC)
    for session, tool in ((desk, "refund"), (mail, "send")):
        times = {"issued_at": now, "settled_at": now + timedelta(seconds=2), "interrupted_at": now}
        call = make_call(session=session, tool=tool, status=CallStatus.COMPLETED, **times)  # type: ignore[arg-type]
        make_decision(call=call, created_at=now + timedelta(seconds=2))
        make_message(session=session, body={"role": "assistant", "model": f"model-of-{tool}"})
    make_call(session=mail, tool="undecided", call_id="undecided")
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    period, _problem = periods.parse_period_and_problem(QueryDict(""), now)
    found = period_totals.load_period_totals(make_workspace().pk, period, "refund desk")
    assert found.total == SessionTotals(1, 0, 1, 0, 0, Decimal(2))
    assert [agent.name for agent in found.agents] == ["refund desk"]
    assert [model.name for model in found.models] == ["model-of-refund"]
    assert ([tool.name for tool in found.tools], found.interrupted_call_count, found.waits.decisions) == (
        ["refund"],
        1,
        1,
    )
    html = reader.get("/overview/?period=24h&agent=refund+desk").content.decode()
    assert '<option value="mail">' in html
    assert '<option value="refund desk" selected>' in html
    assert "nothing waits" in visible_text(reader.get("/overview/?agent=refund+desk"))
    assert "nothing waits" not in visible_text(reader.get("/overview/?agent=mail"))
    main = html[html.index('<div id="overview"') :]
    links = re.findall(r'href="((?:/sessions/|/review/|\?period)[^"]*)"', main)
    assert len(links) > 20
    assert all("agent=refund+desk" in link or "agent=refund%20desk" in link for link in links)


def test_hostile_names_are_escaped(reader: Client) -> None:
    evil = "<script>alert(1)</script>"
    make_started_session(0, agent=evil)
    make_settled_call(evil)
    make_call(session=make_session(), sentence=evil)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/").content.decode().replace("<wbr>", "")
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 6


def test_tables_without_rows_are_left_out(reader: Client) -> None:
    make_started_session(0, agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "Cost by agent" in page
    assert "Slowest tools" not in page
    assert "Tools interrupted most" not in page
    make_settled_call("slow")
    make_settled_call("lost", interrupted_at=datetime.now(UTC))
    complete()
    page = visible_text(reader.get("/overview/"))
    assert "Slowest tools" in page
    assert "lost 1 of 1 few calls" in page
    assert "100 %" not in page.partition("Tools interrupted most")[2]


def test_all_agents_and_models_are_listed_on_request(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period_totals, "MAX_LISTED", 1)
    for name in ("desk", "mail", "bills"):
        make_started_session(0, agent=name)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=7d")
    assert 'href="?period=7d&amp;all=agents#agents">Show 2 more agents</a>' in page.content.decode()
    page = reader.get("/overview/?period=7d&all=agents")
    assert [each.name for each in page.context["sums"].agents] == ["bills", "desk", "mail"]
    assert 'href="?period=7d#agents">Show fewer agents</a>' in page.content.decode()


def test_a_period_without_sessions_keeps_the_choice_of_agents(reader: Client) -> None:
    make_started_session(0, "1", agent="desk")
    make_started_session(0, "1", agent="mail")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?first=2026-03-01&last=2026-03-02")
    assert page.context["agents"] == ["desk", "mail"]


def test_an_installation_without_sessions_leads_to_the_first_agent(client: Client) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    page = client.get("/overview/").content.decode()
    assert "No agent has started a session yet." in page
    assert 'href="/settings/connect/"' in page
    make_session()
    assert "No agent has started a session yet." not in visible_text(client.get("/overview/"))


def test_tools_of_mcp_servers_have_the_name_that_other_pages_use(reader: Client) -> None:
    session = make_session()
    for number, tool in enumerate(("refund", "mcp__shop__refund")):
        make_call(session=session, call_id=f"c{number}", tool=tool, interrupted_at=clock.now(), issued_at=clock.now())
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    interrupted = visible_text(page).partition("Tools interrupted most")[2]
    assert re.search(r"refund MCP server shop 1 of 1", interrupted)
    assert re.search(r"refund 1 of 1", interrupted)
    assert "mcp__" not in visible_text(page)
    assert "tool=mcp__shop__refund" in page.content.decode()
    for address in ("/calls/", f"/sessions/{session.pk}/calls/", "/review/", f"/sessions/{session.pk}/history/"):
        html = reader.get(address).content.decode().replace("<wbr>", "")
        assert not re.search(r">[^<]*mcp__[^<]*</(?:a|span|b|bdi|code|h1|p)>", html), address
    call = ToolCall.objects.get(tool="mcp__shop__refund")
    assert "refund · MCP server shop" in visible_text(reader.get(f"/review/calls/{call.pk}/"))


def test_tools_with_interrupted_calls_that_are_not_listed_are_counted(reader: Client) -> None:
    session = make_session()
    for number in range(period_totals.TOOLS + 1):
        make_call(
            session=session,
            call_id=f"c{number}",
            tool=f"tool_{number}",
            interrupted_at=clock.now(),
            issued_at=clock.now(),
        )
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    assert "1 more tool has interrupted calls." in visible_text(page)
    assert "Show all interrupted calls" in visible_text(page)
