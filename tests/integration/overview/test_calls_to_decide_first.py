"""The calls that the overview lists to decide first."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Role, SessionStatus
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.overview.calls_to_decide_first import CallToDecideRow
from harness_site.review.models import Claim
from tests.support.factories import THEN, make_call, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


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
    assert "Handed to you, then interrupted together, then longest waiting." in listed
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


@pytest.mark.parametrize("status", [CallStatus.AWAITING_APPROVAL, CallStatus.INTERRUPTED])
def test_calls_with_equal_times_are_in_the_order_of_the_review_page(reader: Client, status: CallStatus) -> None:
    interrupted_at = THEN if status == CallStatus.INTERRUPTED else None
    for number in range(3):
        make_call(
            session=make_session(), tool=f"t{number}", status=status, issued_at=THEN, interrupted_at=interrupted_at
        )
    overview, review = (
        list(dict.fromkeys(re.findall(r'href="/review/calls/(\d+)/', reader.get(path).content.decode())))
        for path in ("/overview/", "/review/")
    )
    assert len(overview) == 3
    assert overview == review


def test_rows_of_equal_age_are_ordered_by_their_keys_whatever_the_order_of_the_database(reader: Client) -> None:
    calls = [
        make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, issued_at=THEN, interrupted_at=None)
        for _ in range(3)
    ]
    rows = [
        CallToDecideRow(call, call.tool, (call.pk,), THEN, False, None, False, True, False, False)
        for call in reversed(calls)
    ]
    assert [row.call_pks[0] for row in sorted(rows, key=lambda row: row.queue_sort_key)] == [call.pk for call in calls]


def test_calls_to_decide_first_have_the_warnings_of_the_review_page(reader: Client) -> None:
    for number in range(6):
        make_call(
            session=make_session(), tool="refund", status=CallStatus.COMPLETED, args={"amount": f"{number + 18}.00"}
        )
    for amount, risk in (("4200.00", "high"), ("20.00", "medium")):
        make_call(
            session=make_session(),
            tool="refund",
            status=CallStatus.AWAITING_APPROVAL,
            args={"amount": amount},
            interrupted_at=None,
            risk=risk,
        )
    for path, unusual in (("/overview/", "Unusual amount"), ("/review/", "usually at most 23.00")):
        html = reader.get(path).content.decode()
        assert html.count(unusual) == 1, path
        assert len(re.findall('class="risk high"[^>]*><svg.*?</svg>High risk<', html)) == 1, path
