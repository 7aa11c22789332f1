"""Withdrawal of all decisions of a batch that no run has used."""

import re
from typing import Any

import pytest
from django.test import Client

from checkpoints.db import clock
from checkpoints.decisions import decision_withdrawal
from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from checkpoints.exceptions import StorageError
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from tests.integration.review.conftest import PAGE, WINDOW, Lost
from tests.integration.review.payment_agents import awaiting
from tests.support.factories import make_call
from tests.support.page_text import visible_text

WITHDRAW = "/review/outages/withdraw/"
WRONG = "The export was of another day."


def decide_all(client: Client, calls: list[ToolCall]) -> tuple[str, str]:
    """Record that none of these calls happened; return the name of the batch and the text of its page."""
    shared = {"answer": "mark_failed", "evidence": "Not in the export.", "reason": "Checked."}
    data: dict[str, Any] = {**WINDOW, "pk": [call.pk for call in calls]}
    data |= {f"shared-{name}": value for name, value in shared.items()}
    data |= {f"call-{call.pk}-revision": call.revision for call in calls}
    page = client.post("/review/outages/decide/", data, follow=True)
    [name] = set(re.findall(r'name="settled" value="([^"]+)"', page.content.decode()))
    return name, visible_text(page)


def statuses() -> list[str]:
    return list(ToolCall.objects.order_by("pk").values_list("status", flat=True))


def test_all_decisions_of_a_batch_are_withdrawn_with_one_reason(people: dict[str, Client], lost: Lost) -> None:
    name, text = decide_all(people["alice"], [lost(second) for second in range(3)])
    assert "Withdraw these 3 decisions" in text
    missing = people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": " "})
    assert missing.status_code == 422
    assert "Enter a reason. It is recorded with your name for each call." in visible_text(missing)
    assert "Withdraw these 3 decisions" in visible_text(missing)
    assert statuses() == [CallStatus.FAILED] * 3

    page = people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True)
    text = visible_text(page)
    assert "3 decisions are withdrawn. Their calls wait for new decisions." in text
    assert "refund_card: 3 calls need a decision" in text
    assert "Withdraw these" not in text
    assert statuses() == [CallStatus.INTERRUPTED] * 3
    withdrawals = Decision.objects.filter(kind=DecisionKind.WITHDRAW)
    assert set(withdrawals.values_list("actor", "reason", "final")) == {("alice", WRONG, True)}
    recorded = AuditEvent.objects.filter(kind=AuditKind.DECIDED, details__contains='"withdrawn":"mark_failed"')
    assert recorded.count() == 3

    again = people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True)
    assert "3 decisions are withdrawn." in visible_text(again)
    assert withdrawals.count() == 3


def test_decisions_that_runs_have_used_stay_and_are_named(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(4)]
    name, _text = decide_all(people["alice"], calls)
    Session.objects.filter(pk=calls[0].session_id).update(gate_opened_at=clock.now())  # as when a run passes the gate
    make_call(session=calls[1].session, call_id=calls[1].call_id, step=calls[1].step, attempt=2, tool="refund_card")
    page = visible_text(people["alice"].get(f"{PAGE}&settled={name}"))
    assert "Withdraw these 2 decisions" in page
    assert page.count("The run has used this decision.") == 2

    page = visible_text(people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True))
    assert "2 decisions stay, because their runs have used them. 2 decisions are withdrawn." in page
    assert page.count("Not withdrawn") == 2
    assert [ToolCall.objects.get(pk=call.pk).status for call in calls] == [
        CallStatus.FAILED,
        CallStatus.FAILED,
        CallStatus.INTERRUPTED,
        CallStatus.INTERRUPTED,
    ]


