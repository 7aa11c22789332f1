"""The page with tool calls of all sessions, and the rates of their tools."""

import csv
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.db.models import Model
from django.http import QueryDict
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason, Role, SessionStatus
from checkpoints.models import AuditEvent, Decision, LateResult, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import indexer, passage_search
from harness_site.search.models import Progress, ToolSums
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.selectors import tool_success_rates, workspace_call_log
from harness_site.sessions.selectors.call_records import CallFilter
from harness_site.sessions.selectors.workspace_call_log import CallLogFilter, CallLogPage, LoggedCall
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.search.conftest import complete
from tests.support.factories import (
    THEN,
    make_call,
    make_decision,
    make_late_result,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(role=Role.AUDITOR))
    return client


def make_calls(session: Session, count: int) -> None:
    """Create one call per hour; every third one failed."""
    for number in range(count):
        status = CallStatus.COMPLETED if number % 3 else CallStatus.FAILED
        then = THEN + timedelta(hours=number)
        make_call(
            session=session,
            call_id=f"c{number}",
            tool="pay" if number % 2 else "mail",
            step=number,
            status=status,
            issued_at=then,
            settled_at=then + timedelta(seconds=2),
        )


def listed(page: CallLogPage) -> list[str]:
    return [row.record.call_id for row in page.rows if isinstance(row, LoggedCall)]


def found(session: Session, **wanted: object) -> list[str]:
    return listed(workspace_call_log.load_call_log_page(session.workspace_id, CallLogFilter(**wanted)))  # type: ignore[arg-type]


def test_calls_of_all_sessions_are_listed_newest_first(session: Session, reader: Client) -> None:
    make_calls(session, 2)
    other = make_session(session_id="other", title="A lamp", agent="mailer")
    make_call(session=other, call_id="late", tool="send", issued_at=THEN + timedelta(days=3))
    identity_provider = make_session(workspace=make_workspace(slug="elsewhere"))
    make_call(session=identity_provider, call_id="not ours", idempotency_key="k")
    assert found(session) == ["late", "c1", "c0"]
    words = visible_text(reader.get("/calls/"))
    assert "Send: amount 40.00, currency EUR, order 17 send late A lamp mailer" in words
    assert "not ours" not in words
    assert "Success and duration by tool Tool Calls" in words
    assert " 3 calls What it does" in words


def _index_all() -> None:
    Progress.objects.all().delete()
    while indexer.index_next_batch_of_each_kind():
        pass


def test_calls_are_found_by_words_of_what_they_do_and_of_their_results(session: Session, reader: Client) -> None:
    make_call(session=session, call_id="rossi", args={"to": "sofia.rossi@example.com"}, status=CallStatus.COMPLETED)
    make_call(session=session, call_id="weber", args={"to": "weber@example.com"}, status=CallStatus.FAILED, result="No")
    make_call(session=session, call_id="secret", args={"to": "weber@example.com", "password": "lamp-1452"})
    _index_all()

    def find(query: str) -> list[str]:
        page = visible_text(reader.get(f"/calls/?{query}"))
        return [call_id for call_id in ("rossi", "weber", "secret") if f"refund_card {call_id}" in page]

    assert find("q=sofia.rossi") == ["rossi"]
    assert find("q=weber+example") == ["weber", "secret"]
    assert find("q=weber&status=failed") == ["weber"]
    assert find("q=lamp-1452") == []
    assert find("q=") == ["rossi", "weber", "secret"]
    page = reader.get("/calls/?q=nothing-has-this")
    assert "No call matches the filters. All words have to occur in one call" in visible_text(page)
    assert 'href="/sessions/?q=nothing-has-this"' in page.content.decode()
    lines = b"".join(reader.get("/calls/export/?q=sofia.rossi")).decode().splitlines()
    assert [row["call"] for row in csv.DictReader(lines)] == ["rossi"]
    assert json.loads(AuditEvent.objects.get(kind="exported").details)["filters"] == "q=*"


def test_search_of_calls_says_that_it_found_only_the_newest(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "MOST_CALLS", 2)
    make_calls(session, 3)
    _index_all()
    assert found(session, found=passage_search.search_calls(session.workspace_id, SearchQuery.parse("EUR"))) == [
        "c2",
        "c1",
    ]
    sentence = "The list and the export have only the newest 2 calls with these words."
    assert sentence in visible_text(reader.get("/calls/?q=EUR"))
    assert sentence not in visible_text(reader.get("/calls/?q=c2"))


