"""Filters and orders of the review queue in its URL."""

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.db import clock
from checkpoints.enums import CallStatus, DecisionKind, InterruptReason, Risk
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.review.models import Comment
from harness_site.review.selectors import pending_calls
from harness_site.review.selectors.queue_order import QueueSort
from harness_site.saved_views.models import SavedView
from tests.integration.review.conftest import Lost
from tests.support.factories import THEN, make_call, make_decision, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def lost(lost: Lost) -> Lost:
    """Make interrupted calls that are no outage, because the list shows one as one row."""
    return partial(lost, reason=InterruptReason.AMBIGUOUS_ERROR)


def listed(client: Client, query: str) -> list[int]:
    """Return the keys of the calls on a page, in order."""
    return [row.pk for row in client.get(f"/review/?{query}").context["rows"]]


def waiting(lost: Lost, minutes: float, **fields: object) -> ToolCall:
    """Create a call that was interrupted `minutes` minutes ago."""
    return lost((clock.now() - THEN).total_seconds() - 60 * minutes, **fields)


def test_filters_suggest_the_tools_and_agents_of_the_page(people: dict[str, Client], lost: Lost) -> None:
    lost(tool="ship_parcel", agent="shipping")
    page = people["carol"].get("/review/").content.decode()
    assert '<datalist id="tools"><option value="ship_parcel">ship_parcel</option></datalist>' in page
    assert '<datalist id="agents"><option value="shipping">shipping</option></datalist>' in page


def test_order_by_risk(people: dict[str, Client], lost: Lost) -> None:
    low, high, medium = lost(risk=Risk.LOW), lost(1, risk=Risk.HIGH), lost(2, risk=Risk.MEDIUM)
    assert listed(people["carol"], "risk=high") == [high.pk]
    assert listed(people["carol"], "sort=risk") == [high.pk, medium.pk, low.pk]
    question: dict[str, Any] = {
        "tool": INTERRUPT_TOOL,
        "call_id": "q1",
        "idempotency_key": f"{INTERRUPT_KEY_PREFIX}q1:0",
    }
    asked = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, risk=Risk.LOW, **question)
    make_decision(call=make_call(session=make_session(), status=CallStatus.COMPLETED, risk=Risk.LOW, **question))
    assert listed(people["carol"], "risk=low") == [low.pk]  # a question has no risk
    assert not people["carol"].get("/review/?tab=decided&risk=low").context["decisions"]
    ToolCall.objects.filter(pk=asked.pk).delete()
    assert listed(people["carol"], "risk=enormous") == [low.pk, high.pk, medium.pk]
    assert "Filtered by: high risk Clear filters" in visible_text(people["carol"].get("/review/?risk=high"))
    declared = "The developer of a tool declares its risk."
    assert declared not in visible_text(people["carol"].get("/review/?risk=high"))
    ToolCall.objects.filter(pk=high.pk).update(risk=Risk.MEDIUM)
    assert declared in visible_text(people["carol"].get("/review/?risk=high"))


def test_near_deadlines_are_the_first_of_their_risk(people: dict[str, Client], lost: Lost) -> None:
    medium, high = lost(risk=Risk.MEDIUM), lost(1, risk=Risk.HIGH)
    due, soon = (lost(n, risk=Risk.MEDIUM, decide_within=timedelta(hours=hours)) for n, hours in ((2, 2), (3, 1)))
    assert listed(people["carol"], "sort=risk") == [high.pk, soon.pk, due.pk, medium.pk]
    words = "Highest risk, then nearest deadline, then longest waiting."
    assert words in visible_text(people["carol"].get("/review/?sort=risk"))


def test_order_by_age(people: dict[str, Client], lost: Lost) -> None:
    old, young = waiting(lost, 61), waiting(lost, 59)
    assert listed(people["carol"], "age=1h") == [old.pk]
    assert listed(people["carol"], "age=15m") == [old.pk, young.pk]
    assert listed(people["carol"], "age=1d") == []