def test_run_that_uses_a_decision_between_the_check_and_the_withdrawal_keeps_it(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lost(second) for second in range(2)]
    name, _text = decide_all(people["alice"], calls)
    withdraw = decision_withdrawal.withdraw_decision

    def withdraw_after_the_gate_opened(*args: Any, **fields: Any) -> None:
        Session.objects.filter(pk=calls[0].session_id).update(gate_opened_at=clock.now())
        withdraw(*args, **fields)

    monkeypatch.setattr(decision_withdrawal, "withdraw_decision", withdraw_after_the_gate_opened)
    page = visible_text(people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True))
    assert "1 decision is withdrawn." in page
    assert "1 decision stays, because its run has used it." in page
    assert statuses() == [CallStatus.FAILED, CallStatus.INTERRUPTED]


def test_decision_that_was_withdrawn_and_made_again_meanwhile_stays(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(3)]
    name, _text = decide_all(people["alice"], calls)
    address = f"/review/calls/{calls[0].pk}/"
    people["bob"].post(f"{address}withdraw/", {"revision": 2, "reason": "It is in the ledger."})
    assert "bob withdrew it." in visible_text(people["alice"].get(f"{PAGE}&settled={name}"))
    people["bob"].post(address, {"kind": "confirm_landed", "reason": "Ledger row 4.", "revision": 3})
    page = visible_text(people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True))
    assert "3 decisions are withdrawn." in page
    assert statuses() == [CallStatus.COMPLETED, CallStatus.INTERRUPTED, CallStatus.INTERRUPTED]


def test_problem_with_one_call_is_named_and_does_not_stop_the_others(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lost(second) for second in range(2)]
    name, _text = decide_all(people["alice"], calls)
    withdraw = decision_withdrawal.withdraw_decision

    def fail_for_first_call(store: Any, target: Any, **fields: Any) -> None:
        if target.session_id == calls[0].session.session_id:
            raise StorageError("The disk is full.", may_have_happened=False)
        withdraw(store, target, **fields)

    monkeypatch.setattr(decision_withdrawal, "withdraw_decision", fail_for_first_call)
    page = visible_text(people["alice"].post(WITHDRAW, {**WINDOW, "settled": name, "reason": WRONG}, follow=True))
    assert "1 decision is withdrawn." in page
    assert "Not withdrawn The disk is full." in page
    assert "Withdraw this decision" in page


def test_batch_is_withdrawn_by_its_author_only(people: dict[str, Client], lost: Lost) -> None:
    name, _text = decide_all(people["alice"], [lost(second) for second in range(2)])
    sent = {**WINDOW, "settled": name, "reason": WRONG}
    assert people["carol"].post(WITHDRAW, sent).status_code == 403
    refused = people["bob"].post(WITHDRAW, sent)
    assert refused.status_code == 409
    assert "Nothing was withdrawn. Withdraw each of them on the page of its call." in visible_text(refused)
    assert statuses() == [CallStatus.FAILED] * 2


def test_approvals_and_votes_of_a_batch_are_withdrawn(people: dict[str, Client]) -> None:
    first = awaiting(call_id="first", approvals=2)
    second = make_call(
        session=first.session, call_id="second", tool="pay", status=CallStatus.AWAITING_APPROVAL, approvals=2
    )
    group = {"tool": "pay", "people": "2"}
    sent = {**group, "answer": "approve", "reason": "Fine.", "call": [f"{first.pk}.1", f"{second.pk}.1"]}
    page = people["alice"].post("/review/approvals/", sent, follow=True)
    assert "Withdraw these 2 decisions" in visible_text(page)
    [name] = set(re.findall(r'name="settled" value="([^"]+)"', page.content.decode()))
    people["bob"].post(f"/review/calls/{first.pk}/", {"kind": "approve", "reason": "Fine.", "revision": 2})
    missing = people["alice"].post("/review/approvals/withdraw/", {**group, "settled": name})
    assert missing.status_code == 422
    assert "Enter a reason. It is recorded with your name for each call." in visible_text(missing)
    page = people["alice"].post("/review/approvals/withdraw/", {**group, "settled": name, "reason": WRONG}, follow=True)
    text = visible_text(page)
    assert "1 decision is withdrawn. Its call waits for a new decision." in text
    assert "The call has changed since." in text
    assert "pay: 1 call needs your decision" in text
    assert statuses() == [CallStatus.APPROVED, CallStatus.AWAITING_APPROVAL]
