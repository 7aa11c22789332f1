import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, Q, QuerySet
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.db import clock
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, InterruptReason, Role, SessionStatus
from checkpoints.models import Decision, Session, ToolCall
from harness_site.accounts.models import Membership
from harness_site.review.load_claims_and_record_presence import load_statuses_of_undecided_calls_handed_to
from harness_site.review.models import BulkDecision, BulkDecisionEntry, Claim
from harness_site.review.selectors import pending_call_counts_by_decider, pending_calls, queue_order
from harness_site.review.selectors.pending_calls import CallFilters
from tests.support.client_login import sign_in
from tests.support.factories import THEN, make_call, make_decision, make_run, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def interrupted(minute: int, *, agent: str = "refund-desk", workspace: str = "default", **fields: object) -> ToolCall:
    """Make an interrupted call that is no outage, because the list shows one as one row."""
    fields = {"reason": InterruptReason.AMBIGUOUS_ERROR, **fields}
    session = make_session(agent=agent, workspace=make_workspace(slug=workspace), status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session)
    return make_call(session=session, interrupted_at=THEN + timedelta(minutes=minute), **fields)  # type: ignore[arg-type]


def test_counted_calls_have_the_order_the_deadlines_and_the_handovers_that_the_database_finds() -> None:
    member = Membership.objects.get(user=make_user(name="alice", role=Role.APPROVER))
    now = clock.now()
    for number, ends_in in enumerate((None, -2.0, 0.2, 0.5, 20.0, 30.0, None)):
        call = interrupted(
            -(number % 3),
            status=CallStatus.AWAITING_APPROVAL if number % 2 else CallStatus.INTERRUPTED,
            decide_within=None if ends_in is None else now - THEN + timedelta(hours=ends_in),
        )
        if number % 2:
            ToolCall.objects.filter(pk=call.pk).update(interrupted_at=None, issued_at=THEN)
        if number in {1, 4, 5}:
            since, seen_at = now - timedelta(minutes=number % 4), now - timedelta(hours=5 * number)
            Claim.objects.create(call=call, member=member, since=since, seen_at=seen_at, handed_by="bob")
    waiting = pending_call_counts_by_decider.count_calls_for_reader_and_for_others(member)
    for statuses in ([CallStatus.INTERRUPTED], [CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL]):
        in_order = pending_call_counts_by_decider.list_keys_of_longest_waiting_calls(waiting, statuses)
        assert in_order is not None
        found = pending_calls.list_keys_of_pending_page_and_count_next
        assert found(member.workspace, statuses, all_in_order=in_order) == found(member.workspace, statuses)
        last: dict[str, Any] = {"excluded_keys": in_order[:1], "keys_at_end": in_order[1:2], "limit": 2}
        assert found(member.workspace, statuses, all_in_order=in_order, **last) == found(
            member.workspace, statuses, **last
        )
    for with_overdue in (True, False):
        due = pending_calls.list_first_due_calls_and_count_urgent(
            member.workspace, CallFilters(), with_overdue=with_overdue
        )
        counted = pending_call_counts_by_decider.list_first_due_calls_of_counted(
            waiting, now, with_overdue=with_overdue
        )
        assert (counted, list(counted.statuses)) == (due, list(due.statuses))
        assert len(due.statuses) == (4 if with_overdue else 3)
    handed = pending_call_counts_by_decider.list_statuses_of_calls_handed_to_reader(waiting, member, now)
    assert handed is not None
    assert list(handed.items()) == list(load_statuses_of_undecided_calls_handed_to(member).items())
    assert len(handed) == 2


def _listed(page: Any) -> list[int]:
    return [int(pk) for pk in re.findall(r'id="call-(\d+)"', page.content.decode())]


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_the_calls(
    reader: Client, django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    for minute in range(calls):
        interrupted(minute, verifiable=True)
    with django_assert_num_queries(19):
        response = reader.get("/review/")
    assert response.content.decode().count("data-answers") == calls


@pytest.mark.parametrize("decisions", [1, 3])
def test_query_count_is_independent_of_the_decisions(
    reader: Client, django_assert_num_queries: DjangoAssertNumQueries, decisions: int
) -> None:
    for minute in range(decisions):
        make_decision(call=interrupted(minute, status=CallStatus.COMPLETED), reason=f"Reason {minute}")
    with django_assert_num_queries(16):
        response = reader.get("/review/?tab=decided")
    assert response.content.decode().count("data-row") == decisions


@pytest.mark.parametrize("status", [CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL])
def test_calls_with_a_near_deadline_are_found_by_their_index(status: CallStatus) -> None:
    session = make_session()
    for number in range(60):
        make_call(session=session, status=status, call_id=f"without-deadline-{number}")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # which reads a small table rather than an index
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("ANALYZE checkpoints_toolcall")  # any index would do for a table that it takes to be empty
    filters = CallFilters(limit=pending_calls.DeadlineFilter.HOUR)
    plan = pending_calls.query_pending_calls(make_workspace(), status, filters).values("pk").explain()
    assert "call_with_deadline" in plan


@pytest.mark.parametrize("status", [CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL])
def test_longest_waiting_calls_are_read_in_the_order_of_their_index(status: CallStatus) -> None:
    if connection.vendor == "postgresql":  # which reads and sorts a small table rather than an index
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    calls = pending_calls.query_pending_calls(make_workspace(), status, CallFilters())
    plan = calls.order_by(queue_order.WAITING_SINCE, "pk").values("pk")[:2].explain()
    assert "call_undecided" in plan
    assert "ORDER BY" not in plan  # words of SQLite and of PostgreSQL for a sort
    assert "Sort" not in plan


def test_count_of_all_statuses_regards_each_filter() -> None:
    member = Membership.objects.get(user=make_user(name="alice", role=Role.APPROVER))
    interrupted(0)
    young = interrupted(0, status=CallStatus.AWAITING_APPROVAL)
    ToolCall.objects.filter(pk=young.pk).update(interrupted_at=None, issued_at=clock.now())
    for filters in (
        CallFilters(age=timedelta(hours=1)),
        CallFilters(condition=Q(status=CallStatus.INTERRUPTED)),
    ):
        assert str(pending_calls.count_pending_calls(member.workspace, filters)) == "1"
    within_an_hour = CallFilters(limit=pending_calls.DeadlineFilter.HOUR)
    assert str(pending_calls.count_pending_calls(member.workspace, within_an_hour)) == "0"


def test_tab_of_approvals_counts_the_urgent_ones(reader: Client) -> None:
    for minutes in (5, 50, 70, None):
        within = None if minutes is None else timedelta(minutes=minutes)
        call = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, decide_within=within)
        ToolCall.objects.filter(pk=call.pk).update(issued_at=datetime.now(UTC))
    assert "All 4 2 urgent Interrupted Approvals and questions 4" in visible_text(
        reader.get("/review/?tab=interrupted")
    )
    assert "urgent" not in visible_text(reader.get("/review/?deadline=day")).partition("Filter and sort")[0]