def test_call_with_a_sentence_is_listed_with_it_in_place_of_its_arguments(session: Session, reader: Client) -> None:
    args = {"order": 17, "api_key": "sk_live_abcdefgh"}
    make_call(session=session, tool="refund", args=args, sentence="Refund order 17 with sk_live_abcdefgh")
    make_call(session=session, call_id="call_10", tool="ship", args={"parcel": 39})
    for page in ("/calls/", f"/sessions/{session.pk}/calls/"):
        words = visible_text(reader.get(page))
        assert "Refund order 17 with ‹masked› refund call_9" in words
        assert "api_key" not in words
        assert "sk_live" not in words
        assert "parcel: 39" in words or "parcel 39" in words


@pytest.mark.parametrize(("altered", "column"), [(ToolCall, "args"), (Decision, "reason"), (LateResult, "result")])
def test_altered_call_is_listed_without_its_data(
    reader: Client, settings: Any, altered: type[Model], column: str
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    session = make_session()
    calls = [
        make_call(session=session, call_id=call_id, status=CallStatus.COMPLETED, result="paid")
        for call_id in ("intact", "call-4711")
    ]
    for call in calls:
        make_decision(call=call)
        make_late_result(call=call)
    plain(altered).filter(pk=altered._default_manager.latest("pk").pk).update(**{column: '"f0rged"'})
    page = reader.get("/calls/")
    words = visible_text(page)
    assert page.status_code == 200
    assert f"This record cannot be shown: call {calls[-1].pk}." in words
    assert f"/sessions/{session.pk}/quarantine/" in page.content.decode()
    assert "intact" in words
    assert "call-4711" not in words
    assert "f0rged" not in page.content.decode()


def test_invalid_filters_are_named(session: Session, reader: Client) -> None:
    make_call(session=session)
    page = visible_text(reader.get("/calls/?status=foo&first=2026-13-45"))
    assert "“foo” is not a status, so it does not filter." in page
    assert "“2026-13-45” is not a day or a time, so it does not filter." in page
    assert "does not filter" not in visible_text(reader.get("/calls/?status=failed&first=2026-01-01"))


def test_filters_are_applied(session: Session) -> None:
    make_calls(session, 30)
    other = make_session(agent="mailer")
    make_call(session=other, call_id="x", tool="mail", issued_at=THEN + timedelta(days=9), idempotency_key="key-of-x")
    assert found(session, agent="mailer") == ["x"]
    assert found(session, calls=CallFilter(key="key-of-x")) == ["x"]
    assert found(session, calls=CallFilter(key="c7")) == ["c7"]
    assert found(session, calls=CallFilter(tool="pay", status=CallStatus.FAILED)) == ["c27", "c21", "c15", "c9", "c3"]
    assert (
        found(
            session,
            times=TimeRange.parse_query(QueryDict("first=2025-03-05&last=2025-03-05")),
            calls=CallFilter(tool="pay"),
        )[-1]
        == "c15"
    )
    assert found(session, times=TimeRange.parse_query(QueryDict("last=2025-03-03"))) == []


def test_interrupted_calls_are_listed_whatever_has_become_of_them(session: Session, reader: Client) -> None:
    make_calls(session, 2)
    for step, (call_id, status, reason) in enumerate(
        [
            ("open", CallStatus.INTERRUPTED, InterruptReason.RUN_LOST),
            ("again", CallStatus.SUPERSEDED, InterruptReason.AMBIGUOUS_ERROR),
            ("imported", CallStatus.DISCARDED, InterruptReason.NO_RESULT),
        ],
        start=5,
    ):
        make_call(
            session=session,
            call_id=call_id,
            step=step,
            status=status,
            reason=reason,
            interrupted_at=THEN,
            issued_at=THEN + timedelta(days=step),
        )
    assert found(session, interrupted=True) == ["again", "open"]
    page = reader.get("/calls/?interrupted=1").content.decode()
    assert 'name="interrupted" value="1" checked' in page


def test_pages_have_no_gaps(session: Session) -> None:
    make_calls(session, 7)
    seen, after = [], None
    while True:
        page = workspace_call_log.load_call_log_page(session.workspace_id, CallLogFilter(), after=after, size=3)
        seen += listed(page)
        after = page.after
        if after is None:
            break
    assert seen == [f"c{number}" for number in range(6, -1, -1)]


def test_unread_range_is_reported_with_a_link(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 4)
    monkeypatch.setattr(tool_success_rates, "RATED", 4)
    make_calls(session, 10)
    wanted = CallLogFilter(CallFilter(key="c0"))
    pages = [workspace_call_log.load_call_log_page(session.workspace_id, wanted)]
    while pages[-1].after is not None:
        pages.append(workspace_call_log.load_call_log_page(session.workspace_id, wanted, after=pages[-1].after))
    assert [listed(page) for page in pages] == [[], [], ["c0"]]
    assert [page.reach and page.reach - THEN for page in pages] == [timedelta(hours=6), timedelta(hours=2), None]
    response = reader.get("/calls/?key=c0")
    assert "None of the searched calls matches the filters." in visible_text(response)
    assert "Search older calls" in visible_text(response)
    rates = tool_success_rates.load_tool_success_rates(session.workspace_id, wanted)
    assert (rates.counted, rates.since) == (4, THEN + timedelta(hours=6))
    assert "Success and duration by tool the newest 4 calls, since" in visible_text(response)


def test_reader_goes_forward_and_back_through_the_pages_of_a_filtered_list(session: Session, reader: Client) -> None:
    make_calls(session, 150)
    pages = []
    address = "/calls/?tool=pay&key="
    while address:
        html = reader.get(address).content.decode()
        pages.append(html)
        found = re.search(r'rel="next" href="([^"]+)"', html)
        address = unescape(found[1]) if found else ""
    shown = [re.findall(r">(c[0-9]+)<", html) for html in pages]
    assert [call for page in shown for call in page] == [f"c{number}" for number in range(149, 0, -2)]
    assert [bool(re.search(rf"Page {number}\b", html)) for number, html in enumerate(pages, 1)] == [False, True, True]
    back = re.search(r'rel="prev" href="([^"]+)"', pages[2])
    assert back
    assert re.findall(r">(c[0-9]+)<", reader.get(unescape(back[1])).content.decode()) == shown[1]
    assert 'rel="prev" href="/calls/?tool=pay"' in pages[1]
    assert 'rel="prev"' not in pages[0]
    assert '<a href="/calls/?tool=pay">Back to the newest</a>' in pages[2]


def test_number_of_matching_calls_is_stated(session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_calls(session, 70)
    assert " 70 calls What it does" in visible_text(reader.get("/calls/"))
    monkeypatch.setattr(tool_success_rates, "RATED", 60)
    assert " More than 60 calls What it does" in visible_text(reader.get("/calls/"))
    monkeypatch.undo()
    words = visible_text(reader.get("/calls/?status=failed"))
    assert " 24 calls What it does" in words
    assert "all 70 calls · Of the filters, only agent and time apply to this table." in words
    words = visible_text(reader.get("/calls/?tool=pay"))  # more than one page
    assert " 35 calls What it does" in words
    assert " 1 call What it does" in visible_text(reader.get("/calls/?key=c7"))
    words = visible_text(reader.get("/calls/?tool=pay&first=2025-01-01"))
    assert "all 70 matching calls · Of the filters, only agent and time apply to this table." in words
    words = visible_text(reader.get("/calls/?first=2025-01-01"))
    assert " 70 calls What it does" in words
    assert "apply to this table" not in words
    monkeypatch.setattr(workspace_call_log, "COUNTED", 33)
    assert " More than 33 calls What it does" in visible_text(reader.get("/calls/?tool=pay"))
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 60)
    assert " 20 calls among the newest 60 What it does" in visible_text(reader.get("/calls/?status=failed"))
    page = workspace_call_log.load_call_log_page(session.workspace_id, CallLogFilter(CallFilter(tool="pay")))
    later = workspace_call_log.load_call_log_page(
        session.workspace_id, CallLogFilter(CallFilter(tool="pay")), after=page.after
    )
    assert (page.total, later.total) == (30, None)


def test_simultaneous_calls_are_listed_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 4)
    for number in range(10):
        make_call(session=session, call_id=f"c{number}", tool="pay", issued_at=THEN)
    wanted = CallLogFilter(CallFilter(tool="pay"))
    pages = [workspace_call_log.load_call_log_page(session.workspace_id, wanted)]
    while pages[-1].after is not None:
        pages.append(workspace_call_log.load_call_log_page(session.workspace_id, wanted, after=pages[-1].after))
    assert [call_id for page in pages for call_id in listed(page)] == [f"c{number}" for number in range(9, -1, -1)]


