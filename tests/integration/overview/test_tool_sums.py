"""Sums of tool calls: slowest, failed and interrupted ones."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from django.http import HttpResponse, QueryDict
from django.test import Client

from checkpoints.enums import UNSETTLED_CALL_STATUSES, CallStatus, DecisionKind, InterruptReason
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX
from harness_site.overview import period_totals, periods
from harness_site.search import hourly_call_and_decision_sums, indexer, recount_session_sums_by_day
from harness_site.search.models import DecisionSums, ToolSums
from tests.integration.overview.started_sessions_and_settled_calls import load_totals, make_settled_call
from tests.integration.search.conftest import complete
from tests.support.factories import make_call, make_decision, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_each_settled_call_counts_once() -> None:
    make_settled_call("slow", seconds=20)
    make_settled_call("slow", seconds=40)
    make_settled_call("quick", seconds=0.5, status=CallStatus.FAILED)
    make_settled_call("lost", interrupted_at=datetime.now(UTC))
    make_settled_call("never", status=CallStatus.REJECTED)
    answered = make_settled_call("answered", seconds=3_600)  # by a person, so that it never ran
    make_decision(call=answered, kind=DecisionKind.RESPOND)
    reopened = make_settled_call("slow", seconds=30)
    make_decision(call=reopened, kind=DecisionKind.RESPOND, revision=1)
    make_decision(call=reopened, kind=DecisionKind.WITHDRAW, revision=2)
    make_decision(call=reopened, kind=DecisionKind.APPROVE, revision=3)
    make_settled_call(
        "interrupt", seconds=3_600, idempotency_key=f"{INTERRUPT_KEY_PREFIX}q1:0"
    )  # a person took so long
    now = datetime.now(UTC)
    waiting = make_call(session=make_session(), tool="waiting", issued_at=now, interrupted_at=now)
    complete()
    complete()
    sums = load_totals()
    found = {tool.name: tool for tool in sums.tools}
    assert sorted(found) == ["interrupt", "lost", "quick", "slow", "waiting"]
    assert (found["interrupt"].calls, found["interrupt"].mean) == (1, None)
    assert (found["slow"].calls, round(found["slow"].mean or 0)) == (3, 30)
    assert (found["quick"].failed_share_of_finished, found["lost"].interrupted_share) == (1, 1)
    assert found["lost"].mean is None
    assert [tool.name for tool in sums.slowest_tools] == ["slow", "quick"]
    assert [tool.name for tool in sums.tools_interrupted_most] == ["lost", "waiting"]
    assert sums.interrupted_call_count == sum(tool.interrupted for tool in sums.tools) == 2
    ToolCall.objects.filter(pk=waiting.pk).update(status="failed", revision=9)
    complete()
    assert ToolSums.objects.get(tool="waiting", hourly=False).interrupted == 1
    assert load_totals().interrupted_call_count == 2


def test_rebuilt_index_counts_nothing_twice() -> None:
    make_settled_call("slow")
    complete()
    indexer.clear_index_with_call_and_decision_sums()
    complete()
    assert ToolSums.objects.get(hourly=False).calls == 1


def test_tools_that_fail_most_lead_to_their_failed_calls(reader: Client) -> None:
    for tool, failed, calls in (("mail", 3, 4), ("pay", 1, 4), ("rare", 1, 1), ("fine", 0, 2)):
        for number in range(calls):
            make_settled_call(tool, status=CallStatus.FAILED if number < failed else CallStatus.COMPLETED)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    html = reader.get("/overview/").content.decode()
    table = html.partition("Tools that fail most</h2>")[2].partition("</table>")[0]
    assert re.findall(r'<a class="mono"[^>]*>(\w+)</a>', table) == ["mail", "pay", "rare"]
    links = re.findall(r'<a href="([^"]*status=failed[^"]*)">(\d)</a> of (\d)', table)
    assert [(failed, calls) for _link, failed, calls in links] == [("3", "4"), ("1", "4"), ("1", "1")]
    listed = reader.get(links[0][0].replace("&amp;", "&")).content.decode()
    assert len(re.findall(r'<a data-row href="[^"]*/calls/\d+/', listed)) == 3


def test_share_of_failed_calls_leaves_out_those_whose_outcome_is_unknown(reader: Client) -> None:
    make_settled_call("pay", status=CallStatus.FAILED)
    for _ in range(2):
        make_settled_call("pay")
    now = datetime.now(UTC)
    make_call(session=make_session(), tool="pay", issued_at=now, interrupted_at=now)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    html = reader.get("/overview/").content.decode()
    table = html.partition("Tools that fail most</h2>")[2].partition("</table>")[0]
    assert "pay 1 of 3 33 %" in visible_text(HttpResponse(table))


def test_finished_calls_of_the_slowest_tools_are_those_of_the_list_behind_them(reader: Client) -> None:
    make_settled_call("deploy", seconds=20)
    make_settled_call("deploy", seconds=40, status=CallStatus.FAILED)
    again = make_settled_call("deploy", status=CallStatus.SUPERSEDED, interrupted_at=datetime.now(UTC))
    make_settled_call("deploy", supersedes=again, step=-4)
    make_settled_call("deploy", status=CallStatus.DISCARDED, reason=InterruptReason.NO_RESULT)
    make_settled_call("deploy", status=CallStatus.REJECTED)
    make_settled_call("deploy", step=-4)  # copied by a fork
    make_decision(call=make_settled_call("deploy"), kind=DecisionKind.RESPOND)
    for status in (CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED, CallStatus.AWAITING_APPROVAL, CallStatus.ISSUED):
        interrupted_at = datetime.now(UTC) if status in UNSETTLED_CALL_STATUSES else None
        make_call(
            session=make_session(),
            tool="deploy",
            status=status,
            issued_at=datetime.now(UTC),
            interrupted_at=interrupted_at,
        )
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    table = reader.get("/overview/").content.decode().partition("Slowest tools</h2>")[2].partition("</table>")[0]
    assert "deploy 4 25 %" in visible_text(HttpResponse(table))
    link = re.search(r'<a class="mono"[^>]*href="([^"]*)">deploy', table)
    assert link is not None
    page = reader.get(unescape(link[1]))
    assert (page.context["page"].total, len(page.context["rows"])) == (4, 4)
    assert 'name="finished" value="1" checked' in page.content.decode()


def test_failed_calls_of_a_rarely_called_tool_are_counted_where_it_has_no_share(reader: Client) -> None:
    for number in range(period_totals.TOOLS):
        for _ in range(period_totals.ENOUGH):
            make_settled_call(f"tool-{number}", status=CallStatus.FAILED)
    make_settled_call("deploy", seconds=500, status=CallStatus.FAILED)
    make_settled_call("deploy", seconds=500)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    html = reader.get("/overview/").content.decode()
    table = html.partition("Tools that fail most</h2>")[2].partition("</section>")[0]
    assert "deploy" not in table
    assert "1 more tool has failed calls. Tools with fewer than three calls come last." in visible_text(
        HttpResponse(table)
    )
    link = re.search(r'<a href="([^"]*)">Show all failed calls', table)
    assert link is not None
    assert ">deploy<" in reader.get(unescape(link[1])).content.decode()
    costs = re.findall(
        r'<a href="/sessions/\?sort=started&amp;[^"]*&amp;tool=(tool-\d)" title="Cost of the whole', table
    )
    assert len(costs) == table.count('<tr><th scope="row">')
    slowest = html.partition("Slowest tools</h2>")[2].partition("</section>")[0]
    assert "deploy 2 1 of 2" in visible_text(HttpResponse(slowest))


def test_equal_shares_of_interrupted_calls_are_ordered_by_their_number(reader: Client) -> None:
    for tool in ("charge", "transfer", "transfer"):
        make_call(session=make_session(), tool=tool, issued_at=datetime.now(UTC), interrupted_at=datetime.now(UTC))
    assert [tool.name for tool in load_totals().tools_interrupted_most] == ["transfer", "charge"]


def test_calls_and_decisions_count_on_the_day_of_the_zone() -> None:
    workspace = make_workspace()
    for hour in (20, 22, 23):  # 22:00 on the first day, midnight and 01:00 on the second one
        moment = datetime(2026, 7, 1, hour, tzinfo=UTC)
        hourly_call_and_decision_sums.add_tallies_to_hour_and_day_sums(
            [
                hourly_call_and_decision_sums.Tally(ToolSums, (workspace.pk, moment, "desk", "pay"), (1, 0, 1, 0, 0.0)),
                hourly_call_and_decision_sums.Tally(DecisionSums, (workspace.pk, moment, "desk", 9), (1,)),
            ]
        )
    query = QueryDict("first=2026-07-01&last=2026-07-02&zone=Europe/Berlin")
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    found = period_totals.load_period_totals(workspace.pk, period)
    assert [number for _step, number in found.interruptions] == [1, 2]
    assert [waits.decisions for _step, waits in found.wait_steps] == [1, 2]
    assert [(tool.calls, tool.interrupted) for tool in found.tools] == [(3, 3)]
    query = QueryDict("first=2026-07-02&last=2026-07-02&zone=Europe/Berlin")
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    found = period_totals.load_period_totals(workspace.pk, period)
    assert [(tool.calls, tool.interrupted) for tool in found.tools] == [(2, 2)]
    assert found.preceding_waits.decisions == 1