def test_queue_opens_with_all_waiting_calls_and_an_open_list_stays(reader: Client) -> None:
    assert 'hx-get="/review/"' in reader.get("/review/").content.decode()  # an empty page stays as it was asked for
    lost = interrupted(0)
    asked = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, interrupted_at=None, issued_at=THEN)
    urgent = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, decide_within=timedelta(minutes=5))
    ToolCall.objects.filter(pk=urgent.pk).update(issued_at=datetime.now(UTC))
    page = reader.get("/review/")
    assert (page.context["tab"], 'hx-get="?tab=all"' in page.content.decode()) == ("all", True)
    assert _listed(page)[0] == urgent.pk
    assert sorted(_listed(page)) == [lost.pk, asked.pk, urgent.pk]
    assert "All 3 1 urgent Interrupted 1 Approvals and questions 2" in visible_text(page)
    assert "Nobody knows whether it happened." in visible_text(reader.get("/review/?tab=interrupted"))
    assert "Decisions The latest decision first." in visible_text(reader.get("/review/?tab=decided"))


def test_first_tab_counts_the_urgent_calls_of_both_kinds(reader: Client) -> None:
    sign_in(reader, make_user(name="dora", role=Role.ADMIN))
    approval = make_call(
        session=make_session(), status=CallStatus.AWAITING_APPROVAL, decide_within=timedelta(minutes=29)
    )
    ToolCall.objects.filter(pk=approval.pk).update(issued_at=datetime.now(UTC))
    interrupted(0, decide_within=timedelta(hours=2))
    assert "All 2 2 urgent Interrupted 1 Approvals and questions 1" in visible_text(reader.get("/review/"))


def test_calls_due_within_a_day_come_before_longer_waiting_ones_and_on_the_first_page_alone(
    reader: Client,
) -> None:
    sign_in(reader, make_user(name="dora", role=Role.ADMIN))
    waiting = [interrupted(minute) for minute in range(pending_calls.PAGE + 1)]
    overdue = interrupted(pending_calls.PAGE + 5, decide_within=timedelta(hours=2))
    passed = datetime.now(UTC) - THEN
    later = interrupted(pending_calls.PAGE + 6, decide_within=passed + timedelta(days=3))
    due = interrupted(pending_calls.PAGE + 7, decide_within=passed + timedelta(hours=20))
    first = reader.get("/review/")
    assert "Due within a day, then longest waiting." in visible_text(first)
    assert "1 urgent" in visible_text(first)
    assert _listed(first) == [overdue.pk, due.pk, *(call.pk for call in waiting[: pending_calls.PAGE])]
    ToolCall.objects.filter(pk__in=[due.pk, later.pk]).delete()
    assert _listed(reader.get(f"/review/{first.context['more']}")) == [waiting[-1].pk]
    assert _listed(reader.get("/review/?sort=risk"))[0] == overdue.pk
    sign_in(reader, make_user(name="bob", role=Role.APPROVER))  # who may not decide the overdue one
    page = reader.get("/review/")
    assert _listed(page)[0] == waiting[0].pk
    assert "urgent" not in visible_text(page).partition("Filter and sort")[0]


def test_calls_that_the_reader_cannot_decide_come_after_those_of_all_pages(reader: Client) -> None:
    sign_in(reader, make_user(name="bob", role=Role.APPROVER))
    overdue = [interrupted(minute, decide_within=timedelta(hours=2)) for minute in range(pending_calls.PAGE)]
    due = interrupted(40, decide_within=datetime.now(UTC) - THEN + timedelta(hours=20))
    waiting = [interrupted(50 + minute) for minute in range(pending_calls.PAGE + 1)]
    pages = [reader.get("/review/")]
    while more := pages[-1].context["more"]:
        pages.append(reader.get(f"/review/{more}"))
    assert [_listed(page) for page in pages] == [
        [due.pk, *(call.pk for call in waiting[:-1])],
        [waiting[-1].pk, *(call.pk for call in overdue[:-1])],
        [overdue[-1].pk],
    ]
    assert [page.context["following"] for page in pages] == [pending_calls.PAGE, 1, 0]
    texts = [visible_text(page) for page in pages]
    assert ["You cannot decide these now" in text for text in texts] == [False, True, True]
    assert all("Due within a day, then longest waiting." in text for text in texts)
    assert _listed(reader.get("/review/?tool=refund_card&deadline=overdue")) == [call.pk for call in overdue]