def test_rates_are_shown_for_each_tool(session: Session, reader: Client) -> None:
    make_calls(session, 6)
    ToolCall.objects.filter(call_id="c0").update(settled_at=THEN + timedelta(seconds=5))
    lost = make_call(session=session, call_id="lost", tool="pay", step=99, replay_count=2)
    make_decision(call=lost)
    make_call(session=session, call_id="no", tool="pay", status=CallStatus.REJECTED)
    make_call(session=session, call_id="asks", tool="pay", status=CallStatus.AWAITING_APPROVAL)
    make_call(session=session, call_id="may", tool="pay", status=CallStatus.APPROVED)
    make_call(session=session, call_id="again", tool="pay", status=CallStatus.SUPERSEDED)
    hours = timedelta(hours=9)
    told = make_call(session=session, call_id="told", tool="pay", status=CallStatus.COMPLETED, settled_at=THEN + hours)
    make_decision(call=told, kind=DecisionKind.RESPOND, reason="Paid by hand.")
    tools = {
        tool.tool: tool
        for tool in tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).tools
    }
    pay, mail = tools["pay"], tools["mail"]
    assert (pay.calls, pay.completed, pay.failed, pay.interrupted, pay.replays) == (9, 2, 1, 1, 1)
    assert (pay.rejected, pay.answered, pay.open, pay.discarded) == (1, 1, 3, 1)
    for tool in tools.values():
        outcomes = (tool.completed, tool.answered, tool.failed, tool.rejected, tool.open, tool.discarded)
        assert sum(outcomes) == tool.calls
    assert (mail.calls, mail.completed, mail.failed, mail.interrupted) == (3, 2, 1, 0)
    assert (pay.median, mail.median) == (timedelta(seconds=2), timedelta(seconds=2))
    words = visible_text(reader.get("/calls/"))
    assert "Calls Completed Failed Interrupted Other figures Median duration 95 % within" in words
    others = "result by a person 1 (11 %) rejected 1 (11 %) open 3 (33 %) discarded 1 (11 %) stored result given 1"
    assert f"pay 9 2 (22 %) 1 (11 %) 1 (11 %) {others} 2.0 s 2.0 s" in words
    assert "mail 3 2 (67 %) 1 (33 %) 2.0 s" in words
    assert "alice: It happened" in words
    assert words.count("refund-desk Responded instead requested ") == 1


