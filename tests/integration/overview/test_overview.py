"""The overview page and its sums."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from itertools import product
from time import sleep

import pytest
from django.db import connection
from django.db.models import F
from django.http import HttpResponse, QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.enums import (
    ActorKind,
    AuditKind,
    CallStatus,
    CostBasis,
    DecisionKind,
    Phase,
    Role,
    RunStatus,
    SessionStatus,
)
from checkpoints.exceptions import ApprovalRequired
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Decision, ImportedFile, Session, ToolCall
from checkpoints.models.tool_call import INTERRUPT_KEY_PREFIX
from harness_site.accounts.models import Membership
from harness_site.core.time_range_parameters import TimeRange
from harness_site.overview import charts, current_session_counts, periods, totals, views
from harness_site.overview.templatetags import harness_overview
from harness_site.overview.totals import SessionTotals
from harness_site.review.models import Claim
from harness_site.review.selectors import pending_calls
from harness_site.search import (
    call_and_decision_sums,
    daily_session_sums_recount,
    hourly_sums_retention,
    indexer,
)
from harness_site.search.models import DecisionSums, ModelSums, Progress, SessionSums, ToolSums
from harness_site.sessions.session_formatting import render_rounded_money
from tests.integration.search.conftest import complete
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
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


@pytest.fixture(autouse=True)
def nothing_is_indexed(db: None) -> None:
    """The indexer of a server that an earlier test stopped may have finished its last batch after that test."""
    Progress.objects.all().delete()


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def begun(days_ago: float, cost: str = "0", **fields: object) -> Session:
    session = make_session(budget_spent_usd=cost, **fields)  # type: ignore[arg-type]
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=days_ago))
    return session


def settled(tool: str, *, seconds: float = 1, status: CallStatus = CallStatus.COMPLETED, **fields: object) -> ToolCall:
    now = datetime.now(UTC)
    times = {"issued_at": now, "settled_at": now + timedelta(seconds=seconds)}
    return make_call(session=make_session(), tool=tool, status=status, **times, **fields)  # type: ignore[arg-type]


def load(query: str = "") -> totals.PeriodTotals:
    period, problem = periods.parse_period_and_problem(QueryDict(query), datetime.now(UTC))
    assert not problem
    return totals.load_period_totals(make_workspace().pk, period)


@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_the_data(reader: Client, rows: int, django_assert_num_queries: Queries) -> None:
    for number in range(rows):
        session = begun(number, cost="1.5", agent=f"desk-{number}")
        make_run(session=session)
        make_call(session=session, tool=f"tool-{number}")
        settled(f"other-{number}")
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    with django_assert_num_queries(27):
        page = visible_text(reader.get("/overview/"))
    assert all(f"desk-{number}" in page for number in range(rows))


def test_agents_have_the_number_of_their_waiting_calls_whatever_the_state_of_the_session(reader: Client) -> None:
    desk, other = begun(1, agent="desk"), begun(2, agent="other")
    Session.objects.filter(pk=desk.pk).update(status=SessionStatus.COMPLETED)
    for number in range(2):
        make_call(session=desk, call_id=f"call_{number}")
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
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


def test_current_counts_are_up_to_date() -> None:
    make_run(session=make_session())
    make_run(session=make_session(), lease=timedelta(hours=-1))
    make_run(session=make_session(), owner=False, status=RunStatus.LOST)
    make_run(session=make_session(), owner=False, status=RunStatus.RELEASED)
    resumed = make_session()
    make_run(session=resumed, owner=False, status=RunStatus.LOST)
    make_run(session=resumed, owner=False, status=RunStatus.RELEASED, number=2)
    make_session()
    for status in set(SessionStatus) - {SessionStatus.ACTIVE}:
        make_session(status=status)
    make_session(workspace=make_workspace(slug="other"))
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert [str(each) for each in (found.running, found.stalled, found.ready, found.paused)] == ["1", "2", "1", "2"]


def test_numbers_of_sessions_agree_with_the_lists_that_they_link_to(reader: Client) -> None:
    """A quarantined session has no other status in the list, so it is counted under no other."""
    now = datetime.now(UTC)
    for quarantined_at in (None, now):
        for status in set(SessionStatus) - {SessionStatus.ACTIVE, SessionStatus.CANCELLED}:
            begun(0, status=status, quarantined_at=quarantined_at)
        make_run(session=begun(0, quarantined_at=quarantined_at), owner=False, status=RunStatus.LOST)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert [each.number for each in (found.stalled, found.ready, found.paused, found.quarantined)] == [1, 1, 2, 6]
    assert load().total == SessionTotals(sessions=12, completed=1, failed=1, undecided=1, ready=1)
    page = reader.get("/overview/").content.decode()
    assert "6 sessions are quarantined" in page
    main = page[page.index('<div id="overview"') :]
    counts = {"quarantined": 6, "stalled": 1, "ready": 1, "failed": 1}
    links = {f"status={status}": number for status, number in counts.items()}
    for link, number in {**links, "sort=started": 12}.items():
        query = re.findall(rf'href="/sessions/\?({link}[^"]*)"', main)[0]
        assert reader.get("/sessions/?" + query.replace("&amp;", "&")).context["page"].total == number, link


def test_counts_stop_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_session_counts, "LIMIT", 2)
    for _ in range(3):
        make_run(session=make_session(), owner=False, status=RunStatus.LOST)
        make_session(status=SessionStatus.PAUSED)
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert (str(found.stalled), str(found.paused)) == ("2+", "2+")


def test_running_sessions_are_counted_beside_many_idle_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_session_counts, "LIMIT", 2)
    for lease in (timedelta(hours=1), timedelta(hours=-1)):
        make_run(session=make_session(), lease=lease)
    for _ in range(3):
        make_session()
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert (str(found.running), str(found.stalled)) == ("1", "1+")


def test_longest_waiting_call_links_to_its_card(reader: Client) -> None:
    call = make_call(session=make_session(status=SessionStatus.NEEDS_REVIEW))
    page = reader.get("/overview/").content.decode()
    assert f'href="/review/calls/{call.pk}/"' in page
    assert ">Refund card: " in page


def test_longest_waiting_call_may_be_one_that_awaits_approval(reader: Client) -> None:
    make_call(session=make_session(), tool="refund", interrupted_at=THEN)
    asked = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, issued_at=THEN - timedelta(hours=1))
    first = reader.get("/overview/").content.decode().partition("first-call")[2].partition("</li>")[0]
    assert f'href="/review/calls/{asked.pk}/"' in first


def test_overdue_call_comes_first_then_what_the_reader_may_decide_and_an_outage_is_one_row(reader: Client) -> None:
    now = datetime.now(UTC)
    for number in range(6):
        session = make_session(agent=f"desk-{number % 2}")
        make_call(session=session, tool="refund", interrupted_at=THEN + timedelta(seconds=number))
    overdue, due = (
        make_call(
            session=make_session(agent="desk-7"),
            status=CallStatus.AWAITING_APPROVAL,
            issued_at=now - timedelta(minutes=20),
            decide_within=timedelta(minutes=minutes),
        )
        for minutes in (5, 40)
    )

    def list_rows() -> tuple[str, list[str]]:
        response = reader.get("/overview/")
        rows = response.content.decode().split('<li class="first-call')[1:]
        return visible_text(response), [row.partition("</ul>")[0] for row in rows]

    page, (first, outage, late) = list_rows()
    assert "1 is overdue only an admin can decide" in page
    assert "All 8 calls" not in page  # each is in the list
    assert f'href="/review/calls/{due.pk}/"' in first
    assert 'href="/review/outages/?tool=refund&amp;' in outage
    assert "6 calls of refund interrupted within" in outage
    assert '<span class="chip unknown">' in outage
    assert ">2 agents<" in outage
    assert 'of-tool muted">refund_card</code>' in first
    assert ">desk-7<" in first
    assert 'class="deadline overdue"' in late
    assert "needs an admin" in late
    assert [">Decide<" in row for row in (late, first, outage)] == [False, True, True]
    reader.force_login(make_user(name="dora", role=Role.ADMIN))
    _page, (first, *_rest) = list_rows()
    assert f'href="/review/calls/{overdue.pk}/"' in first
    assert ">Decide<" in first
    assert "needs an admin" not in first
    for number in range(4):
        make_call(session=make_session(), tool=f"mail-{number}", interrupted_at=THEN)
    assert "All 12 calls" in list_rows()[0]
    reader.force_login(make_user(name="alan", role=Role.APPROVER))
    assert "needs an admin" not in "".join(list_rows()[1])  # more of what the approver can decide than is listed


def test_calls_to_decide_first_begin_with_what_was_handed_over_before_the_longest_waiting(
    reader: Client,
) -> None:
    asked, later, third, *_others = (
        make_call(
            session=make_session(),
            status=CallStatus.AWAITING_APPROVAL,
            interrupted_at=None,
            issued_at=THEN - timedelta(hours=9 - number),
        )
        for number in range(6)
    )
    make_call(session=make_session(), tool="push", interrupted_at=THEN - timedelta(hours=1))
    for number in range(2):
        make_call(session=make_session(), tool="charge", interrupted_at=THEN + timedelta(seconds=number))
    handed = make_call(session=make_session(), tool="mail", interrupted_at=THEN)
    member, now = Membership.objects.get(user__username="alice"), datetime.now(UTC)
    Claim.objects.create(call=handed, member=member, since=now, seen_at=now, handed_by="maya")

    page = reader.get("/overview/").content.decode()
    listed = page.partition('<h2 id="decide-first">Decide first</h2>')[2].partition("</section>")[0]
    links = re.findall(r'<a href="([^"]*)" dir="auto">', listed)
    assert links.pop(1).startswith("/review/outages/?tool=charge&amp;")
    assert links == [f"/review/calls/{call.pk}/" for call in (handed, asked, later, third)]
    assert "Handed to you first. Interrupted together first, then longest waiting." in listed
    assert "handed to you" in listed.partition("</li>")[0]


def test_calls_to_decide_first_with_the_same_sentence_say_in_what_they_differ(reader: Client) -> None:
    for number in (1050, 4339):
        args = {"amount": "148500.00", "purpose": f"Contract, ref {number}"}
        call = make_call(
            session=make_session(session_id=f"s{number}"), tool="wire", args=args, sentence="Transfer 148500.00"
        )
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.AWAITING_APPROVAL, interrupted_at=None)
    text = visible_text(reader.get("/overview/"))
    assert "Transfer 148,500.00 purpose: Contract, ref 1050" in text
    assert "Transfer 148,500.00 purpose: Contract, ref 4339" in text
    assert "amount: 148,500.00" not in text


def test_decided_sessions_that_nothing_continues_are_named_with_their_agents(reader: Client) -> None:
    now = datetime.now(UTC)
    for agent, minutes in (("desk", 40), ("desk", 30), ("mail", 20), ("fast", 2)):
        session = make_session(agent=agent, status=SessionStatus.READY)
        Session.objects.filter(pk=session.pk).update(updated_at=now - timedelta(minutes=minutes))
    page = reader.get("/overview/")
    text = visible_text(page)
    assert "3 sessions are decided but no process has continued them for more than 15 minutes" in text
    assert "Start their agents again, or tell the people who run them: desk 2, mail 1" in text
    assert 'href="/sessions/?status=ready&amp;agent=mail">mail</a>' in page.content.decode()
    assert "fast" not in text.partition("Start their agents")[2].partition("Now")[0]
    Session.objects.update(updated_at=now)
    assert "no process has continued" not in visible_text(reader.get("/overview/"))


@pytest.mark.parametrize(
    ("hours", "is_first", "summary"),
    [(1, True, "within an hour"), (20, True, "within a day"), (30, False, "oldest")],
)
def test_call_that_is_due_within_a_day_comes_before_those_that_wait_longer(
    reader: Client, hours: int, is_first: bool, summary: str
) -> None:
    make_call(session=make_session(), tool="refund", interrupted_at=THEN)
    due = make_call(
        session=make_session(),
        status=CallStatus.AWAITING_APPROVAL,
        issued_at=datetime.now(UTC) - timedelta(minutes=20),
        decide_within=timedelta(hours=hours),
    )
    page = reader.get("/overview/").content.decode()
    first = page.partition('<li class="first-call')[2].partition("</li>")[0]
    assert (f'href="/review/calls/{due.pk}/"' in first, "due in" in first) == (is_first, is_first)
    assert "due in" in page  # a later deadline is shown, too
    assert summary in page.partition(">Needs a decision<")[2].partition("</li>")[0]


def test_an_auditor_is_offered_to_view_the_first_call(client: Client) -> None:
    client.force_login(make_user(name="olga", role=Role.AUDITOR))
    make_call(session=make_session(), tool="refund", interrupted_at=THEN)
    strip = client.get("/overview/").content.decode().partition("first-call")[2].partition("</li>")[0]
    assert ">View<" in strip
    assert ">Decide<" not in strip


def test_what_others_decide_stands_below_the_numbers_for_an_auditor(reader: Client, client: Client) -> None:
    make_call(session=make_session(), tool="refund", interrupted_at=THEN)
    for role, comes_first in ((Role.APPROVER, True), (Role.AUDITOR, False)):
        client.force_login(make_user(name=role, role=role))
        page = client.get("/overview/").content.decode()
        assert (page.index('id="decide-first"') < page.index('id="numbers-of-period"')) == comes_first


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
    begun(0)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert "Last 24 hours in UTC" in visible_text(reader.get("/overview/"))
    begun(20)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert re.search(r"\w+ to \w+ [\w ]+ in UTC", visible_text(reader.get("/overview/")))


@pytest.mark.parametrize("period", periods.CHOICES)
def test_every_period_has_the_same_charts_with_axes(reader: Client, period: str) -> None:
    begun(0, "1.234", status=SessionStatus.COMPLETED)
    make_call(session=make_session(), issued_at=datetime.now(UTC), interrupted_at=datetime.now(UTC))
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
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


def test_page_says_as_of_when_its_sums_are(reader: Client) -> None:
    begun(0)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    before = datetime.now(UTC) - timedelta(minutes=7)
    Progress.objects.filter(sums_at__isnull=False).update(sums_at=before)
    page = reader.get("/overview/").content.decode()
    assert f'updated <time datetime="{before:%Y-%m-%dT%H:%M:%S}' in page
    assert 'hx-trigger="live:any from:body, every 15s"' in page


def test_sessions_with_lost_runs_are_counted_beside_the_orphaned_ones(reader: Client) -> None:
    """A session that lost a run and went on is no orphan, but the loss has happened."""
    now = datetime.now(UTC)
    resumed, earlier = begun(0, agent="desk"), begun(3, agent="desk")
    for session, ended in ((resumed, now), (resumed, now), (earlier, now - timedelta(days=3))):
        make_run(session=session, owner=False, status=RunStatus.LOST, ended_at=ended)
    for session in (resumed, earlier, begun(0, agent="mail")):
        make_run(session=session, owner=False, status=RunStatus.RELEASED, ended_at=now)
    make_run(session=make_session(workspace=make_workspace(slug="other")), status=RunStatus.LOST, ended_at=now)
    numbers = {"period=24h": 1, "period=7d": 2, "period=7d&agent=desk": 2, "period=7d&agent=mail": 0}
    for query, number in numbers.items():
        page = reader.get(f"/overview/?{query}")
        assert (page.context["present"].stalled.number, page.context["lost"].number) == (0, number), query
        links = re.findall(r'href="(/sessions/[?]lost=1[^"]*)">(\d+) sessions? lost a run in', page.content.decode())
        if not number:
            assert not links
            assert "no session lost a run in 7 days" in visible_text(page)
            continue
        ((link, shown),) = links
        assert int(shown) == number
        listed = reader.get(link.replace("&amp;", "&"))
        assert listed.context["page"].total == number, query
        assert 'name="lost" value="1" checked' in listed.content.decode()


def test_sessions_that_are_ready_to_resume_are_counted(reader: Client) -> None:
    begun(2, status=SessionStatus.READY)
    begun(0, status=SessionStatus.READY, quarantined_at=datetime.now(UTC))
    Session.objects.update(updated_at=datetime.now(UTC) - timedelta(hours=5))
    response = reader.get("/overview/")
    assert "Ready to resume1oldest 5 h ago" in visible_text(response)
    assert 'href="/sessions/?status=ready"' in response.content.decode()
    assert reader.get("/sessions/?status=ready").context["page"].total == 1


def test_agents_are_a_choice_once_there_are_two(reader: Client) -> None:
    begun(0, agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert 'id="agent"' not in reader.get("/overview/").content.decode()
    assert 'id="agent"' in reader.get("/overview/?agent=other").content.decode()
    begun(0, agent="mail")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert 'id="agent"' in reader.get("/overview/").content.decode()


def test_sessions_and_costs_are_summed_by_day_and_agent() -> None:
    begun(0, "1.25", agent="desk", status=SessionStatus.COMPLETED)
    begun(0, "2", agent="desk", status=SessionStatus.FAILED)
    begun(13, "4", agent="mail")
    begun(14, "8", agent="old")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    found = load()
    assert found.steps[-1][1] == SessionTotals(2, 1, 1, 0, 0, Decimal("3.25"))
    assert found.steps[0][1] == SessionTotals(1, 0, 0, 0, 0, Decimal(4))
    assert [agent.name for agent in found.agents] == ["mail", "desk"]
    assert found.total.cost == Decimal("7.25")
    assert found.preceding == SessionTotals(1, 0, 0, 0, 0, Decimal(8))
    assert load("period=24h").total == SessionTotals(2, 1, 1, 0, 0, Decimal("3.25"))
    assert load("period=90d").total.cost == Decimal("15.25")
    day = (datetime.now(UTC) - timedelta(days=14)).date().isoformat()
    assert load(f"first={day}&last={day}").total == SessionTotals(1, 0, 0, 0, 0, Decimal(8))


def test_costs_are_summed_by_model_and_link_to_their_sessions(reader: Client) -> None:
    """The model is named by messages, usage or a phase; a cost is divided only if the parts are stated."""
    imported = begun(0, "1", title="imported")
    make_message(session=imported, body={"role": "user", "source": {"context": {"model": "large-1"}}})
    make_message(session=begun(3, "2", title="answered"), body={"role": "assistant", "model": "large-1"})
    make_message(session=begun(0, "16", title="quoted"), body={"role": "user", "model": "no-model"})
    usage = {"by_model": {"large-1": {"cost_usd": "3"}, "small-1": {"cost_usd": 0.5, "output_tokens": 9}}}
    make_checkpoint(session=begun(0, "4", title="routed", total_tokens=2_000_000), usage=to_canonical_json(usage))
    phased, mixed = begun(0, "32", title="phased"), begun(0, "64", title="mixed")
    make_checkpoint(session=phased, phase=Phase.POST_LLM, payload='{"details":{"finish_reason":"","model":"small-1"}}')
    make_checkpoint(session=phased, phase=Phase.PRE_LLM, payload='{"details":{"model":"asked-for"}}')
    for model in ("large-1", "small-1"):
        make_checkpoint(session=mixed, usage=to_canonical_json({"model": model}), payload="not JSON")
        daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert load().models == ()  # the messages have not been read yet
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(datetime.now(UTC))
    rows = {("several" if row.several else row.name): (row.sessions, row.cost) for row in load().models}
    assert rows == {
        "large-1": (3, Decimal(6)),
        "small-1": (2, Decimal("32.5")),
        "several": (2, Decimal("64.5")),
        "": (1, Decimal(16)),
    }
    assert {("several" if row.several else row.name): row.tokens for row in load().models} == {
        "large-1": 0,
        "small-1": 9,
        "several": 1_999_991,
        "": 0,
    }
    page = reader.get("/overview/").content.decode()
    assert '<span title="1,999,991">2.0 M</span>' in page
    for link, titles in {
        "model=large-1": {"imported", "answered", "routed", "mixed"},
        "model=small-1": {"routed", "mixed", "phased"},
        "models=several": {"routed", "mixed"},
        "models=unknown": {"quoted"},
    }.items():
        (query,) = re.findall(rf'href="/sessions/\?([^"]*{link})"', page)
        listed = reader.get("/sessions/?" + query.replace("&amp;", "&")).content.decode()
        assert set(re.findall(r'dir="auto">(\w+)</a>', listed)) == titles


def test_what_a_fork_has_copied_is_not_spent_twice(cp: SyncCheckpointer, reader: Client) -> None:
    """A fork is a session of its own. Its past, which its original has paid, counts there alone."""
    registry = ToolRegistry()

    @registry.tool(side_effects={"write"})
    def mail(to: str) -> str:
        # SQLite stores milliseconds, and a call without a duration has no mean.
        sleep(0.01)
        return f"sent to {to}"

    def spend(session_id: str, cost: str, **usage: object) -> None:
        with cp.session(session_id, "", agent="desk", registry=registry) as session:
            session.append([{"role": "user", "content": "more"}], budget_spent_usd=Decimal(cost), usage=usage)

    with cp.session("origin", "", agent="desk", registry=registry) as session:
        session.append([{"role": "user", "content": "hello"}])
        session.dispatch("mail", {"to": "ana"}, call_id="c1")
    spend("origin", "4", model="large-1", total_tokens=1_000_000)
    for name in ("idle", "busy", "pruned", "counts anew", "of two"):
        cp.fork_session("origin", name)
    spend("busy", "4.5", model="large-1", total_tokens=1_200_000)
    spend("pruned", "6", model="large-1", total_tokens=1_400_000)
    cp.prune("pruned", keep_last=1)
    spend("counts anew", "0.25", model="large-1", total_tokens=20_000)
    spend("of two", "5", by_model={"large-1": {"cost_usd": 4}, "small-1": {"cost_usd": 1}}, total_tokens=1_000_500)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    found = load()
    assert (found.total.sessions, found.total.tokens) == (6, 1_000_000 + 200_000 + 400_000 + 20_000 + 500)
    assert found.total.cost == Decimal(4) + Decimal("0.5") + 2 + Decimal("0.25") + 1
    assert found.total == load("period=24h").total
    assert {(row.name, row.several): (row.sessions, row.tokens, row.cost) for row in found.models} == {
        ("large-1", False): (5, 1_620_000, Decimal("6.75")),
        ("", True): (1, 500, Decimal(1)),
    }
    assert [(tool.name, tool.calls) for tool in found.tools] == [("mail", 1)]
    page = visible_text(reader.get("/overview/"))
    assert "Sessions started6" in page
    assert "Cost$7.75" in page
    assert "Slowest tools Tool Calls Failed Mean mail 1 " in page
    assert "Cost by model Model Sessions Tokens Cost large-1 5 1.6 M $6.75 several models 1 500 $1.00" in page
    ModelSums.objects.update(cost=0)
    page = visible_text(reader.get("/overview/"))
    assert "Tokens by model Model Sessions Tokens large-1 5 1.6 M several models 1 500" in page
    ModelSums.objects.update(tokens=0)
    page = visible_text(reader.get("/overview/"))
    assert re.search("Sessions by model Model Sessions large-1 5 several models 1(?! –)", page)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (0, "–"),
        (999, "999"),
        (27_566, '<span title="27,566">28 k</span>'),
        (999_499, '<span title="999,499">999 k</span>'),
        (999_500, '<span title="999,500">1.0 M</span>'),
    ],
)
def test_large_numbers_of_tokens_are_rounded(tokens: int, shown: str) -> None:
    assert harness_overview.render_token_sum(tokens) == shown


def test_old_hours_are_deleted_and_days_keep_their_sums() -> None:
    begun(0, "1")
    begun(0, "2")
    settled("slow")
    complete()
    now = daily_session_sums_recount.recount_changed_days_and_record_models(None)
    settled("slow")
    complete()
    for sums in (SessionSums, ToolSums):
        assert set(sums.objects.values_list("hourly", flat=True)) == {True, False}
    hourly_sums_retention.delete_outdated_hourly_sums(now + timedelta(days=733))
    assert load("period=24h").total == load("period=7d").total == SessionTotals(3, cost=Decimal(3))
    hourly_sums_retention.delete_outdated_hourly_sums(now + timedelta(days=734))
    day = call_and_decision_sums.get_utc_day_start(now)
    assert list(SessionSums.objects.values_list("start", "hourly", "sessions", "cost")) == [(day, False, 3, Decimal(3))]
    assert list(ToolSums.objects.values_list("start", "hourly", "calls")) == [(day, False, 2)]


def test_waiting_time_ends_with_the_decision_of_a_person() -> None:
    now = datetime.now(UTC)
    for minutes, actor_kind, kind, final in (
        (1, "person", "approve", True),
        (2, "person", "mark_failed", True),
        (60, "token", "confirm_landed", True),
        (600, "hook", "probe_landed", True),
        (600, "person", "approve_rerun", False),
    ):
        since = now - timedelta(minutes=minutes)
        asked = {"issued_at": since} if kind == "approve" else {"interrupted_at": since}
        call = make_call(session=make_session(), **asked)  # type: ignore[arg-type]
        Decision.objects.create(
            session=call.session, tool_call=call, kind=kind, actor_kind=actor_kind, actor="a", final=final, revision=1
        )
    complete()
    found = load("period=24h").waits
    assert found.decisions == 3 == sum(DecisionSums.objects.filter(hourly=False).values_list("decisions", flat=True))
    assert found.median == pytest.approx(120, rel=0.1)
    assert found.p95 == pytest.approx(3600, rel=0.1)
    assert load("first=2001-01-01&last=2001-01-02").waits.median is None


@pytest.mark.django_db(transaction=True)
def test_waiting_time_of_a_call_that_has_run_begins_with_the_request_for_its_approval(cp: SyncCheckpointer) -> None:
    """The time of its start replaces the time of the request, which only the audit trail has then."""
    registry = ToolRegistry()
    registry.tool(requires_approval=True, name="send_note")(lambda text: f"sent: {text}")
    with suppress(ApprovalRequired), cp.session("s", "Send a note", registry=registry) as session:
        session.dispatch("send_note", {"text": "a"}, 'call "1"')
    request = AuditEvent.objects.get(kind=AuditKind.APPROVAL_REQUESTED)
    AuditEvent.objects.filter(pk=request.pk).update(created_at=F("created_at") - timedelta(minutes=10))
    request.pk, request.details = None, to_canonical_json({"call_id": "another call", "tool": "send_note"})
    request.save(force_insert=True)
    cp.approve_call("s", 'call "1"', actor="alice", reason="Right.", revision=1)
    with cp.session("s", registry=registry) as session:
        session.dispatch("send_note", {"text": "a"}, 'call "1"')
    complete()
    assert load("period=24h").waits.median == pytest.approx(600, rel=0.1)


def test_waiting_time_classes_are_accurate_to_a_tenth() -> None:
    for seconds in (0, 1, 5, 59, 3600, 86_400 * 30):
        wait = call_and_decision_sums.convert_seconds_to_wait_class(seconds)
        assert call_and_decision_sums.convert_wait_class_to_seconds(wait) == pytest.approx(max(seconds, 1), rel=0.1)


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


@pytest.mark.parametrize("period", ["period=24h", "period=90d", "first=2026-03-02&last=2026-03-01"])
def test_numbers_and_bars_link_to_what_they_count(reader: Client, period: str) -> None:
    for days in (0, 0.1, 1):
        begun(days, "1.25", agent="desk", status=SessionStatus.FAILED)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get(f"/overview/?{period}").content.decode()
    swap = 'href="?first=2026-03-01&amp;last=2026-03-02">Swap the two days<' in page
    assert swap == ('name="first" value="2026-03-02"' in page) == ("first" in period)
    now, links = datetime.now(UTC), re.findall(r'href="(/sessions/[^"]*status=failed&amp;sort=started[^"]*)"', page)
    first, last = f"{now:%Y-%m-%d}", f"{now:%Y-%m-%d}"
    if "24h" in period:
        first, last = f"{now:%Y-%m-%dT%H}:00", f"{now + timedelta(hours=1):%Y-%m-%dT%H}:00"
    elif "90d" in period:
        first = f"{now - timedelta(days=6):%Y-%m-%d}"
    bar = f"/sessions/?first={first}&amp;last={last}&amp;status=failed&amp;sort=started"
    assert bar in links
    # Before midnight, 24 hours are a whole day, which the link names by its date.
    end = f"{now:%Y-%m-%d}" if "24h" in period and now.hour == 23 else last
    of_period = [link for link in links if link.startswith("/sessions/?status") and link.endswith(f"last={end}")]
    assert of_period
    for link in (bar, *of_period):
        assert "desk" in visible_text(reader.get(link.replace("&amp;", "&")))


def test_a_cost_says_what_is_estimated_and_what_is_missing(reader: Client) -> None:
    make_session(agent="desk", budget_spent_usd="2", cost_basis=CostBasis.ESTIMATED)
    make_session(agent="mail", budget_spent_usd="3")
    for _ in range(2):
        make_session(agent="mail", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    assert "2 have no known cost" in visible_text(page)
    html = page.content.decode()
    assert '<abbr title="A part of this is an estimate from the price table">≈</abbr> $5.00' in html
    assert '<abbr title="An estimate from the price table">≈</abbr> $2.00' in html
    assert '<td class="number" title="2 have no known cost">$3.00</td>' in html
    assert "neither their agents nor a price table" not in visible_text(page)  # half of the costs are known


def test_unknown_costs_of_most_sessions_lead_to_the_price_table(reader: Client, client: Client) -> None:
    make_session(agent="desk", budget_spent_usd="2")
    for _ in range(2):
        make_session(agent="mail", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    sentence = "The cost of 2 of 3 sessions is unknown: neither their agents nor a price table state it."
    page = visible_text(reader.get("/overview/"))
    assert f"{sentence} An admin sees under Settings, System how to set up a price table." in page
    assert "2 have no known cost" in visible_text(reader.get("/overview/?agent=mail"))
    client.force_login(make_user(name="root", role=Role.ADMIN))
    html = client.get("/overview/").content.decode()
    assert 'href="/settings/system/#prices">Set up a price table</a>' in html
    system = client.get("/settings/system/").content.decode()
    assert 'id="prices"' in system
    table = re.search(r'<pre[^>]*id="price-table"[^>]*><code>(.*?)</code>', system, re.DOTALL)
    assert table is not None
    assert list(tomllib.loads(unescape(table[1]))["models"]) == ["my-model-*"]


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
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    period, _problem = periods.parse_period_and_problem(QueryDict(""), now)
    found = totals.load_period_totals(make_workspace().pk, period, "refund desk")
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


def test_the_hour_of_a_bar_selects_what_it_counts(reader: Client) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for title, start in (("before", -1), ("inside", 59), ("after", 60)):
        moment = hour + timedelta(minutes=start)
        session = make_session(title=title, session_id=title)
        Session.objects.filter(pk=session.pk).update(created_at=moment)
        call = make_call(session=session, issued_at=moment, interrupted_at=moment, status=CallStatus.FAILED)
        make_decision(call=call, created_at=moment)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=24h").content.decode()
    first, last = f"{hour:%Y-%m-%dT%H}:00", f"{hour + timedelta(hours=1):%Y-%m-%dT%H}:00"
    bars = re.findall(f'href="([^"]*[?]first={first}&amp;last={last}&amp;[^"]*)" aria-label=', page)
    assert {bar.replace(f"first={first}&amp;last={last}&amp;", "") for bar in bars} == {
        "/sessions/?sort=started",
        "/sessions/?status=failed&amp;sort=started",
        "/calls/?interrupted=1",
        "/review/?tab=decided&amp;by=people",
    }
    for bar in {*bars} - {bar for bar in bars if "status=failed" in bar}:
        listed = reader.get(bar.replace("&amp;", "&")).content.decode()
        assert set(re.findall(r">(before|inside|after)<", listed)) == {"inside"}, bar
        assert re.search(rf'type="datetime-local" id="[a-z-]*first" name="first" value="{first}"', listed)


def test_a_session_without_times_is_in_no_list_of_started_sessions(reader: Client) -> None:
    begun(0, title="imported", has_times=False)
    begun(0, title="known")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert load().total.sessions == 1
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    listed = reader.get(f"/sessions/?sort=started&first={today}&last={today}").content.decode()
    assert re.findall(r'dir="auto">(\w+)</a>', listed) == ["known"]


def test_the_list_behind_a_bar_of_decisions_has_those_that_were_counted(reader: Client) -> None:
    """Votes, withdrawals and verify hooks have no waiting time; several decisions of one session count one by one."""
    now = datetime.now(UTC)
    session = make_session()
    for number, (kind, actor_kind, fields) in enumerate(
        [
            ("confirm_landed", "person", {}),
            ("approve", "token", {"status": CallStatus.APPROVED, "interrupted_at": None}),
            ("mark_failed", "person", {}),
            ("probe_landed", "hook", {}),
            ("withdraw", "person", {}),
            ("approve_rerun", "person", {}),
        ]
    ):
        times = {"issued_at": now, "interrupted_at": now}
        call = make_call(session=session, step=number, **{"status": CallStatus.COMPLETED, **times, **fields})  # type: ignore[arg-type]
        make_decision(
            call=call,
            kind=DecisionKind(kind),
            actor_kind=ActorKind(actor_kind),
            final=kind != "approve_rerun",
            created_at=now,
        )
    before = make_call(session=session, step=9, status=CallStatus.COMPLETED, interrupted_at=THEN)
    yesterday = make_decision(call=before, created_at=now - timedelta(days=1))
    complete()
    assert load().waits.decisions == 4
    page = reader.get("/overview/").content.decode()
    (bar,) = re.findall(rf'href="(/review/[^"]*first={now:%Y-%m-%d}[^"]*)" aria-label="[^"]*3 decisions', page)
    listed = reader.get(bar.replace("&amp;", "&"))
    assert sorted(row.kind for row in listed.context["decisions"]) == ["approve", "confirm_landed", "mark_failed"]
    assert "Decisions about 3 calls" in visible_text(listed)
    (whole,) = re.findall(r'href="(/review/[?]tab=decided[^"]*)"><small>', page)
    shown = [row.pk for row in reader.get(whole.replace("&amp;", "&")).context["decisions"]]
    assert (len(shown), shown[-1]) == (4, min(yesterday.pk, *shown))


def test_an_interrupted_call_that_ran_again_stays_counted_and_listed(reader: Client) -> None:
    now = datetime.now(UTC)
    session = make_session()
    lost = make_call(session=session, tool="pay", call_id="lost", issued_at=now, interrupted_at=now)
    before = now - timedelta(hours=2)
    other = make_call(session=make_session(), tool="mail", issued_at=before, interrupted_at=before)
    numbers = []
    for status in (CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED, CallStatus.SUPERSEDED):
        ToolCall.objects.filter(pk=lost.pk).update(status=status, revision=F("revision") + 1)
        if status is CallStatus.SUPERSEDED:
            make_call(
                session=session,
                tool="pay",
                attempt=2,
                status=CallStatus.COMPLETED,
                issued_at=now,
                settled_at=now + timedelta(seconds=1),
            )
        complete()
        numbers.append(load().interrupted_call_count)
        page = reader.get("/overview/?period=24h").content.decode()
        (whole,) = re.findall(r'class="small" href="(/calls/[^"]*)">2</a>', page)
        listed = reader.get(whole.replace("&amp;", "&"))
        assert [row.call.record.pk for row in listed.context["rows"]] == [lost.pk, other.pk]
        (of_tool,) = set(re.findall(r'href="(/calls/[?]interrupted=1&amp;tool=pay[^"]*)">1</a>', page))
        listed = reader.get(of_tool.replace("&amp;", "&"))
        assert [row.call.record.pk for row in listed.context["rows"]] == [lost.pk]
    assert numbers == [2, 2, 2]
    (pay,) = (tool for tool in load().tools if tool.name == "pay")
    assert (pay.calls, pay.interrupted) == (2, 1)


def test_axes_name_the_zone_of_their_steps(reader: Client) -> None:
    make_session()
    reader.cookies["harness_zone"] = "Asia/Kolkata"
    days = reader.get("/overview/").content.decode()
    hours = reader.get("/overview/?period=24h").content.decode()
    assert set(re.findall(r'class="zone"[^>]*>(\w+)<', days)) == {"IST"}
    assert set(re.findall(r'class="zone"[^>]*>(\w+)<', hours)) == {"IST"}
    assert "each day from 00:30 in Asia/Kolkata" in visible_text(reader.get("/overview/"))
    assert "hours in Asia/Kolkata" in visible_text(reader.get("/overview/?period=24h"))


def test_a_sum_to_which_no_cost_was_stated_is_unknown(reader: Client) -> None:
    begun(0, agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "desk 1 0 of 1 0 –" in page
    begun(0, "0.5", agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert "desk 2 0 of 2 0 $0.50" in visible_text(reader.get("/overview/"))
    # As with tools, a share is stated from three on.
    begun(0, "0.5", agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert "desk 3 0 % 0 $1.00" in visible_text(reader.get("/overview/"))


def test_median_of_the_waiting_times_has_two_units(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session()
    monkeypatch.setattr(
        totals, "compute_waiting_times_from_class_counts", lambda _: totals.WaitingTimes(2, 290.0, 299.0)
    )
    assert "Time to decide4 min 50 smedian95 % within 4 min 59 s" in visible_text(reader.get("/overview/"))


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
    steps = [(step, totals.WaitingTimes(2, median, p95)) for step in period.step_starts]
    chart = charts.draw_waiting_times_chart(period, steps)
    assert chart.ticks == ticks
    assert chart.line is not None
    (band,) = chart.bars[0].pieces
    assert (float(chart.line.points.split()[0].split(",")[1]), band.y) == heights
    assert chart.is_logarithmic == (ticks[-1] != "0")


def test_hours_are_those_of_the_reader(reader: Client) -> None:
    begun(0)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    reader.cookies["harness_zone"] = "Asia/Kolkata"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    page = reader.get("/overview/?period=24h").content.decode()
    local = hour + timedelta(hours=5, minutes=30)
    assert f'title="{hour:%Y-%m-%d %H}:00:00 UTC">{local:%H:%M}</time>' in page
    assert f'aria-label="{local:%H:%M}: 1 started;' in page


def test_changed_day_is_counted_again() -> None:
    session = begun(3, "1", agent="desk")
    since = daily_session_sums_recount.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=session.pk).update(budget_spent_usd=5, agent="mail", updated_at=since)
    daily_session_sums_recount.recount_changed_days_and_record_models(since)
    assert set(SessionSums.objects.values_list("agent", "sessions", "cost")) == {("mail", 1, Decimal(5))}


def test_sessions_of_transcripts_of_any_age_are_counted() -> None:
    begun(400, "1", agent="desk")
    since = daily_session_sums_recount.recount_changed_days_and_record_models(None)
    # A session of the same day and one of another day are imported later.
    later = [begun(400, "2", agent="desk"), begun(500, "4", agent="desk")]
    Session.objects.filter(pk__in=[session.pk for session in later]).update(updated_at=F("created_at"))
    ImportedFile.objects.create(
        workspace=make_workspace(),
        path_digest="0" * 64,
        path="/old.jsonl",
        size=1,
        modified_ns=1,
        sessions=to_canonical_json([session.session_id for session in later]),
    )
    daily_session_sums_recount.recount_changed_days_and_record_models(since)
    sums = SessionSums.objects.filter(hourly=False).order_by("start")
    assert list(sums.values_list("sessions", "cost")) == [(1, Decimal(4)), (2, Decimal(3))]


def test_old_day_keeps_the_cost_of_its_deleted_sessions() -> None:
    kept, deleted = begun(400, "1", agent="desk"), begun(400, "2", agent="desk")
    since = daily_session_sums_recount.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=deleted.pk).update(has_times=False)  # counts on no day
    Session.objects.filter(pk=kept.pk).update(budget_spent_usd=5, updated_at=since)
    daily_session_sums_recount.recount_changed_days_and_record_models(since)
    assert list(SessionSums.objects.filter(hourly=False).values_list("sessions", "cost")) == [(2, Decimal(3))]


def test_deleted_sessions_are_removed_from_the_sums() -> None:
    session = begun(3, "1")
    since = daily_session_sums_recount.recount_changed_days_and_record_models(None)
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=90))
    daily_session_sums_recount.recount_changed_days_and_record_models(since - timedelta(hours=1))
    assert not SessionSums.objects.exists()


def test_days_without_sessions_are_not_counted() -> None:
    """A server that starts does not spend seconds on days on which nothing has happened."""
    begun(3, "1")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    with CaptureQueriesContext(connection) as one_day:
        daily_session_sums_recount.recount_changed_days_and_record_models(None)
    begun(100, "1")
    with CaptureQueriesContext(connection) as two_days:
        daily_session_sums_recount.recount_changed_days_and_record_models(None)
    assert len(one_day) < 40
    assert len(two_days) < 60
    assert {start.date() for start in SessionSums.objects.values_list("start", flat=True)} == {
        (datetime.now(UTC) - timedelta(days=days)).date() for days in (3, 100)
    }


def test_each_settled_call_counts_once() -> None:
    settled("slow", seconds=20)
    settled("slow", seconds=40)
    settled("quick", seconds=0.5, status=CallStatus.FAILED)
    settled("lost", interrupted_at=datetime.now(UTC))
    settled("never", status=CallStatus.REJECTED)
    answered = settled("answered", seconds=3_600)  # by a person, so that it never ran
    make_decision(call=answered, kind=DecisionKind.RESPOND)
    reopened = settled("slow", seconds=30)
    make_decision(call=reopened, kind=DecisionKind.RESPOND, revision=1)
    make_decision(call=reopened, kind=DecisionKind.WITHDRAW, revision=2)
    make_decision(call=reopened, kind=DecisionKind.APPROVE, revision=3)
    settled("interrupt", seconds=3_600, idempotency_key=f"{INTERRUPT_KEY_PREFIX}q1:0")  # a person took so long
    now = datetime.now(UTC)
    waiting = make_call(session=make_session(), tool="waiting", issued_at=now, interrupted_at=now)
    complete()
    complete()
    sums = load()
    found = {tool.name: tool for tool in sums.tools}
    assert sorted(found) == ["interrupt", "lost", "quick", "slow", "waiting"]
    assert (found["interrupt"].calls, found["interrupt"].mean) == (1, None)
    assert (found["slow"].calls, round(found["slow"].mean or 0)) == (3, 30)
    assert (found["quick"].failed_share, found["lost"].interrupted_share) == (1, 1)
    assert found["lost"].mean is None
    assert [tool.name for tool in sums.slowest_tools] == ["slow", "quick"]
    assert [tool.name for tool in sums.tools_with_highest_interrupted_share] == ["lost", "waiting"]
    assert sums.interrupted_call_count == sum(tool.interrupted for tool in sums.tools) == 2
    ToolCall.objects.filter(pk=waiting.pk).update(status="failed", revision=9)
    complete()
    assert ToolSums.objects.get(tool="waiting", hourly=False).interrupted == 1
    assert load().interrupted_call_count == 2


def test_rebuilt_index_counts_nothing_twice() -> None:
    settled("slow")
    complete()
    indexer.clear_index_with_call_and_decision_sums()
    complete()
    assert ToolSums.objects.get(hourly=False).calls == 1


def test_hostile_names_are_escaped(reader: Client) -> None:
    evil = "<script>alert(1)</script>"
    begun(0, agent=evil)
    settled(evil)
    make_call(session=make_session(), sentence=evil)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/").content.decode().replace("<wbr>", "")
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 5


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.0000004", '<span title="$0.00">&lt; $0.01</span>'),
        ("0.004", '<span title="$0.004">&lt; $0.01</span>'),
        ("0.009705", '<span title="$0.009705">$0.01</span>'),
        ("12.5", "$12.50"),
        ("1234.567", '<span title="$1,234.567">$1,234.57</span>'),
    ],
)
def test_amounts_are_rounded_to_cents_and_exact_on_hover(amount: str, shown: str) -> None:
    assert render_rounded_money(Decimal(amount)) == shown


def test_the_totals_are_compared_with_the_period_before(reader: Client) -> None:
    begun(0, "1", agent="desk", status=SessionStatus.FAILED)
    begun(0, "1", agent="desk")
    begun(15, "1", agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "50 %" in page
    assert "$2.00 Waiting" not in page
    assert "was $" not in page
    assert "Last 14 days Sessions started2" in page
    begun(40, "1", agent="desk")
    lost = datetime.now(UTC) - timedelta(days=15)
    make_run(session=begun(15, agent="desk"), owner=False, status=RunStatus.LOST, ended_at=lost)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "50 %, up from 0 %" in page
    assert "+100 %, was $1.00" in page
    assert "no session lost a run in 14 days (was 1)" in page
    assert "Last 14 days, compared with the period before Sessions started2+100 %, was 1 Failed" in page
    for _ in range(3):
        begun(0, "2", agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "Sessions started5" in page
    assert "×5, was 1" in page
    assert "×8, was $1.00" in page


def test_cost_is_not_compared_with_less_than_a_cent(reader: Client) -> None:
    begun(0, "4")
    begun(15, "0.001")
    begun(40)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
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
    waits, before = totals.WaitingTimes(decisions, 1, p95), totals.WaitingTimes(20, 1, p95_before)
    assert views._get_trend_of_waiting_times(waits, before) == trend


def test_tables_without_rows_are_left_out(reader: Client) -> None:
    begun(0, agent="desk")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "Cost by agent" in page
    assert "Slowest tools" not in page
    assert "Tools interrupted most" not in page
    settled("slow")
    settled("lost", interrupted_at=datetime.now(UTC))
    complete()
    page = visible_text(reader.get("/overview/"))
    assert "Slowest tools" in page
    assert "lost 1 of 1" in page
    assert "100 %" not in page.partition("Tools interrupted most")[2]


def test_tools_that_fail_most_lead_to_their_failed_calls(reader: Client) -> None:
    for tool, failed, calls in (("mail", 3, 4), ("pay", 1, 4), ("rare", 1, 1), ("fine", 0, 2)):
        for number in range(calls):
            settled(tool, status=CallStatus.FAILED if number < failed else CallStatus.COMPLETED)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    html = reader.get("/overview/").content.decode()
    table = html.partition("Tools that fail most</h2>")[2].partition("</table>")[0]
    assert re.findall(r'<a class="mono"[^>]*>(\w+)</a>', table) == ["mail", "pay", "rare"]
    links = re.findall(r'<a href="([^"]*status=failed[^"]*)">(\d)</a> of (\d)', table)
    assert [(failed, calls) for _link, failed, calls in links] == [("3", "4"), ("1", "4"), ("1", "1")]
    listed = reader.get(links[0][0].replace("&amp;", "&")).content.decode()
    assert len(re.findall(r'<a data-row href="[^"]*/calls/\d+/', listed)) == 3


def test_failed_calls_of_a_rarely_called_tool_are_counted_where_it_has_no_share(reader: Client) -> None:
    for number in range(totals.TOOLS):
        for _ in range(totals.ENOUGH):
            settled(f"tool-{number}", status=CallStatus.FAILED)
    settled("deploy", seconds=500, status=CallStatus.FAILED)
    settled("deploy", seconds=500)
    complete()
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    html = reader.get("/overview/").content.decode()
    table = html.partition("Tools that fail most</h2>")[2].partition("</section>")[0]
    assert "deploy" not in table
    assert "1 more tool has failed calls. Tools with fewer than three calls come last." in visible_text(
        HttpResponse(table)
    )
    link = re.search(r'<a href="([^"]*)">Show all failed calls', table)
    assert link is not None
    assert ">deploy<" in reader.get(unescape(link[1])).content.decode()
    slowest = html.partition("Slowest tools</h2>")[2].partition("</section>")[0]
    assert "deploy 2 1 of 2" in visible_text(HttpResponse(slowest))


def test_all_agents_and_models_are_listed_on_request(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "MAX_LISTED", 1)
    for name in ("desk", "mail", "bills"):
        begun(0, agent=name)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=7d")
    assert 'href="?period=7d&amp;all=agents#agents">Show 2 more agents</a>' in page.content.decode()
    page = reader.get("/overview/?period=7d&all=agents")
    assert [each.name for each in page.context["sums"].agents] == ["bills", "desk", "mail"]
    assert 'href="?period=7d#agents">Show fewer agents</a>' in page.content.decode()


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


@pytest.mark.parametrize(
    ("zone", "days"),
    mark_all_but_each(
        4,
        first=1,
        cases=product(
            ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"],
            [
                ("2026-10-22", "2026-11-03"),  # the clocks are set back in Berlin and New York
                ("2026-09-26", "2026-09-28"),  # and set forward in Auckland
                ("2026-10-25", "2026-10-25"),
                ("2026-09-02", "2026-11-09"),  # in steps of a week
                ("24h", ""),
            ],
        ),
    ),
)
def test_every_number_is_that_of_the_list_behind_it_in_each_zone(zone: str, days: tuple[str, str]) -> None:
    first, last = days
    now = datetime(2026, 10, 25, 22, 10, tzinfo=UTC)
    asked = f"first={first}&last={last}&zone={zone}" if last else "period=24h"
    with timezone.override(zone):
        period, problem = periods.parse_period_and_problem(QueryDict(asked), now)
    assert not problem
    starts = period.preceding_start + timedelta(minutes=17), period.end
    distance = max((starts[1] - starts[0]) / 300, timedelta(minutes=20))
    moments = [starts[0] + number * distance for number in range(-9, 310)]
    session = make_session()
    Session.objects.bulk_create(
        Session(
            workspace=session.workspace,
            session_id=f"at-{number}",
            agent=f"desk-{number % 3}",
            created_at=moment,
            updated_at=moment,
            has_times=True,
            budget_spent_usd=number,
        )
        for number, moment in enumerate(moments)
    )
    for day in {moment.date() for moment in moments}:
        daily_session_sums_recount.recount_session_sums_of_day(session.workspace_id, day)
    found = totals.load_period_totals(session.workspace_id, period)

    def get_numbers_in(query: str) -> set[int]:
        times = TimeRange.parse_query(QueryDict(query))
        assert times.since is not None
        assert times.until is not None
        return {number for number, moment in enumerate(moments) if times.since <= moment < times.until}

    for step, step_totals in found.steps:
        numbers = get_numbers_in(period.build_query_string_of_chart_step(step))
        assert (step_totals.sessions, step_totals.cost) == (len(numbers), Decimal(sum(numbers)))
    of_period = get_numbers_in(period.build_query_string())
    assert (found.total.sessions, found.total.cost) == (len(of_period), Decimal(sum(of_period)))
    assert {each.name: each.totals.sessions for each in found.agents} == Counter(
        f"desk-{each % 3}" for each in of_period
    )
    before = [moment for moment in moments if period.preceding_start <= moment < period.start]
    assert found.preceding.sessions == len(before)


def test_days_of_a_zone_begin_with_its_first_full_hour() -> None:
    """The sums are those of hours in UTC."""
    now = datetime(2026, 3, 2, 18, 40, tzinfo=UTC)  # 00:10 in India
    with timezone.override("Asia/Kolkata"):
        period, _problem = periods.parse_period_and_problem(QueryDict("period=7d"), now)
    assert (period.first_day.isoformat(), period.last_day.isoformat()) == ("2026-02-24", "2026-03-02")
    assert period.time_of_first_hour == "00:30"
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


def test_a_period_without_sessions_keeps_the_choice_of_agents(reader: Client) -> None:
    begun(0, "1", agent="desk")
    begun(0, "1", agent="mail")
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?first=2026-03-01&last=2026-03-02")
    assert page.context["agents"] == ["desk", "mail"]


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


def test_an_installation_without_sessions_leads_to_the_first_agent(client: Client) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    page = client.get("/overview/").content.decode()
    assert "No agent has started a session yet." in page
    assert 'href="/settings/connect/"' in page
    make_session()
    assert "No agent has started a session yet." not in visible_text(client.get("/overview/"))


def test_tokens_stand_where_the_cost_is_unknown(reader: Client) -> None:
    make_session(agent="desk", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN, total_tokens=1_234_567)
    make_session(agent="mail", budget_spent_usd="2", total_tokens=8)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    for address in ("/overview/", "/sessions/"):
        response = reader.get(address)
        assert "1.2 M tokens" in visible_text(response)
        assert 'title="1,234,567 tokens, the cost is unknown"' in response.content.decode()
        assert "8 tokens" not in visible_text(response)


def test_cancelled_sessions_and_those_that_wait_are_series_of_their_own(reader: Client) -> None:
    make_session(status=SessionStatus.CANCELLED)
    make_session(status=SessionStatus.NEEDS_REVIEW)
    daily_session_sums_recount.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    assert page.context["charts"]["sessions"].kinds == {"cancelled", "wait"}
    assert "1 cancelled; 0 running, paused or idle" in page.content.decode()
    assert page.context["sums"].total.other_sessions == 0


def test_equal_shares_of_interrupted_calls_are_ordered_by_their_number(reader: Client) -> None:
    for tool in ("charge", "transfer", "transfer"):
        make_call(session=make_session(), tool=tool, issued_at=datetime.now(UTC), interrupted_at=datetime.now(UTC))
    assert [tool.name for tool in load().tools_with_highest_interrupted_share] == ["transfer", "charge"]


def test_calls_and_decisions_count_on_the_day_of_the_zone() -> None:
    workspace = make_workspace()
    for hour in (20, 22, 23):  # 22:00 on the first day, midnight and 01:00 on the second one
        moment = datetime(2026, 7, 1, hour, tzinfo=UTC)
        call_and_decision_sums.add_tallies_to_hour_and_day_sums(
            [
                call_and_decision_sums.Tally(ToolSums, (workspace.pk, moment, "desk", "pay"), (1, 0, 1, 0, 0.0)),
                call_and_decision_sums.Tally(DecisionSums, (workspace.pk, moment, "desk", 9), (1,)),
            ]
        )
    query = QueryDict("first=2026-07-01&last=2026-07-02&zone=Europe/Berlin")
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    found = totals.load_period_totals(workspace.pk, period)
    assert [number for _step, number in found.interruptions] == [1, 2]
    assert [waits.decisions for _step, waits in found.wait_steps] == [1, 2]
    assert [(tool.calls, tool.interrupted) for tool in found.tools] == [(3, 3)]
    query = QueryDict("first=2026-07-02&last=2026-07-02&zone=Europe/Berlin")
    period, _problem = periods.parse_period_and_problem(query, datetime.now(UTC))
    found = totals.load_period_totals(workspace.pk, period)
    assert [(tool.calls, tool.interrupted) for tool in found.tools] == [(2, 2)]
    assert found.preceding_waits.decisions == 1