def test_page_of_many_calls_says_that_its_last_rows_are_not_those_of_the_whole_list(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_call_counts_by_decider, "COUNT_LIMIT", 1)
    sign_in(reader, make_user(name="bob", role=Role.APPROVER))
    for minute in range(pending_calls.PAGE + 2):
        interrupted(minute, decide_within=timedelta(hours=2) if minute % 2 else None)
    first = reader.get("/review/")
    assert "On this page, you cannot decide these now" in visible_text(first)
    last = visible_text(reader.get(f"/review/{first.context['more']}"))
    assert "You cannot decide these now" in last
    assert "On this page" not in last


@pytest.mark.parametrize("query", ["", "?tool=send_mail", "?claimed=somebody", "?tab=decided&tool=send_mail"])
def test_navigation_counts_all_calls_of_a_filtered_queue(reader: Client, query: str) -> None:
    interrupted(1, tool="refund_card")
    interrupted(2, tool="send_mail")
    make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL)
    assert 'id="waiting" data-said="3"' in reader.get(f"/review/{query}").content.decode()


def test_longest_waiting_call_is_first(reader: Client) -> None:
    newer, older = interrupted(5), interrupted(1)
    page = reader.get("/review/").content.decode()
    assert page.index(f'id="call-{older.pk}"') < page.index(f'id="call-{newer.pk}"')


def test_call_of_a_quarantined_session_is_marked(reader: Client) -> None:
    call = interrupted(0)
    assert "Quarantined" not in visible_text(reader.get("/review/"))
    Session.objects.filter(pk=call.session_id).update(quarantined_at=THEN)
    page = reader.get("/review/")
    assert "Quarantined: altered data" in visible_text(page)
    assert f'href="/sessions/{call.session_id}/quarantine/"' in page.content.decode()


@pytest.fixture
def sealed(settings: Any) -> Any:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    return settings


@pytest.mark.parametrize("model", [ToolCall, Session], ids=lambda model: model.__name__)
def test_altered_call_is_not_shown(reader: Client, sealed: Any, model: type[Model]) -> None:
    altered, other = interrupted(0, tool="send_email"), interrupted(1)
    assert "Send email" in visible_text(reader.get("/review/"))
    pk = altered.pk if model is ToolCall else altered.session_id
    change = {"args": '{"order":18}'} if model is ToolCall else {"session_id": "another"}
    QuerySet(model).filter(pk=pk).update(**change)
    response = reader.get("/review/")
    page = visible_text(response)
    assert "A call is not shown, because its data are not as they were written" in page
    assert "Send email" not in page
    assert "another" not in page
    assert "Refund card" in page
    rows = response.content.decode()
    assert f'href="/review/calls/{altered.pk}/" data-row>' in rows
    assert f'href="/review/calls/{other.pk}/" data-row data-answers>' in rows
    assert reader.get(f"/review/calls/{altered.pk}/").status_code == 409


@pytest.mark.parametrize(("key", "required"), [("", False), ("5e" * 32, True)])
def test_call_whose_seal_cannot_be_checked_is_not_shown(
    reader: Client, sealed: Any, key: str, *, required: bool
) -> None:
    call = interrupted(0)
    if required:
        for model, pk in ((ToolCall, call.pk), (Session, call.session_id)):
            QuerySet(model).filter(pk=pk).update(row_seal=None)
    sealed.HARNESS_SEAL_KEY, sealed.HARNESS_SEAL_REQUIRED = key, required
    page = visible_text(reader.get("/review/"))
    assert "A call is not shown, because its seal cannot be checked" in page
    assert "Refund card" not in page


def test_altered_call_of_an_outage_is_not_shown(reader: Client, sealed: Any) -> None:
    altered, _ = (interrupted(0, reason=InterruptReason.RUN_LOST) for _ in range(2))
    QuerySet(ToolCall).filter(pk=altered.pk).update(args='{"order":18}')
    page = visible_text(reader.get("/review/"))
    assert "2 calls of refund_card interrupted in the same second" in page
    assert "A call is not shown, because its data are not as they were written" in page
    assert "order 18" not in page


def test_row_describes_its_call(reader: Client) -> None:
    call = interrupted(
        0, sentence="Refund 40.00 EUR to the card ending 4242", verifiable=True, reason=InterruptReason.RUN_LOST
    )
    page = visible_text(reader.get("/review/"))
    assert "1 call needs a decision" in page
    assert (
        "Refund 40.00 EUR to the card ending 4242 order: 17 refund_card · refund-desk · "
        f"session {call.session.session_id} · The process ended during this call · The tool can check it" in page
    )


def test_row_says_that_the_verify_hook_could_not_tell(reader: Client) -> None:
    asked, _not_asked = interrupted(0, verifiable=True), interrupted(1, verifiable=True)
    make_decision(call=asked, kind=DecisionKind.PROBE_UNKNOWN, actor_kind=ActorKind.HOOK)
    page = visible_text(reader.get("/review/"))
    why = (
        "The tool failed and may still have done it · The tool’s own check could not tell · The tool can check it again"
    )
    assert page.count(why) == 1
    assert page.count("The tool failed and may still have done it · The tool can check it") == 1


@pytest.mark.parametrize("tab", ["interrupted", "all"])
def test_interrupted_row_has_the_same_state_on_each_tab(reader: Client, tab: str) -> None:
    interrupted(0, verifiable=True)
    interrupted(1)
    page = visible_text(reader.get(f"/review/?tab={tab}"))
    assert (page.count("Outcome unknown"), page.count("The tool can check it")) == (2, 1)