def test_rates_are_those_of_the_chosen_agent_and_time(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_calls(session, 6)
    make_calls(make_session(session_id="other", agent="mailer"), 4)

    def count(**wanted: Any) -> tuple[int, timedelta | None]:
        rates = tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter(**wanted))
        return rates.counted, None if rates.since is None else rates.since - THEN

    assert count() == (10, None)
    assert count(agent="mailer") == (4, None)
    times = TimeRange(since=THEN + timedelta(hours=2))
    assert count(agent="mailer", times=times) == (2, None)
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 5)
    assert count(agent="mailer") == (2, timedelta(hours=2))
    assert count(agent="refund-desk") == (3, timedelta(hours=2))
    assert " 3 calls among the newest 5 What it does" in visible_text(reader.get("/calls/?agent=refund-desk"))
    monkeypatch.setattr(tool_success_rates, "RATED", 2)
    assert count(agent="refund-desk") == (2, timedelta(hours=4))
    words = visible_text(reader.get("/calls/?agent=refund-desk"))
    assert "the newest 2 matching calls, since" in words
    assert " More than 2 calls What it does" in words
    assert "apply to this table" not in words


def test_table_by_tool_is_sorted_by_failed_calls_and_leads_to_the_sessions_of_a_tool(
    session: Session, reader: Client
) -> None:
    for number, (tool, failed) in enumerate([("pay", 1), ("pay", 0), ("pay", 0), ("mail", 1), ("mail", 1)]):
        status = CallStatus.FAILED if failed else CallStatus.COMPLETED
        make_call(session=session, call_id=f"c{number}", tool=tool, status=status)
    Session.objects.update(budget_spent_usd=2, agent="desk")
    complete()

    def list_tools(html: str) -> list[str]:
        return re.findall(r'<th scope="row"><a class="mono"[^>]* href="[^"]*">(\w+)<', html)

    html = reader.get("/calls/?agent=desk").content.decode()
    assert list_tools(html) == ["pay", "mail"]
    (by_failed,) = re.findall(r'<a class="sort" href="([^"]*)" title="Sort by: Failed">', html)
    html = reader.get("/calls/" + unescape(by_failed)).content.decode()
    assert list_tools(html) == ["mail", "pay"]
    assert '<details class="rates" open>' in html
    assert 'aria-sort="descending"><a class="sort" href="?agent=desk&amp;tools=failed"' in html
    (address, *_others) = re.findall(
        r'<a href="([^"]*)" title="Cost of the whole sessions that called this tool"', html
    )
    assert address == "/sessions/?tool=mail&amp;agent=desk"
    assert "1 session Cost $2.00" in visible_text(reader.get(unescape(address)))


