"""One answer about several calls of a tool that await the same approval."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Risk, Role
from checkpoints.models import Decision, ToolCall
from harness_site.review.selectors.pending_calls import PAGE as PAGE_SIZE
from tests.integration.review.payment_agents import awaiting
from tests.support.factories import make_call, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

PAGE = "/review/approvals/"


def sign_in(name: str, role: Role = Role.APPROVER) -> Client:
    client = Client()
    client.force_login(make_user(name=name, role=role))
    return client


def make_payments(number: int, **fields: Any) -> list[ToolCall]:
    first = awaiting(call_id="first", sentence="Pay number 0", **fields)
    others = [
        make_call(
            session=first.session,
            call_id=f"call-{place}",
            tool="pay",
            args={"amount": "40.00", "order": place, **({"express": True} if place == 1 else {})},
            status=CallStatus.AWAITING_APPROVAL,
            sentence=f"Pay number {place}",
            **fields,
        )
        for place in range(1, number)
    ]
    return [first, *others]


@pytest.mark.parametrize("role", [Role.APPROVER, Role.AUDITOR])
def test_calls_of_an_unusual_risk_say_so(role: Role) -> None:
    first, _second = make_payments(2, risk=Risk.MEDIUM)
    ToolCall.objects.filter(pk=first.pk).update(risk=Risk.HIGH)
    page = sign_in("reader", role).get(f"{PAGE}?tool=pay&people=1").content.decode()
    rows = re.split(r'<li class="(?:selectable|wait)"', page)[1:]
    assert [re.findall("(?:High|Medium) risk", row) for row in rows] == [["High risk"], []]


def test_selected_calls_get_one_answer_and_a_call_that_changed_meanwhile_does_not() -> None:
    alice, calls = sign_in("alice"), make_payments(4)
    queue = alice.get("/review/?tab=awaiting").content.decode()
    [address] = re.findall(r'href="(/review/approvals/[^"]*)"', queue)
    page = alice.get(address.replace("&amp;", "&"))
    text = visible_text(page)
    assert "pay: 4 calls need your decision" in text
    assert "Pay number 3 " in text
    assert page.content.decode().count('<b class="amount">40.00</b>') == 4
    assert "express: yes" in text  # which not all calls have
    assert (text.count("Select all 4 calls"), text.count("days ago · accounts · session")) == (1, 4)
    values = re.findall(r'name="call" value="(\d+\.\d+)"', page.content.decode())
    assert len(values) == 4
    nothing = alice.post(PAGE, {"tool": "pay", "people": 1})
    assert nothing.status_code == 422
    assert {"Choose an answer.", "Select at least one call."} <= set(
        re.findall(r"[A-Z][a-z ]+\.", visible_text(nothing))
    )
    assert "send them again. First of 3: Select at least one call." in visible_text(nothing)
    unselected = alice.post(PAGE, {"tool": "pay", "people": 1, "answer": "reject", "reason": "Paid by hand."})
    assert "Nothing was recorded. Select at least one call." in visible_text(unselected)
    assert f'<a href="#call-{values[0]}" data-first-error autofocus>' in unselected.content.decode()
    assert "Correct the marked fields" not in visible_text(unselected)
    ToolCall.objects.filter(pk=calls[1].pk).update(revision=5)
    sent = {"tool": "pay", "people": 1, "answer": "reject", "reason": "Paid by hand.", "call": values[:3]}
    outcome = visible_text(alice.post(PAGE, sent, follow=True))
    assert "Not recorded: Rejected" in outcome
    assert "2 decisions recorded" in outcome
    assert outcome.index("pay: 2 calls need your decision") < outcome.index("2 decisions recorded")
    decisions = Decision.objects.order_by("pk")
    assert [(each.tool_call_id, each.result_text, each.final) for each in decisions] == [
        (calls[0].pk, "Paid by hand.", True),
        (calls[2].pk, "Paid by hand.", True),
    ]


def test_outcome_says_whether_the_approved_calls_have_run() -> None:
    alice, calls = sign_in("alice"), make_payments(2)
    sent: dict[str, Any] = {"tool": "pay", "people": 1, "answer": "approve", "reason": "Fine."}
    revisions = ToolCall.objects.values_list("pk", "revision")
    sent["call"] = [f"{pk}.{revision}" for pk, revision in revisions]
    page = alice.post(PAGE, sent, follow=True)
    assert visible_text(page).count("Approved Not run yet") == 2
    assert "Not run yet: 2 2 decisions recorded" in visible_text(page)
    ToolCall.objects.filter(pk=calls[0].pk).update(status=CallStatus.COMPLETED)
    outcome = visible_text(alice.get(page.redirect_chain[-1][0]))
    assert (outcome.count("Approved Has run"), outcome.count("Approved Not run yet")) == (1, 1)
    assert "Has run: 1 Not run yet: 1 2 decisions recorded" in outcome


def test_votes_deadlines_and_roles_hold_as_on_the_decision_page() -> None:
    alice, bob, carol = sign_in("alice"), sign_in("bob"), sign_in("carol", Role.AUDITOR)
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    calls = make_payments(2, approvals=2)
    late = make_call(
        session=calls[0].session,
        call_id="late",
        tool="pay",
        status=CallStatus.AWAITING_APPROVAL,
        approvals=2,
        issued_at=long_ago,
        decide_within=timedelta(hours=1),
    )
    query = {"tool": "pay", "people": "2"}
    assert "only an admin can decide now" in visible_text(alice.get(PAGE, query))
    page = visible_text(carol.get(PAGE, query))
    assert "pay: 3 calls need a decision You can view these calls but not decide them Your role is auditor" in page
    sent: dict[str, Any] = {
        **query,
        "answer": "approve",
        "reason": "Fine.",
        "call": [f"{call.pk}.1" for call in (*calls, late)],
    }
    assert carol.post(PAGE, sent).status_code == 403
    assert "Not recorded: Approved" in visible_text(alice.post(PAGE, sent, follow=True))
    assert "you have decided, and another person has to agree" in visible_text(alice.get(PAGE, query))
    queues = {client: client.get("/review/?tab=awaiting").content.decode() for client in (alice, bob)}
    assert ["/review/approvals/" in queue for queue in queues.values()] == [False, True]
    sent["call"] = [f"{call.pk}.2" for call in calls]
    bob.post(PAGE, sent)
    statuses = ToolCall.objects.order_by("pk").values_list("status", flat=True)
    assert list(statuses) == [CallStatus.APPROVED, CallStatus.APPROVED, CallStatus.AWAITING_APPROVAL]


def test_call_is_not_offered_to_who_changed_it_and_others_see_the_change() -> None:
    alice, bob = sign_in("alice"), sign_in("bob")
    calls = make_payments(3, approvals=2)
    edit = {"kind": "edit", "reason": "A typing error.", "revision": 1, "args": '{"amount": "4.00", "order": 2}'}
    previewed = alice.post(f"/review/calls/{calls[2].pk}/", edit).content.decode()
    [shown] = re.findall(r'name="shown" value="([^"]+)"', previewed)
    alice.post(f"/review/calls/{calls[2].pk}/", edit | {"shown": shown})
    queues = {client: client.get("/review/?tab=awaiting") for client in (alice, bob)}
    numbers = [[str(same.number) for same in queue.context["same_approvals"]] for queue in queues.values()]
    assert numbers == [["2"], ["3"]]
    change = "alice changed amount: 40.00 → 4.00"
    assert change in visible_text(queues[bob])

    query = {"tool": "pay", "people": "2"}
    for client, number in ((alice, 2), (bob, 3)):
        page = client.get(PAGE, query)
        assert f"pay: {number} calls need your decision" in visible_text(page)
        assert change in visible_text(page)
        assert (f'value="{calls[2].pk}.2"' in page.content.decode()) is (client is bob)
    assert "you made this change, so other people have to approve it; you can only reject it" in visible_text(
        alice.get(PAGE, query)
    )


def test_disagreement_is_said_and_not_offered_to_who_takes_part_in_it() -> None:
    alice, bob, dora = sign_in("alice"), sign_in("bob"), sign_in("dora")
    [call, *_others] = make_payments(3, approvals=2)
    alice.post(f"/review/calls/{call.pk}/", {"kind": "approve", "reason": "Fine.", "revision": 1})
    bob.post(f"/review/calls/{call.pk}/", {"kind": "respond", "answer": "Paid by hand.", "revision": 2})
    query = {"tool": "pay", "people": "2"}
    texts = {client: visible_text(client.get(PAGE, query)) for client in (alice, bob, dora)}
    assert ["pay: 2 calls need your decision" in text for text in texts.values()] == [True, True, False]
    assert "alice approved · bob responded instead · you have decided, and another person disagrees" in texts[bob]
    assert texts[dora].count("People disagree") == 1
    counted = [client.get("/review/?tab=awaiting").context["same_approvals"][0].number for client in texts]
    assert list(map(str, counted)) == ["2", "2", "3"]


def test_queue_counts_the_calls_of_each_tool_on_all_its_pages() -> None:
    alice = sign_in("alice")
    payments = make_payments(PAGE_SIZE + 1)
    for place in range(2):
        make_call(
            session=payments[0].session, call_id=f"ship-{place}", tool="ship", status=CallStatus.AWAITING_APPROVAL
        )
    queue = alice.get("/review/?tab=awaiting")
    groups = [(same.tool, str(same.number)) for same in queue.context["same_approvals"]]
    assert groups == [("pay", str(PAGE_SIZE + 1)), ("ship", "2")]
    assert "Next 3" in visible_text(queue)
    filtered = alice.get("/review/?tab=awaiting&tool=ship")
    assert [same.tool for same in filtered.context["same_approvals"]] == ["ship"]


def test_calls_of_other_workspaces_and_interrupted_calls_cannot_be_approved_with_a_forged_form() -> None:
    alice, [own] = sign_in("alice"), make_payments(1)
    foreign = make_call(
        session=make_session(session_id="theirs", workspace=make_workspace(slug="others")),
        tool="pay",
        status=CallStatus.AWAITING_APPROVAL,
        sentence="Pay for the others",
    )
    interrupted = make_call(session=own.session, call_id="lost", tool="pay", status=CallStatus.INTERRUPTED)
    sent = {"tool": "pay", "people": 1, "answer": "approve", "reason": "Fine."}
    answer = alice.post(PAGE, sent | {"call": [f"{call.pk}.1" for call in (foreign, interrupted)]}, follow=True)
    assert "Pay for the others" not in answer.content.decode()
    assert visible_text(answer).count("Not recorded: Approved") == 1
    assert not Decision.objects.exists()
    statuses = {call.pk: call.status for call in ToolCall.objects.all()}
    assert statuses[foreign.pk] == CallStatus.AWAITING_APPROVAL
    assert statuses[interrupted.pk] == CallStatus.INTERRUPTED


def test_arguments_that_all_calls_share_are_listed_once_above_them() -> None:
    alice, session = sign_in("alice"), make_session()
    for place in range(3):
        make_call(
            session=session,
            call_id=f"call-{place}",
            tool="pay",
            args={"order": place, "note": "see the contract"},
            status=CallStatus.AWAITING_APPROVAL,
            sentence=f"Pay number {place}",
        )
    page = alice.get(f"{PAGE}?tool=pay&people=1")
    assert re.findall("(The same in all these calls: .*?) Select all 3 calls Pay number 0", visible_text(page)) == [
        "The same in all these calls: note: see the contract"
    ]
    ToolCall.objects.exclude(call_id="call-0").delete()
    single = visible_text(alice.get(f"{PAGE}?tool=pay&people=1"))
    assert "note: see the contract" in single  # nothing else says it


def test_calls_that_others_decide_meanwhile_are_named_beside_the_button() -> None:
    alice, bob, calls = sign_in("alice"), sign_in("bob"), make_payments(3)
    query = f"tool=pay&people=1&pk={calls[0].pk}&pk={calls[1].pk}&pk={calls[2].pk}"
    assert "meanwhile" not in visible_text(alice.get(f"{PAGE}?{query}"))
    bob.post(f"/review/calls/{calls[0].pk}/", {"kind": "approve", "reason": "Fine.", "revision": 1})
    page = alice.get(f"{PAGE}?{query}")
    assert visible_text(page).index("bob decided 1 call meanwhile.") > visible_text(page).index("Reason")
    assert f'name="left" value="{calls[0].pk}"' in page.content.decode()
    ToolCall.objects.filter(pk=calls[1].pk).delete()
    later = f"tool=pay&people=1&pk={calls[1].pk}&pk={calls[2].pk}&left={calls[0].pk}"
    assert (
        "bob decided 1 call meanwhile. 1 call left this form meanwhile, because it cannot be answered here any more."
        in visible_text(alice.get(f"{PAGE}?{later}"))
    )
    assert f'hx-get="{PAGE}?tool=pay&amp;people=1"' in alice.get(f"{PAGE}?{later}").content.decode()


def test_calls_of_a_filtered_queue_are_decided_together_without_the_others() -> None:
    alice, calls = sign_in("alice"), make_payments(4)
    session = make_session(session_id="rush", agent="couriers")
    for place in (7, 8):
        make_call(
            session=session, call_id=f"rush-{place}", tool="pay", status=CallStatus.AWAITING_APPROVAL, sentence="Pay it"
        )
    for filters, number, words in (
        ("agent=couriers", 2, "agent couriers"),
        ("q=rush&agent=couriers&tool=pay", 2, "text “rush”"),
    ):
        queue = alice.get(f"/review/?{filters}").content.decode()
        [address] = re.findall(r'href="(/review/approvals/[^"]*)"', queue)
        page = alice.get(address.replace("&amp;", "&"))
        assert page.content.decode().count('name="call"') == number
        assert words in visible_text(page)
        assert 'href="/review/approvals/?tool=pay&amp;people=1">Show all calls of pay' in page.content.decode()
    sent = {
        "tool": "pay",
        "people": 1,
        "agent": "couriers",
        "answer": "approve",
        "reason": "Fine.",
        "call": f"{calls[0].pk}.1",
    }
    answered = alice.post(PAGE, sent)
    assert "tool=pay&people=1&agent=couriers&settled=" in answered["Location"]
    assert "Filtered by" not in visible_text(alice.get(f"{PAGE}?tool=pay&people=1"))
    nothing = visible_text(alice.get(f"{PAGE}?tool=pay&people=1&agent=nobody"))
    assert "pay: no call matches the filters" in nothing


def test_auditor_sees_of_calls_what_the_deciders_see() -> None:
    alice, carol, _calls = sign_in("alice"), sign_in("carol", Role.AUDITOR), make_payments(3)
    read, decided = (visible_text(client.get(f"{PAGE}?tool=pay&people=1")) for client in (carol, alice))
    for text in (read, decided):
        assert "express: yes" in text
        assert text.count("accounts · session") == 3
        assert text.count("Arguments") == 3


def make_unusual_payments() -> Client:
    session = make_session()
    for place, amount in enumerate((10, 15, 150, 20, 10, 20, 15, 10, 10, 160, 20, 15)):
        make_call(
            session=session,
            call_id=f"call-{place}",
            tool="pay",
            args={"amount": amount, "currency": "EUR"},
            status=CallStatus.AWAITING_APPROVAL,
            sentence=f"Pay number {place}",
        )
    return sign_in("alice")


def test_unusual_amounts_stand_first_and_are_selected_apart_from_the_others() -> None:
    alice = make_unusual_payments()
    page = alice.get(f"{PAGE}?tool=pay&people=1")
    sections = page.content.decode().split('<section class="selectable-calls"')[1:]
    assert [list(dict.fromkeys(re.findall(r"Pay\snumber\s(\d+)", section))) for section in sections] == [
        ["2", "9"],
        ["0", "1", "3", "4", "5", "6", "7", "8", "10", "11"],
    ]
    assert [section.count("data-select-all") for section in sections] == [1, 1]
    text = visible_text(page)
    heading = text.index("2 of these 12 calls have an unusual amount")
    assert heading < text.index("Select the 2 unusual calls") < text.index("Select the 10 usual calls")
    assert "Select all" not in text
    ToolCall.objects.filter(call_id="call-9").delete()
    single = visible_text(alice.get(f"{PAGE}?tool=pay&people=1"))
    assert "1 of these 11 calls has an unusual amount Pay number 2" in single  # selected by its own checkbox
    assert "Select the 10 usual calls" in single


def test_page_says_that_all_calls_that_are_left_have_an_unusual_amount() -> None:
    alice = make_unusual_payments()
    ToolCall.objects.exclude(call_id__in=["call-2", "call-9"]).update(status=CallStatus.APPROVED)
    both = visible_text(alice.get(f"{PAGE}?tool=pay&people=1"))
    assert "Both calls have an unusual amount for this tool" in both
    assert "Select both calls" in both
    assert "of these" not in both
    session = ToolCall.objects.get(call_id="call-2").session
    for place, amount in enumerate((170, 10, 10, 10, 10, 10), 12):
        make_call(
            session=session,
            call_id=f"call-{place}",
            tool="pay",
            args={"amount": amount, "currency": "EUR"},
            status=CallStatus.AWAITING_APPROVAL if amount > 10 else CallStatus.APPROVED,
        )
    page = visible_text(alice.get(f"{PAGE}?tool=pay&people=1"))
    assert "All 3 calls have an unusual amount for this tool" in page
    assert "Select all 3 calls" in page
    assert "10 usual" not in page
    assert page.count("otherwise at most 20") == 3
    assert "others at most" not in page


def test_page_without_a_tool_offers_the_tools_and_records_nothing() -> None:
    alice, carol, calls = sign_in("alice"), sign_in("carol", Role.AUDITOR), make_payments(3)
    for place in range(2):
        make_call(
            session=calls[0].session,
            call_id=f"ship-{place}",
            tool="ship",
            status=CallStatus.AWAITING_APPROVAL,
            approvals=2,
        )
    make_call(session=calls[0].session, call_id="mail", tool="mail", status=CallStatus.AWAITING_APPROVAL)
    pay, ship, mail = (f"{PAGE}?tool={tool}&people={people}" for tool, people in (("pay", 1), ("ship", 2), ("mail", 1)))

    def list_offered(address: str, client: Client) -> list[str]:
        found = re.findall(r'href="(/review/approvals/\?[^"]*)"', client.get(address).content.decode())
        return [each.replace("&amp;", "&") for each in found]

    for address in (PAGE, f"{PAGE}?tool=", f"{PAGE}?settled=x"):
        assert list_offered(address, alice) == list_offered(address, carol) == [pay, ship, mail]
    page = alice.get(PAGE)
    assert "pay 3 calls ship 2 calls · Each call needs 2 approvals. mail 1 call" in visible_text(page)
    assert 'name="call"' not in page.content.decode()
    assert list_offered(f"{PAGE}?people=2", alice) == [ship]
    assert list_offered(f"{PAGE}?agent=accounts", alice) == [f"{each}&agent=accounts" for each in (pay, ship, mail)]
    assert "No call that awaits approval matches the filters." in visible_text(alice.get(f"{PAGE}?agent=nobody"))

    sent = {"people": 1, "answer": "approve", "reason": "Fine.", "call": [f"{call.pk}.1" for call in calls]}
    refused = alice.post(PAGE, sent)
    assert refused.status_code == 422
    assert "Nothing was recorded: the form named no tool." in visible_text(refused)
    assert not Decision.objects.exists()
    ToolCall.objects.all().delete()
    assert "No tool has a call to decide" in visible_text(alice.get(PAGE))