def test_call_without_a_sentence_is_described_by_its_arguments(reader: Client) -> None:
    interrupted(0, reason=InterruptReason.AMBIGUOUS_ERROR)
    response = reader.get("/review/")
    page = visible_text(response)
    assert "Refund card: amount 40.00, currency EUR, order 17" in page
    assert "The tool failed and may still have done it" in page
    assert '<span class="amount said">40.00 EUR</span>' in response.content.decode()


@pytest.mark.parametrize(
    ("risk", "side_effects", "shown"),
    [("medium", "mutate", False), ("medium", "write", False), ("low", "mutate", True), ("high", "mutate", True)],
)
def test_row_shows_an_unusual_risk_or_one_by_which_it_is_found_and_card_says_where_it_comes_from(
    reader: Client, risk: str, side_effects: str, shown: bool
) -> None:
    call = interrupted(0, risk=risk, side_effects=side_effects)
    row = reader.get("/review/").content.decode()
    assert ('class="risk ' in row) is shown
    assert ('title="The tool declares this risk."' in row) is shown
    for query in ("sort=risk", f"risk={risk}"):
        assert 'class="risk ' in reader.get(f"/review/?{query}").content.decode()
    card = visible_text(reader.get(f"/review/calls/{call.pk}/"))
    effect = {"mutate": "changes or deletes something outside of the session", "write": "writes something new"}
    assert f"· its tool {effect[side_effects]}" in card
    assert f"Side effects {effect[side_effects]} (" in card
    assert ("risk" in card.lower()) is shown  # where the tool declares nothing unusual, nothing reassures
    head = card[card.index("Outcome unknown") : card.index("What was about to happen")]
    assert ("High risk Its tool declares" in head) is (risk == "high")
    assert card.count("High risk Its tool declares") == (risk == "high")
    reasons = {
        "high": "High risk Its tool declares that a mistake costs more than usual.",
        "low": "Low risk Its tool declares that a mistake costs less than usual.",
    }
    assert (reasons.get(risk, f"{risk.capitalize()} risk") in card) is shown


@pytest.mark.parametrize(
    ("completed", "waiting", "highest"),
    [
        ((20, 30, 40, 60, 20), 1480, "60 EUR"),
        ((20, 30, 40, 60, 20), 150, ""),  # five times the median
        ((20, 30, 40, 600, 20), 590, ""),  # there was a higher one
        ((20, 30, 40, 60), 1480, ""),  # too few
    ],
)
def test_unusual_amount_is_shown_with_what_is_usual(
    reader: Client, completed: tuple[int, ...], waiting: int, highest: str
) -> None:
    def make(amount: int, **fields: object) -> ToolCall:
        args = {"amount": amount, "currency": "EUR"}
        return make_call(session=make_session(), args=args, **fields)  # type: ignore[arg-type]

    for amount in completed:
        make(amount, status=CallStatus.COMPLETED)
    make(9_000, status=CallStatus.FAILED)
    make(9_000, status=CallStatus.COMPLETED, tool="refund_order")
    call = make(waiting, status=CallStatus.AWAITING_APPROVAL)
    row, card = visible_text(reader.get("/review/")), visible_text(reader.get(f"/review/calls/{call.pk}/"))
    assert (f"usually at most {highest}" in row) is bool(highest)
    assert ("Unusual amount" in card) is bool(highest)
    if highest:
        assert f"The 5 newest completed calls of this tool with an amount have at most {highest}." in card


@pytest.mark.parametrize(
    ("others", "waiting", "highest"),
    [
        ((10, 15, 20, 10, 20, 15), 150, "20 EUR"),
        ((10, 15, 20, 10, 20, 15, 10, 10, 20, 150), 150, "20 EUR"),  # another stands out as well
        ((10, 15, 20, 10, 20, 15), 60, ""),  # less than five times the median
        ((10, 15, 20, 10), 150, ""),  # too few
        ((10, 15, 20, 10, 20, 15, 150, 160), 150, ""),  # too many are high
    ],
)
def test_amount_of_a_tool_without_completed_calls_is_compared_with_those_that_wait(
    reader: Client, others: tuple[int, ...], waiting: int, highest: str
) -> None:
    def make(amount: int, **fields: object) -> ToolCall:
        args = {"amount": amount, "currency": "EUR"}
        fields = {"status": CallStatus.AWAITING_APPROVAL, "risk": "low", **fields}
        return make_call(session=make_session(), args=args, **fields)  # type: ignore[arg-type]

    make(150, status=CallStatus.COMPLETED)
    for number, amount in enumerate(others):
        make(amount, status=CallStatus.APPROVED if number == 1 else CallStatus.AWAITING_APPROVAL)
    call = make(waiting)
    card = visible_text(reader.get(f"/review/calls/{call.pk}/"))
    unusual = [amount for amount in (*others, waiting) if amount > 100] if highest else []
    for address in ("/review/", f"/review/approvals/?tool={call.tool}&people=1"):
        page = reader.get(address).content.decode()
        assert page.count(f"otherwise at most {highest}") == len(unusual)
        assert page.count('class="risk low"') == len(others) - len(unusual)  # one is approved
        count = {0: "", 1: "1 of these 6 calls has", 2: "2 of these 10 calls have"}[len(unusual)]
        is_counted = "approvals" in address and bool(count)
        assert (f"{count} an unusual amount" in visible_text(reader.get(address))) is is_counted
        assert page.count(" data-unusual>") == len(unusual) * is_counted
    assert ("Unusual amount" in card) is bool(highest)
    assert ("Low risk" in card) is not bool(highest)
    if highest:
        number = sum(amount <= 100 for amount in others)
        assert f"{number} other calls of this tool that wait or are approved have at most {highest}." in card