def test_failed_and_interrupted_calls_of_a_tool_link_to_their_list(session: Session, reader: Client) -> None:
    make_calls(session, 4)
    make_call(session=session, call_id="lost", tool="pay", interrupted_at=THEN)
    page = reader.get("/calls/?agent=refund-desk&status=completed&interrupted=").content.decode()
    links = {text: query for query, text in re.findall(r'<a class="chip \w+" href="([^"]*)">([^<]*)</a>', page)}
    assert {"1 (50 %)", "1 (33 %)"} <= set(links)
    for query in links.values():
        (row,) = reader.get("/calls/" + query.replace("&amp;", "&")).context["rows"]
        assert row.agent == "refund-desk"


def test_longest_durations_stand_beside_the_median(session: Session, reader: Client) -> None:
    for number in range(20):
        then = THEN + timedelta(hours=number)
        took = timedelta(seconds=100 if number == 3 else 30 if number == 5 else 1)
        make_call(
            session=session,
            call_id=f"c{number}",
            tool="pay",
            status=CallStatus.COMPLETED,
            issued_at=then,
            settled_at=then + took,
        )
    (rates,) = tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).tools
    assert (rates.median, rates.p95) == (timedelta(seconds=1), timedelta(seconds=30))
    page = visible_text(reader.get("/calls/"))
    assert "Median duration 95 % within Its sessions pay 20 20 (100 %) 1.0 s 30 s Show cost" in page


def test_median_of_some_of_the_calls_says_of_how_many(session: Session, reader: Client) -> None:
    for number, seconds in enumerate((0, 0, 0, 2, 4)):
        make_call(
            session=session,
            call_id=f"c{number}",
            tool="pay",
            step=number,
            status=CallStatus.COMPLETED,
            settled_at=THEN + timedelta(seconds=seconds),
        )
    (rates,) = tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).tools
    assert (rates.timed, rates.median) == (5, timedelta())
    ToolCall.objects.update(side_effects="imported")
    (rates,) = tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).tools
    assert (rates.completed, rates.timed, rates.median) == (5, 2, timedelta(seconds=3))
    words = visible_text(reader.get("/calls/"))
    assert "pay 5 5 (100 %) 3.0 s of 2 calls 4.0 s" in words
    assert "their number stands below it" in words
    ToolCall.objects.filter(settled_at=THEN).update(settled_at=THEN + timedelta(seconds=1))
    words = visible_text(reader.get("/calls/"))
    assert "pay 5 5 (100 %) 1.0 s 4.0 s" in words
    assert "their number stands below it" not in words


def test_exported_status_is_the_one_of_the_filter(session: Session, reader: Client) -> None:
    make_call(
        session=session,
        call_id="c1",
        tool="Bash",
        status=CallStatus.COMPLETED,
        result='{"output":"a","metadata":{"exit_code":1}}',
    )
    make_call(
        session=session,
        call_id="c2",
        tool="Bash",
        status=CallStatus.COMPLETED,
        result='{"output":"a","metadata":{"exit_code":0}}',
    )
    make_call(session=session, call_id="c3", tool="Bash", status=CallStatus.FAILED, error_type="TimeoutError")

    def export(query: str) -> list[tuple[str, str, str]]:
        lines = b"".join(reader.get(f"/calls/export/?{query}")).decode().splitlines()
        return sorted((row["call"], row["status"], row["recorded_status"]) for row in csv.DictReader(lines))

    failed, completed = [("c1", "failed", "completed"), ("c3", "failed", "failed")], [("c2", "completed", "completed")]
    assert export("status=failed") == failed
    assert export("status=completed") == completed
    assert export("") == sorted(failed + completed)