def test_order_by_deadline(people: dict[str, Client], lost: Lost) -> None:
    late = waiting(lost, 30, decide_within=timedelta(minutes=20))
    soon = waiting(lost, 31, decide_within=timedelta(minutes=60))
    later = waiting(lost, 32, decide_within=timedelta(hours=3))
    free = waiting(lost, 33)
    found = {limit: listed(people["carol"], f"deadline={limit}") for limit in pending_calls.DeadlineFilter.values}
    assert found == {
        "overdue": [late.pk],
        "hour": [soon.pk, late.pk],
        "day": [later.pk, soon.pk, late.pk],
        "none": [free.pk],
    }
    assert listed(people["carol"], "sort=deadline") == [late.pk, soon.pk, later.pk, free.pk]


def test_approvals_are_ordered_by_age_and_deadline(people: dict[str, Client], lost: Lost) -> None:
    asked = clock.now() - timedelta(minutes=30)
    fields = {"status": CallStatus.AWAITING_APPROVAL, "issued_at": asked, "interrupted_at": None}
    calls = [ToolCall.objects.get(pk=lost(decide_within=timedelta(minutes=minutes)).pk) for minutes in (90, 20)]
    ToolCall.objects.update(**fields)
    assert listed(people["carol"], "tab=awaiting&deadline=overdue&age=15m") == [calls[1].pk]
    assert listed(people["carol"], "tab=awaiting&sort=deadline") == [calls[1].pk, calls[0].pk]


def test_filter_by_claim(people: dict[str, Client], lost: Lost) -> None:
    mine, theirs, free = lost(), lost(1), lost(2)
    people["alice"].post(f"/review/calls/{mine.pk}/claim/")
    people["bob"].post(f"/review/calls/{theirs.pk}/claim/")
    found = {who: listed(people["alice"], f"claimed={who}") for who in ("me", "nobody", "somebody")}
    assert found == {"me": [mine.pk], "nobody": [free.pk], "somebody": [mine.pk, theirs.pk]}


@pytest.mark.parametrize("sort", ["risk", "deadline"])
def test_pages_of_a_chosen_order_are_consecutive(people: dict[str, Client], lost: Lost, sort: str) -> None:
    risks, limits = list(Risk), [None, timedelta(hours=1), timedelta(hours=2)]
    for number in range(pending_calls.PAGE + 5):
        lost(number % 7 + number % 2 / 8, risk=risks[number % 3], decide_within=limits[number % 4 % 3])
    whole, _following = pending_calls.list_keys_of_pending_page_and_count_next(
        lost().workspace, [CallStatus.INTERRUPTED], sort=QueueSort(sort), limit=99
    )
    first = people["carol"].get(f"/review/?sort={sort}")
    shown = [row.pk for row in first.context["rows"]]
    last = ToolCall.objects.get(pk=shown[-1])
    ToolCall.objects.filter(pk=last.pk).update(status=CallStatus.FAILED, revision=2)  # decided in the meantime
    second = [row.pk for row in people["carol"].get(f"/review/{first.context['more']}").context["rows"]]
    assert (len(whole), len(shown)) == (pending_calls.PAGE + 6, pending_calls.PAGE)
    assert shown + second == whole


@pytest.mark.parametrize("sort", QueueSort.values)
def test_pages_of_all_waiting_calls_are_consecutive(people: dict[str, Client], lost: Lost, sort: str) -> None:
    """Interrupted calls and those that await approval are one list."""
    since = clock.now() - timedelta(hours=5)
    calls = [lost(risk=list(Risk)[number % 3]) for number in range(2 * pending_calls.PAGE + 3)]
    for number, call in enumerate(calls):
        moment = since + timedelta(minutes=number)
        asks = {"status": CallStatus.AWAITING_APPROVAL, "issued_at": moment, "interrupted_at": None}
        ToolCall.objects.filter(pk=call.pk).update(**(asks if number % 2 else {"interrupted_at": moment}))
    ranks = {call.pk: -list(Risk).index(Risk(call.risk)) if sort == "risk" else 0 for call in calls}
    shown: list[int] = []
    address = f"?sort={sort}"
    while address:
        page = people["carol"].get(f"/review/{address}")
        shown += [row.pk for row in page.context["rows"]]
        address = page.context["more"]
    assert shown == sorted((call.pk for call in calls), key=lambda pk: (ranks[pk], pk))