def test_row_of_an_approval_names_the_arguments_that_its_sentence_does_not_say(reader: Client) -> None:
    args = {"amount": "9.90", "currency": "EUR", "reason": "arrived broken", "password": "x7"}
    for sentence in ("Refund 9.90 EUR", "Refund the customer"):
        make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, sentence=sentence, args=args)
    page = reader.get("/review/").content.decode()
    assert page.count("reason: arrived broken · password: ‹masked›") == 2
    assert page.count("9.90 EUR</span>") == 2
    assert ' status">' not in page  # the list says that they await approval


def test_only_undecided_calls_of_this_workspace_are_listed(reader: Client) -> None:
    interrupted(0, workspace="elsewhere")
    interrupted(1, status=CallStatus.COMPLETED)
    page = visible_text(reader.get("/review/"))
    assert "Nothing needs a decision" in page
    assert "No call waits for a decision." in page
    assert "No interrupted calls." in visible_text(reader.get("/review/?tab=interrupted"))


def test_empty_installation_explains_the_queue(reader: Client) -> None:
    page = visible_text(reader.get("/review/"))
    assert "No agent has started a session yet." in page
    assert "An admin connects the first agent under Settings." in page


def test_filters_are_applied_and_shown(reader: Client) -> None:
    interrupted(0, tool="send_email")
    interrupted(1, agent="maintainer-bot")
    page = visible_text(reader.get("/review/?tool=refund_card&agent=maintainer-bot"))
    assert "Filtered by: tool refund_card agent maintainer-bot" in page
    assert "1 of 2 waiting calls matches the filters" in page
    assert "Send email" not in page


def test_heading_counts_the_calls_of_the_tab(people: dict[str, Client], monkeypatch: pytest.MonkeyPatch) -> None:
    def read(tab: str, name: str = "alice", **filters: str) -> str:
        return visible_text(people[name].get("/review/", {"tab": tab, **filters})).partition(" All ")[0]

    interrupted(0)
    assert "No call awaits an approval or an answer" in read("awaiting")
    for minute in (1, 2):
        interrupted(minute, decide_within=timedelta(hours=1))
    for approver in range(4):
        make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, tool="pay", step=approver)
    assert "5 calls need your decision 2 more need an admin" in read("all")
    assert "1 call needs your decision 2 more need an admin" in read("interrupted")
    assert "4 calls need your decision" in read("awaiting")
    assert "more need" not in read("awaiting")
    assert "3 calls need a decision" in read("interrupted", "carol")
    assert "4 of 4 waiting calls match the filters" in read("awaiting", tool="pay")
    assert "No call of this tab matches the filters" in read("interrupted", tool="pay")
    monkeypatch.setattr(pending_call_counts_by_decider, "COUNT_LIMIT", 3)
    assert "3 calls need a decision" in read("interrupted")  # which of them alice may decide is not counted


def test_navigation_count_ignores_filters(reader: Client) -> None:
    interrupted(0, tool="send_email")
    interrupted(1)
    assert reader.get("/review/?tool=send_email").content.decode().count("<title>(2) Review · Harness</title>") == 1


def test_filter_without_results_is_reported(reader: Client) -> None:
    interrupted(0)
    page = visible_text(reader.get("/review/?tool=nothing"))
    assert "No waiting call matches the filters" in page
    assert "The filters hide 1 call. Search all waiting calls for “nothing” Clear filters" in page
    make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, tool="pay")
    page = visible_text(reader.get("/review/?tool=pay&tab=interrupted"))
    assert "No call of this tab matches the filters" in page
    assert "No interrupted call matches the filters. Show 1 call awaiting approval Clear filters" in page
    page = visible_text(reader.get("/review/?tool=refund_card&tab=awaiting"))
    assert "No call that awaits approval matches the filters. Show 1 interrupted call Clear filters" in page


def test_search_without_results_names_its_words_and_other_filters_keep_the_number(reader: Client) -> None:
    interrupted(0)
    page = visible_text(reader.get("/review/?q=zebra"))
    assert page.count("No waiting call") == 1
    assert "No waiting call contains “zebra”" in page
    assert "The search hides 1 call. Clear search" in page
    assert "The filters hide" not in page
    assert "The filters hide 1 call. Clear filters" in visible_text(reader.get("/review/?q=zebra&age=1d"))


def test_question_and_changed_arguments_are_named_in_their_rows(reader: Client) -> None:
    question = make_call(
        session=make_session(agent="desk"),
        status=CallStatus.AWAITING_APPROVAL,
        tool="interrupt",
        call_id="q1",
        idempotency_key="framework-interrupt:q1:0",
    )
    make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, asked_args_digest="5e" * 32)
    page = visible_text(reader.get("/review/?tab=awaiting"))
    assert f"question · desk · session {question.session.session_id}" in page
    assert page.count("The arguments were changed") == 1


def test_pages_are_consecutive(reader: Client) -> None:
    calls = [interrupted(0) for _ in range(pending_calls.PAGE + 1)]  # all of the same moment
    first = reader.get("/review/")
    assert f'id="call-{calls[pending_calls.PAGE - 1].pk}"' in first.content.decode()
    assert f'id="call-{calls[pending_calls.PAGE].pk}"' not in first.content.decode()
    second = reader.get(f"/review/{first.context['more']}")
    assert second.content.decode().count("data-row") == 1
    assert f'id="call-{calls[pending_calls.PAGE].pk}"' in second.content.decode()
    assert second.context["more"] == ""