def test_rows_of_exports_lead_to_their_pages_and_have_the_words_of_the_status(
    session: Session, reader: Client, settings: Any
) -> None:
    settings.SITE_ADDRESS = "https://harness.example"
    call = make_call(session=session, call_id="c1")
    orphaned = make_session(session_id="lost", status=SessionStatus.ACTIVE, latest_version=2)
    make_run(session=orphaned, lease=timedelta(hours=-1))

    def read_row(path: str, name: str, value: str) -> dict[str, str]:
        lines = b"".join(reader.get(path)).decode().splitlines()
        return next(row for row in csv.DictReader(lines) if row[name] == value)

    for address, row in {
        f"/sessions/{session.pk}/calls/{call.pk}/": read_row("/calls/export/", "call", "c1"),
        f"/sessions/{orphaned.pk}/": read_row("/sessions/export/", "session", "lost"),
    }.items():
        assert row["page"] == f"https://harness.example{address}"
        assert reader.get(address).status_code == 200
    assert (row["status"], row["status_on_page"]) == ("stalled", "Orphaned")


def test_matching_calls_are_exported_as_csv(session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_call_log, "_EXPORTED_AT_ONCE", 2)
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 3)
    make_calls(session, 8)
    make_calls(make_session(session_id="other", agent="mailer"), 3)
    lost = make_call(session=session, call_id="=lost", tool="pay", issued_at=THEN - timedelta(days=1))
    make_decision(call=lost)
    assert (
        'href="/calls/export/?agent=refund-desk" download'
        in reader.get("/calls/?agent=refund-desk&after=").content.decode()
    )
    text = b"".join(reader.get("/calls/export/?tool=pay&agent=refund-desk&key=")).decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["export"] for row in rows] == ["", "", "", "", "rows: 5, complete"]
    assert [row["call"] for row in rows] == ["c7", "c5", "c3", "c1", "'=lost"]
    assert {(row["session"], row["agent"], row["tool"]) for row in rows} == {(session.session_id, "refund-desk", "pay")}
    assert [row["status"] for row in rows[:3]] == ["completed", "completed", "failed"]
    assert rows[0]["duration_seconds"] == "2.000000"
    assert (rows[4]["duration_seconds"], rows[4]["last_decision"], rows[4]["decided_by"]) == (
        "",
        "confirm_landed",
        "alice",
    )
    words = [(row["status_on_page"], row["reason_on_page"], row["last_decision_on_page"]) for row in rows[2:]]
    assert words == [
        ("Failed", "", ""),
        ("Completed", "", ""),
        ("Outcome unknown", "Its run died during the call", "It happened"),
    ]
    (event,) = AuditEvent.objects.filter(kind="exported")
    assert json.loads(event.details)["what"] == "tool calls"
    list(reader.get("/calls/export/?key=c7"))
    assert json.loads(AuditEvent.objects.filter(kind="exported").latest("pk").details)["filters"] == "key=*"


def _export(reader: Client, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(b"".join(reader.get(f"/calls/export/?{query}")).decode().splitlines()))


def test_calls_of_one_session_are_listed_and_exported(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_call(session=session, call_id="old", issued_at=THEN - timedelta(days=9))
    make_calls(session, 2)
    other = make_session(session_id="other/ü 1")
    make_calls(other, 5)
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 4)
    for typed in (session.session_id, str(session.pk)):
        page = reader.get("/calls/", {"session": typed})
        words = visible_text(page)
        assert "3 calls" in words
        assert "old" in words
        assert "Change the filter" in words
        assert "Of the filters, only agent and time apply to this table." in words
        assert f'value="{typed}"' in page.content.decode()
        assert f'href="/calls/export/?session={typed}" download' in page.content.decode()
        assert [row["call"] for row in _export(reader, f"session={typed}")] == ["c1", "c0", "old"]
    assert [row["call"] for row in _export(reader, f"session={session.session_id}&tool=pay")] == ["c1"]
    assert len(_export(reader, "session=")) == 8
    tab = reader.get(f"/sessions/{other.pk}/calls/?tool=pay&status=failed").content.decode()
    link = re.search(r'href="/calls/export/\?([^"]+)" download', tab)
    assert link is not None
    assert [row["call"] for row in _export(reader, unescape(link[1]))] == ["c3"]


def test_pages_of_the_calls_of_one_session_have_no_gaps(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_call_log, "LOOKED_AT", 2)
    make_calls(session, 7)
    make_calls(make_session(), 3)
    wanted = CallLogFilter(session=session.session_id, session_pk=session.pk)
    pages = workspace_call_log.iterate_call_log_pages(session.workspace_id, wanted)
    calls = [row.record.call_id for rows in pages for row in rows if isinstance(row, LoggedCall)]
    assert calls == [f"c{number}" for number in reversed(range(7))]