def test_calls_for_the_reader_are_those_they_claimed_or_are_mentioned_in(people: dict[str, Client], lost: Lost) -> None:
    claimed, mentioned, own, other, _free = (lost(minute) for minute in range(5))
    people["alice"].post(f"/review/calls/{claimed.pk}/claim/")
    for call, author, text in (
        (mentioned, "bob", "Please look, @Alice."),
        (own, "alice", "I am @alice"),
        (other, "bob", "@alice.k and x@alice know it, @alicex too"),
    ):
        Comment.objects.create(call=call, author=author, text=text)
    assert listed(people["alice"], "claimed=for-me") == [claimed.pk, mentioned.pk]
    page = people["alice"].get("/review/")
    assert visible_text(page).count("bob mentions you") == 1
    assert "mentions you" not in visible_text(people["carol"].get("/review/"))
    assert 'claimed=for-me"' in page.content.decode()


def test_cursor_of_a_deleted_call_shows_the_first_page(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    assert listed(people["carol"], "tab=interrupted&after=999999") == [call.pk]


def test_decided_calls_are_filtered_by_risk(people: dict[str, Client], lost: Lost) -> None:
    for risk in Risk:
        make_decision(call=lost(status=CallStatus.COMPLETED, risk=risk))
    page = people["carol"].get("/review/?tab=decided&risk=low&age=1h")
    assert page.content.decode().count("data-row") == 1
    assert "Filtered by: low risk Clear filters" in visible_text(page)


def test_filters_are_saved_as_a_view(people: dict[str, Client], lost: Lost) -> None:
    lost()
    people["alice"].post("/saved/review/", {"name": "Dangerous", "query": "sort=risk&risk=high&after=3"})
    assert SavedView.objects.get().query == "risk=high&sort=risk"
    assert 'href="/review/?risk=high&amp;sort=risk"' in people["bob"].get("/review/").content.decode()


def test_hostile_filters_are_escaped(people: dict[str, Client], lost: Lost) -> None:
    lost()
    page = people["carol"].get("/review/", {"tool": '"><script>alert(1)</script>\0', "agent": "<b>"}).content.decode()
    assert "<script>alert" not in page


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_filters(
    people: dict[str, Client], lost: Lost, django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    made = [lost(decide_within=timedelta(hours=1), approvals=2) for _ in range(calls)]
    people["alice"].get(f"/review/calls/{made[0].pk}/")
    carol = people["carol"]
    with django_assert_num_queries(23):
        carol.get("/review/?risk=medium&age=1h&deadline=overdue&claimed=nobody&sort=risk")


def test_answer_parameter_preselects_without_recording(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    page = people["alice"].get(f"/review/calls/{call.pk}/?answer=2").content.decode()
    assert 'value="mark_failed" data-button="Record that it did not happen" required checked autofocus' in page
    assert " checked" not in people["alice"].get(f"/review/calls/{call.pk}/?answer=9").content.decode()
    call.refresh_from_db()
    assert (call.status, call.revision) == (CallStatus.INTERRUPTED, 1)


def test_decided_calls_are_filtered_by_answer_and_by_a_colleague(people: dict[str, Client], lost: Lost) -> None:
    for second, (actor, kind) in enumerate(
        [
            ("alice", DecisionKind.MARK_FAILED),
            ("bob", DecisionKind.MARK_FAILED),
            ("bob", DecisionKind.CONFIRM_LANDED),
            ("gone", DecisionKind.CONFIRM_LANDED),
        ]
    ):
        make_decision(call=lost(second, status=CallStatus.COMPLETED), actor=actor, kind=kind)

    def list_deciders(query: str) -> list[str]:
        page = people["alice"].get(f"/review/?tab=decided&{query}")
        return [row.actor for row in page.context["decisions"]]

    assert list_deciders("answer=mark_failed") == ["bob", "alice"]
    assert list_deciders("answer=mark_failed&by=person:bob") == ["bob"]
    assert list_deciders("by=person:bob") == ["bob", "bob"]
    assert list_deciders("answer=discard") == list_deciders("") == ["gone", "bob", "bob", "alice"]
    page = people["alice"].get("/review/?tab=decided&answer=mark_failed&by=person:bob")
    assert "Filtered by: It did not happen decisions of bob Clear filters" in visible_text(page)
    content = page.content.decode()
    assert '<option value="person:bob" selected>bob</option><option value="person:dora">dora</option>' in content
    assert "person:alice" not in content  # who is Me
    assert "person:carol" not in content  # auditors do not decide
    assert (
        '<option value="person:gone" selected>'
        in people["alice"].get("/review/?tab=decided&by=person:gone").content.decode()
    )


def test_each_filter_is_removed_by_itself(people: dict[str, Client], lost: Lost) -> None:
    lost(tool="ship_parcel", agent="shipping")
    page = people["carol"].get("/review/?tab=interrupted&tool=ship_parcel&agent=shipping&age=1h&deadline=none")
    links = dict(re.findall(r'<a href="([^"]*)" aria-label="Remove filter ([^"]*)"', page.content.decode()))
    assert {words: address.replace("&amp;", "&") for address, words in links.items()} == {
        "tool ship_parcel": "?tab=interrupted&agent=shipping&age=1h&deadline=none",
        "agent shipping": "?tab=interrupted&tool=ship_parcel&age=1h&deadline=none",
        "waiting longer than an hour": "?tab=interrupted&tool=ship_parcel&agent=shipping&deadline=none",
        "no deadline": "?tab=interrupted&tool=ship_parcel&agent=shipping&age=1h",
    }
    page = people["carol"].get("/review/?tab=decided&first=2026-11-01&last=2026-11-03&zone=Europe/Berlin&risk=high")
    assert '<a href="?tab=decided&amp;risk=high" aria-label="Remove filter from 2026-11-01' in page.content.decode()


def test_panel_of_decided_calls_is_named_after_what_it_has(people: dict[str, Client], lost: Lost) -> None:
    make_decision(call=lost(status=CallStatus.COMPLETED))
    lost()
    assert "Filter and sort" in visible_text(people["carol"].get("/review/?tab=interrupted"))
    decided = visible_text(people["carol"].get("/review/?tab=decided"))
    assert "Filter and sort" not in decided
    assert "Filter Tool" in decided


@pytest.mark.parametrize("list_address", ["/review/?tab=decided", "/sessions/?", "/calls/?", "/audit/?"])
def test_reversed_range_of_days_is_an_error_at_the_field(people: dict[str, Client], list_address: str) -> None:
    query = "first=2026-12-05&last=2026-11-01&zone=UTC"
    page = people["carol"].get(f"{list_address}&{query}")
    assert "The start is after the end. Swap them" in visible_text(page)
    assert 'aria-invalid="true" aria-describedby="first-error"' in page.content.decode()
    [swapped] = re.findall(r'<a href="([^"]*)">Swap them', page.content.decode())
    assert "first=2026-11-01&amp;last=2026-12-05" in swapped
    right = people["carol"].get(f"{list_address}&first=2026-11-01&last=2026-11-01&zone=UTC")
    assert "The start is after the end." not in visible_text(right)


def test_reversed_range_of_costs_is_an_error_at_the_field(people: dict[str, Client]) -> None:
    page = people["carol"].get("/sessions/?least=5&most=1.50")
    assert "The range is reversed. Swap them" in visible_text(page)
    assert '<a href="?least=1.50&amp;most=5">Swap them' in page.content.decode()
    assert "The range is reversed." not in visible_text(people["carol"].get("/sessions/?least=5&most=5"))