def test_count_stops_at_a_limit(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    for number in range(pending_calls.COUNT_LIMIT + 1):
        make_call(session=session, call_id=f"call_{number}")
    page = reader.get("/review/")
    assert "99+ calls need a decision" in visible_text(page)
    assert "<title>(99+) Review · Harness</title>" in page.content.decode()
    assert 'href="/static/icons/favicon-many.svg"' in page.content.decode()


@pytest.mark.parametrize(
    "query", ["after=soon", "after=2026-11-21~x", "tab=decided&after=soon", "tab=awaiting&after=soon"]
)
def test_invalid_url_parameters_are_a_bad_request(reader: Client, query: str) -> None:
    response = reader.get(f"/review/?{query}")
    assert response.status_code == 400
    assert "This request is not valid" in visible_text(response)


def test_decided_call_is_one_row_with_its_last_decision(reader: Client) -> None:
    call = interrupted(0, status=CallStatus.REJECTED, approvals=2)
    for revision, (kind, actor, final) in enumerate(
        [
            (DecisionKind.EDIT, "alice", True),
            (DecisionKind.APPROVE, "alice", False),
            (DecisionKind.APPROVE, "bob", True),
            (DecisionKind.WITHDRAW, "bob", True),
            (DecisionKind.REJECT, "carol", True),
        ]
    ):
        make_decision(call=call, kind=kind, actor=actor, final=final, revision=revision, reason="R")
    page = reader.get("/review/?tab=decided")
    assert page.content.decode().count("data-row") == 1
    assert (
        "Before: alice changed the arguments · alice approved · bob approved · bob withdrew the decision Rejected"
        in visible_text(page)
    )
    assert "<s><bdi>alice</bdi> approved</s> · <s><bdi>bob</bdi> approved</s>" in page.content.decode()
    filtered = visible_text(reader.get("/review/?tab=decided&by=people"))
    assert "Decisions about 1 call match the filters" in filtered
    assert "Each call is one row; with the earlier ones about these calls, 3 decisions match." in filtered


def test_decision_of_two_people_is_listed_with_both_reasons(reader: Client) -> None:
    call = interrupted(0, status=CallStatus.APPROVED, approvals=2)
    for revision, (actor, reason) in enumerate((("alice", "Invoice seen."), ("bob", "Budget checked."))):
        fields: dict[str, Any] = {"actor": actor, "reason": reason, "final": bool(revision), "revision": revision}
        make_decision(call=call, kind=DecisionKind.APPROVE, **fields)
    text = visible_text(reader.get("/review/?tab=decided"))
    assert "bob: “Budget checked.”" in text.replace("bob :", "bob:")
    assert "Before: alice approved: “Invoice seen.” Approved" in text


def test_bulk_decision_of_a_second_person_has_the_first_reason_if_it_is_one(reader: Client) -> None:
    bulk = BulkDecision.objects.create(workspace=make_workspace(), author="bob")
    calls = [interrupted(number, status=CallStatus.APPROVED, approvals=2) for number in range(2)]
    for call in calls:
        make_decision(call=call, kind=DecisionKind.APPROVE, actor="alice", reason="Seen.", final=False, revision=0)
        last = make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob", reason="Seen.", final=True, revision=1)
        BulkDecisionEntry.objects.create(decision=last, bulk=bulk)
    assert "Before: alice approved: “Seen.” Show calls" in visible_text(reader.get("/review/?tab=decided"))
    Decision.objects.filter(tool_call=calls[-1], actor="alice").update(reason="Another one.")
    assert "Before: alice approved Show calls" in visible_text(reader.get("/review/?tab=decided"))


@pytest.mark.parametrize(
    ("kind", "status", "chips"),
    [
        (DecisionKind.APPROVE, CallStatus.APPROVED, "Approved Not run yet"),
        (DecisionKind.APPROVE, CallStatus.COMPLETED, "Approved Has run"),
        (DecisionKind.APPROVE, CallStatus.FAILED, "Approved Ran and failed"),
        (DecisionKind.APPROVE_RERUN, CallStatus.RERUN_APPROVED, "One more run approved Not run again yet"),
        (DecisionKind.RESPOND, CallStatus.COMPLETED, "Responded instead"),
    ],
)
def test_decided_row_says_whether_the_call_has_run_since(
    reader: Client, kind: DecisionKind, status: CallStatus, chips: str
) -> None:
    make_decision(call=interrupted(0, status=status), kind=kind)
    row = reader.get("/review/?tab=decided").content.decode().partition('<p class="chips">')[2].partition("</p>")[0]
    assert " ".join(re.sub("<[^>]*>", " ", row).split()) == chips


def test_decided_row_says_what_became_of_one_more_run(reader: Client) -> None:
    call = interrupted(0, status=CallStatus.SUPERSEDED)
    make_decision(call=call, kind=DecisionKind.APPROVE_RERUN)
    again = make_call(session=call.session, run=call.run, step=call.step, call_id=call.call_id, attempt=2)
    for status, chip in (
        (CallStatus.COMPLETED, "Has run"),
        (CallStatus.FAILED, "Ran and failed"),
        (CallStatus.INTERRUPTED, "Ran, outcome unknown"),
    ):
        ToolCall.objects.filter(pk=again.pk).update(status=status)
        assert f"One more run approved {chip}" in visible_text(reader.get("/review/?tab=decided"))


def test_waiting_calls_with_a_vote_a_change_or_a_withdrawn_decision_are_among_the_decisions(reader: Client) -> None:
    voted = interrupted(0, status=CallStatus.AWAITING_APPROVAL, approvals=2)
    make_decision(call=voted, kind=DecisionKind.APPROVE, final=False)
    changed = interrupted(0, status=CallStatus.AWAITING_APPROVAL)
    make_decision(call=changed, kind=DecisionKind.EDIT)
    withdrawn = interrupted(1)
    make_decision(call=withdrawn, actor="alice", kind=DecisionKind.MARK_FAILED, revision=1)
    make_decision(call=withdrawn, actor="bob", kind=DecisionKind.WITHDRAW, reason="Wrong day.", revision=2)
    page = reader.get("/review/?tab=decided")
    assert [row.call_pk for row in page.context["decisions"]] == [withdrawn.pk, changed.pk, voted.pk]
    text = visible_text(page)
    assert "bob: “Wrong day.”" in text
    assert "Before: alice recorded that it did not happen Decision withdrawn Waits again" in text
    assert "Arguments changed Waits again" in text
    assert "Approved · one of 2" in text


def test_all_times_of_a_list_have_seconds_if_two_decisions_are_of_one_minute(reader: Client) -> None:
    for minute, second in ((0, 5), (7, 9), (7, 40)):
        call = interrupted(minute, status=CallStatus.FAILED, sentence=f"Refund order {second}")
        decision = make_decision(call=call, actor="bob", reason=f"Row {second}.")
        Decision.objects.filter(pk=decision.pk).update(
            created_at=datetime(2026, 11, 28, 12, minute, second, tzinfo=UTC)
        )
    page = visible_text(reader.get("/review/?tab=decided"))
    assert re.findall(r"12:0\d(?::\d\d)?", page) == ["12:07:40", "12:07:09", "12:00:05"]
    Decision.objects.filter(created_at__second=40).update(created_at=datetime(2026, 11, 28, 12, 8, 1, tzinfo=UTC))
    page = visible_text(reader.get("/review/?tab=decided"))
    assert re.findall(r"12:0\d(?::\d\d)?", page) == ["12:08", "12:07", "12:00"]


def test_decision_that_was_made_several_times_is_named_once_with_their_number(reader: Client) -> None:
    call = interrupted(0, status=CallStatus.REJECTED)
    kinds = (DecisionKind.EDIT, DecisionKind.EDIT, DecisionKind.APPROVE, DecisionKind.WITHDRAW)
    for revision, kind in enumerate((*kinds, *kinds[1:], DecisionKind.REJECT)):
        make_decision(call=call, kind=kind, actor="alice", revision=revision, reason="R")
    assert (
        "Before: alice changed the arguments ×3 · alice approved ×2 · alice withdrew the decision ×2 Rejected"
        in visible_text(reader.get("/review/?tab=decided"))
    )


def test_filtered_list_of_decisions_has_one_count_in_its_tab_and_heading(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_calls, "COUNT_LIMIT", 1)
    for minute in range(3):
        make_decision(call=interrupted(minute, status=CallStatus.FAILED), actor="bob", reason=f"Row {minute}.")
    page = visible_text(reader.get("/review/?tab=decided&by=people"))
    assert "Decisions about 3 calls match the filters" in page
    assert "Decisions 3 " in page


def test_filtered_decision_is_shown_with_its_time_and_with_what_followed(reader: Client) -> None:
    call, other = interrupted(1), interrupted(2, status=CallStatus.FAILED)
    recorded = make_decision(call=call, actor="alice", kind=DecisionKind.MARK_FAILED, reason="Not there.", revision=1)
    make_decision(call=other, actor="alice", kind=DecisionKind.MARK_FAILED, revision=1)
    Decision.objects.update(created_at=THEN)
    make_decision(call=call, actor="bob", kind=DecisionKind.WITHDRAW, revision=2)
    for query in ("answer=mark_failed", "by=person:alice", "first=2025-03-01&last=2025-03-05&zone=UTC"):
        page = reader.get(f"/review/?tab=decided&{query}")
        rows = page.context["decisions"]
        assert [(row.call_pk, row.created_at) for row in rows] == [(other.pk, THEN), (call.pk, THEN)], query
        assert (rows[1].pk, page.content.decode().count('<li class="day">')) == (recorded.pk, 1)
        assert "alice: “Not there.”" in visible_text(page)
        assert "Then: bob withdrew the decision It did not happen" in visible_text(page)
        assert "Waits again" not in visible_text(page)


def test_decided_calls_are_listed_by_their_last_decision_on_consecutive_pages(reader: Client) -> None:
    calls = [interrupted(minute, status=CallStatus.COMPLETED) for minute in range(pending_calls.PAGE + 1)]
    for number, call in enumerate(calls):
        make_decision(call=call, revision=1, reason=f"Seen in line {number}.")  # no batch, which has its page alone
    make_decision(call=calls[0], kind=DecisionKind.WITHDRAW, revision=2)
    make_decision(call=calls[0], kind=DecisionKind.MARK_FAILED, revision=3)
    first = reader.get("/review/?tab=decided")
    assert [row.call_pk for row in first.context["decisions"]] == [call.pk for call in (calls[0], *calls[:1:-1])]
    second = reader.get(f"/review/{first.context['more']}")
    assert ([row.call_pk for row in second.context["decisions"]], second.context["more"]) == ([calls[1].pk], "")


def test_tabs_count_the_decided_calls_up_to_the_same_limit(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Decisions 0" not in visible_text(reader.get("/review/?tab=decided"))
    for minute, tool in enumerate(("pay", "pay", "send_mail")):
        make_decision(call=interrupted(minute, status=CallStatus.FAILED, tool=tool))
    interrupted(5)
    assert "Interrupted 1 Approvals and questions Decisions 3" in visible_text(reader.get("/review/"))
    for query in ("tab=decided&tool=pay", "tab=interrupted&tool=pay"):
        counts = "Interrupted 0 Approvals and questions 0 Decisions 2"
        assert counts in visible_text(reader.get(f"/review/?{query}"))
    assert "Decisions 0" in visible_text(reader.get("/review/?tab=decided&answer=approve"))
    monkeypatch.setattr(pending_calls, "COUNT_LIMIT", 2)
    assert "Decisions 2+" in visible_text(reader.get("/review/"))


def test_decided_tab_lists_decisions_and_verifications(reader: Client) -> None:
    for kind, actor, actor_kind in (
        (DecisionKind.MARK_FAILED, "bob", ActorKind.PERSON),
        (DecisionKind.PROBE_LANDED, "verify hook of refund_card", ActorKind.HOOK),
        (DecisionKind.PROBE_UNKNOWN, "verify hook of refund_card", ActorKind.HOOK),
        (DecisionKind.DISCARD, "gate", ActorKind.MACHINE),
    ):
        make_decision(
            call=interrupted(0, status=CallStatus.COMPLETED), kind=kind, actor=actor, actor_kind=actor_kind, reason="R"
        )
    response = reader.get("/review/?tab=decided")
    assert response.content.decode().count("data-row") == 2
    make_decision(call=interrupted(0, status=CallStatus.COMPLETED), actor="alice", evidence='{"text": "Seen."}')
    own = reader.get("/review/?tab=decided&by=me")
    assert "with evidence" not in visible_text(response)
    assert "with evidence" in visible_text(own)
    assert own.content.decode().count("data-row") == 1
    assert "bob: “R”" in visible_text(response)
    assert "Tool’s own check: it happened" in visible_text(response)


def test_empty_decided_tab_is_explained(reader: Client) -> None:
    assert "No decisions yet" in visible_text(reader.get("/review/?tab=decided"))


def test_hostile_text_is_escaped(reader: Client) -> None:
    interrupted(0, sentence="<script>alert(1)</script> \u202e", tool="<b>", agent='"><i>')
    page = reader.get("/review/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ‹U+202E›" in page
    assert "<script>alert" not in page
    assert "<b>" not in page.split("<main")[1]


def test_count_fragment(reader: Client) -> None:
    assert "a decision" not in visible_text(reader.get("/review/count/"))
    interrupted(0)
    response = reader.get("/review/count/")
    assert visible_text(response) == "1 1 call needs a decision"
    assert 'data-icon="/static/icons/favicon-1.svg"' in response.content.decode()


def test_equal_decisions_of_a_batch_are_one_row_that_opens(reader: Client) -> None:
    for minute in range(4):
        make_decision(call=interrupted(minute, status=CallStatus.FAILED), actor="bob", reason="Not in the export.")
    other = interrupted(9, status=CallStatus.FAILED, sentence="Refund the other one")
    make_decision(call=other, actor="bob", reason="Nothing in the ledger.")
    Decision.objects.update(created_at=datetime(2026, 11, 28, 12, tzinfo=UTC))
    page = reader.get("/review/?tab=decided")
    content = page.content.decode()
    assert "bob decided 4 calls of refund_card within 1 s “Not in the export.” Show calls" in visible_text(page)
    assert (content.count("data-row"), content.count('href="/review/calls/')) == (2, 5)
    assert content.count('<li class="day">') == 1
    [address] = re.findall(r'href="([^"]*)" data-row>bob decided', content)
    each = reader.get(f"/review/{address.replace('&amp;', '&')}")
    assert (each.content.decode().count("data-row"), "bob decided" in visible_text(each)) == (5, False)


def test_page_of_decisions_has_a_number_of_rows_and_cuts_no_batch(reader: Client) -> None:
    for number in range(4):
        make_decision(call=interrupted(number, status=CallStatus.FAILED), reason=f"Older {number}")
    for number in range(18):
        make_decision(call=interrupted(number, status=CallStatus.FAILED), actor="bob", reason="Not in the export.")
    for number in range(pending_calls.PAGE - 2):
        make_decision(call=interrupted(number, status=CallStatus.FAILED), reason=f"Newer {number}")
    page = reader.get("/review/?tab=decided")
    content = page.content.decode()
    assert "bob decided 18 calls of refund_card" in visible_text(page)
    assert (content.count("data-row"), visible_text(page).count("“Older")) == (pending_calls.PAGE, 1)
    [following] = re.findall(r'href="([^"]*)">Earlier decisions', content)
    rest = visible_text(reader.get(f"/review/{following.replace('&amp;', '&')}"))
    assert "bob decided" not in rest
    assert rest.count("“Older") == 3


def test_batch_in_the_last_row_of_a_page_of_decisions_is_shown_whole(reader: Client) -> None:
    make_decision(call=interrupted(0, status=CallStatus.FAILED), reason="The first.")
    for number in range(pending_calls.PAGE * 2):
        make_decision(call=interrupted(number, status=CallStatus.FAILED), actor="bob", reason="Not in the export.")
    for number in range(pending_calls.PAGE - 1):
        make_decision(call=interrupted(number, status=CallStatus.FAILED), reason=f"Newer {number}")
    page = reader.get("/review/?tab=decided")
    assert f"bob decided {pending_calls.PAGE * 2} calls of refund_card" in visible_text(page)
    [following] = re.findall(r'href="([^"]*)">Earlier decisions', page.content.decode())
    rest = visible_text(reader.get(f"/review/{following.replace('&amp;', '&')}"))
    assert ("The first." in rest, "bob decided" in rest) == (True, False)


def test_decisions_that_differ_or_lie_apart_are_rows_of_their_own(reader: Client) -> None:
    made = [
        make_decision(call=interrupted(minute, status=CallStatus.FAILED), actor="bob", reason=f"Reason {minute // 2}")
        for minute in range(4)
    ]
    assert reader.get("/review/?tab=decided").content.decode().count("data-row") == 4
    for minute, decision in enumerate(made):
        apart = datetime(2026, 11, 28, 12, minute, tzinfo=UTC)
        Decision.objects.filter(pk=decision.pk).update(reason="Equal.", created_at=apart)
    assert reader.get("/review/?tab=decided").content.decode().count("data-row") == 4