def test_unknown_session_has_no_calls_and_is_named(session: Session, reader: Client) -> None:
    make_calls(session, 2)
    elsewhere = make_session(session_id="elsewhere", workspace=make_workspace(slug="elsewhere"))
    make_calls(elsewhere, 1)
    for typed in ("nosuch", "elsewhere", str(elsewhere.pk), "9" * 30, "a\0"):
        words = visible_text(reader.get("/calls/", {"session": typed}))
        assert "No call matches the filters." in words, typed
        assert "There is no session with the id “" in words, typed
        assert _export(reader, f"session={quote(typed)}") == [], typed
    assert "There is no session" not in visible_text(reader.get("/calls/", {"session": str(session.pk), "tool": "x"}))


def test_exported_calls_have_their_arguments_and_who_approved_them(session: Session, reader: Client) -> None:
    args = {"to": "=cmd", "amount": 5, "password": "pw-4711"}
    call = make_call(session=session, call_id="mail", args=args, approvals=2, revision=9, status=CallStatus.COMPLETED)
    long = make_call(session=session, call_id="long", args={"text": "x" * 20_000}, issued_at=THEN - timedelta(days=1))
    history = (
        ("dora", DecisionKind.APPROVE, False),
        ("alice", DecisionKind.EDIT, True),
        ("erin", DecisionKind.REJECT, False),
        ("alice", DecisionKind.APPROVE, False),
        ("carol", DecisionKind.APPROVE, False),
        ("carol", DecisionKind.WITHDRAW, False),
        ("bob", DecisionKind.APPROVE, True),
    )
    for revision, (actor, kind, final) in enumerate(history, start=1):
        at = THEN + timedelta(seconds=revision)
        fields: dict[str, Any] = {"revision": revision, "final": final, "created_at": at}
        make_decision(call=call, kind=kind, actor=actor, reason=f"reason {revision}: pw-4711", **fields)
    first, second = _export(reader, "")
    assert first["arguments"] == '{"amount":5,"password":"‹masked›","to":"=cmd"}'
    assert first["decided_at"] == "2025-03-04T10:42:14.118Z"
    assert (first["decision_reason"], first["decided_by"]) == ("reason 7: ‹masked›", "bob")
    assert first["approvers"] == "alice, bob"
    assert len(second["arguments"]) == 10_000
    assert second["arguments"].endswith("x…")
    assert (second["decided_at"], second["decision_reason"], second["approvers"]) == ("", "", "")
    reasons = first["decision_reasons"].split("; ")
    assert len(reasons) == len(history)
    assert reasons[1] == "alice (edit): reason 2: ‹masked›"
    assert reasons[-1] == "bob (approve): reason 7: ‹masked›"
    assert second["decision_reasons"] == ""
    added = ["page", "arguments", "decided_at", "decision_reason", "approvers", "decision_reasons", "copied"]
    added += ["status_on_page", "reason_on_page", "last_decision_on_page", "export"]
    assert list(first)[-11:] == added
    make_decision(call=long, kind=DecisionKind.APPROVE, revision=1)
    make_decision(call=long, kind=DecisionKind.WITHDRAW, revision=2)
    assert _export(reader, "key=long")[0]["approvers"] == ""


def test_question_is_called_one_and_its_answer_takes_no_time(session: Session, reader: Client) -> None:
    key = f"{INTERRUPT_KEY_PREFIX}q:0"
    question = make_call(session=session, call_id="q", tool=INTERRUPT_TOOL, idempotency_key=key, sentence="Which one?")
    ToolCall.objects.update(status=CallStatus.AWAITING_APPROVAL)
    response = reader.get("/calls/?status=awaiting_approval")
    words = visible_text(response)
    assert "Awaiting approval or answer" in words
    assert re.search(
        r'<th scope="row"><a href="\?[^"]*tool=interrupt[^"]*">question</a></th>', response.content.decode()
    )
    assert "Which one? Question q" in words
    assert words.partition("Which one?")[2].count("Awaiting answer") == 1
    settled = question.issued_at + timedelta(hours=3)
    ToolCall.objects.update(status=CallStatus.COMPLETED, settled_at=settled, interrupted_at=None)
    (rates,) = tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).tools
    assert (rates.completed, rates.answered, rates.median) == (0, 1, None)


def test_call_is_found_by_its_key(session: Session, reader: Client) -> None:
    make_calls(session, 3)
    html = reader.get(f"/sessions/{session.pk}/calls/?key=c1").content.decode()
    assert (">c1<" in html, ">c0<" in html) == (True, False)
    assert 'value="c1"' in html


def test_hostile_names_are_escaped(reader: Client) -> None:
    session = make_session(session_id=SCRIPT, title=SCRIPT, agent=SCRIPT)
    make_call(session=session, tool=SCRIPT, call_id=SCRIPT, args={SCRIPT: SCRIPT})
    html = reader.get("/calls/", {"tool": SCRIPT, "agent": SCRIPT, "key": SCRIPT}).content.decode()
    assert "<script>alert" not in html
    assert reader.get("/calls/?first=x&last=9999-12-31&after=%00&status=x&tool=%00&key=%00").status_code == 200


def test_names_like_one_that_no_call_has_are_offered(session: Session, reader: Client) -> None:
    make_calls(session, 2)
    text = visible_text(reader.get("/calls/?agent=refund"))
    assert "No call matches the filters." in text
    assert "Did you mean: refund-desk Agent" in text
    assert 'href="?agent=refund-desk"' in reader.get("/calls/?agent=refund").content.decode()
    assert "Did you mean: mail Tool" in visible_text(reader.get("/calls/?tool=mai"))
    ToolSums.objects.create(
        workspace_id=session.workspace_id, start=THEN, hourly=False, agent="refund-desk", tool="refund_card"
    )
    assert "Did you mean: refund_card Tool" in visible_text(reader.get("/calls/?tool=refund"))


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_the_rows(
    session: Session, reader: Client, calls: int, django_assert_num_queries: Queries
) -> None:
    make_calls(session, calls)
    with django_assert_num_queries(11):
        reader.get("/calls/")


def test_call_of_a_tool_without_a_sentence_is_put_in_words(session: Session, reader: Client) -> None:
    long = make_call(session=session, args={"note": "why " * 500, "password": "hunter22", "orders": list(range(90))})
    address = f"/sessions/{session.pk}/calls/{long.pk}/"
    for page in ("/calls/", f"/sessions/{session.pk}/calls/"):
        html = reader.get(page).content.decode()
        assert f'<a data-row href="{address}" dir="auto">Refund card: note why why' in html
        assert html.count("why ") < 50
        assert "hunter22" not in html
    assert reader.get(address).content.decode().count("why ") >= 500


def test_shell_command_is_listed_by_itself(session: Session, reader: Client) -> None:
    args = {"command": ["bash", "-lc", "git status -sb"], "workdir": ".", "timeout_ms": 120000}
    make_call(session=session, tool="shell", args=args)
    for page in ("/calls/", f"/sessions/{session.pk}/calls/"):
        words = visible_text(reader.get(page))
        assert " git status -sb shell " in words
        assert "3 entries" not in words


def test_deadline_of_a_call_that_waits_is_listed(session: Session, reader: Client) -> None:
    waiting: dict[str, Any] = {
        "status": CallStatus.AWAITING_APPROVAL,
        "issued_at": datetime.now(UTC) - timedelta(minutes=90),
    }
    make_call(session=session, decide_within=timedelta(minutes=30), **waiting)
    make_call(session=session, call_id="call_10", decide_within=timedelta(hours=3, seconds=59), **waiting)
    make_call(session=session, call_id="call_11", tool="ship", **waiting)
    for page in ("/calls/", f"/sessions/{session.pk}/calls/"):
        words = visible_text(reader.get(page))
        assert words.count("overdue for 1 h") == 1
        assert words.count("due in 1 h 30 min") == 1
        assert words.count("due") == 2


def test_only_a_reader_who_can_decide_an_overdue_call_is_offered_to(session: Session, client: Client) -> None:
    waiting: dict[str, Any] = {"status": CallStatus.AWAITING_APPROVAL, "issued_at": datetime.now(UTC)}
    make_call(session=session, decide_within=timedelta(hours=1), **waiting)
    overdue = make_call(session=session, call_id="call_10", decide_within=timedelta(seconds=-1), **waiting)
    offers = {}
    for role in Role:
        client.force_login(make_user(name=role.value, role=role))
        page = client.get("/calls/").content.decode()
        offers[role] = re.findall(r'href="/review/calls/(\d+)/">(Decide|View)<', page)
        assert page.count("needs an admin") == (role == Role.APPROVER)
    names = {role: [name for pk, name in found if int(pk) == overdue.pk] for role, found in offers.items()}
    assert names == {
        Role.AUDITOR: ["View"],
        Role.APPROVER: ["View"],
        Role.ADMIN: ["Decide"],
    }
    assert [name for _, name in offers[Role.APPROVER]] == ["View", "Decide"]
