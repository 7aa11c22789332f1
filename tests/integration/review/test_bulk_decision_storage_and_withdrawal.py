"""Bulk decisions after they were recorded: their page, and the withdrawal of those decisions that no run has used."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from checkpoints.db import clock
from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Role, RunStatus, SessionStatus
from checkpoints.exceptions import StorageError
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts.models import Membership
from harness_site.review import bulk_decision_storage_and_withdrawal
from harness_site.review.models import BulkDecision, BulkDecisionEntry
from tests.integration.review.conftest import WINDOW, Lost
from tests.integration.review.payment_agents import awaiting
from tests.support.factories import THEN, make_call, make_workspace
from tests.support.page_text import visible_text

WRONG = "The export was of another day."


def decide_all(client: Client, calls: list[ToolCall], **shared: str) -> tuple[str, str]:
    """Record that none of these calls happened; return the URL of the bulk decision and the text of the next page."""
    shared = {"answer": "mark_failed", "evidence": "Not in the export.", "reason": "Checked.", **shared}
    data: dict[str, Any] = {**WINDOW, "pk": [call.pk for call in calls]}
    data |= {f"shared-{name}": value for name, value in shared.items()}
    data |= {f"call-{call.pk}-revision": call.revision for call in calls}
    page = client.post("/review/outages/decide/", data, follow=True)
    [address] = set(re.findall(r'href="(/review/bulk/\d+/)#id_withdraw-several-reason"', page.content.decode()))
    return address, visible_text(page)


def withdraw(client: Client, address: str, reason: str = WRONG) -> str:
    """Withdraw a bulk decision; return the text of its page."""
    return visible_text(client.post(address, {"reason": reason}, follow=True))


def statuses() -> list[str]:
    return list(ToolCall.objects.order_by("pk").values_list("status", flat=True))


def test_sessions_that_continue_are_counted_once(people: dict[str, Client], lost: Lost) -> None:
    first, other = lost(), lost(1)
    calls = [first, make_call(session=first.session, run=first.run, call_id="call_10", interrupted_at=THEN), other]
    address, _ = decide_all(people["alice"], calls)
    Run.objects.filter(session=first.session).update(lease_expires_at=clock.now())
    assert "1 session continues as soon as a process takes it up" in visible_text(people["alice"].get(address))


def test_decision_that_was_recorded_alone_is_not_called_a_bulk_decision(people: dict[str, Client], lost: Lost) -> None:
    alone = lost()
    decide_all(people["alice"], [alone])
    assert BulkDecisionEntry.objects.count() == 1
    assert "bulk decision" not in visible_text(people["alice"].get("/review/?tab=decided"))
    card = visible_text(people["alice"].get(f"/review/calls/{alone.pk}/"))
    assert "Recorded together with decisions about other calls" not in card
    decide_all(people["alice"], [lost(second) for second in range(2)])
    assert "bulk decision" in visible_text(people["alice"].get("/review/?tab=decided&answer=mark_failed"))


def test_all_decisions_are_withdrawn_with_one_reason(people: dict[str, Client], lost: Lost) -> None:
    address, text = decide_all(people["alice"], [lost(second) for second in range(3)])
    assert "Withdraw these 3 decisions" in text
    assert "Decided calls" not in text  # the outcome lists them
    assert re.search(
        "3 decisions recorded .* Reason: “Checked.” Evidence: “?Not in the export.”? You need to do nothing more.",
        text,
    )
    Run.objects.filter(session=Session.objects.first()).update(lease_expires_at=clock.now())
    assert "1 session continues as soon as a process takes it up" in visible_text(people["alice"].get(address))
    Run.objects.update(lease_expires_at=clock.now())
    text = visible_text(people["alice"].get(address))
    assert "alice decided 3 calls of refund_card" in text
    assert re.search("“Checked.” Evidence: “?Not in the export.”? ", text)
    for call in ToolCall.objects.select_related("session"):
        assert f"session {call.session.session_id} It did not happen" in text
    assert "The sessions continue as soon as processes take them up, which may be at once." in text
    assert "Withdraw 3 decisions" in text
    assert "If a run uses a decision before you send this form, that decision is not withdrawn." in text
    missing = people["alice"].post(address, {"reason": " "})
    assert missing.status_code == 422
    assert "Enter a reason. It is recorded with your name for each call." in visible_text(missing)
    assert statuses() == [CallStatus.FAILED] * 3

    page = people["alice"].post(address, {"reason": WRONG}, follow=True)
    text = visible_text(page)
    assert re.search(rf"3 decisions are withdrawn. Their calls wait for new decisions. alice · \S+ · “{WRONG}”", text)
    assert "Withdraw 3" not in text
    assert "alice withdrew 3 decisions about calls of refund_card alice had decided at " in text
    assert "You need to do nothing more" not in text
    decided = people["alice"].get("/review/?tab=decided")
    assert "alice withdrew 3 decisions about calls of refund_card “" in visible_text(decided)
    assert f'href="{address}" data-row' in decided.content.decode()
    assert statuses() == [CallStatus.INTERRUPTED] * 3
    withdrawals = Decision.objects.filter(kind=DecisionKind.WITHDRAW)
    assert set(withdrawals.values_list("actor", "reason", "final")) == {("alice", WRONG, True)}
    recorded = AuditEvent.objects.filter(kind=AuditKind.DECIDED, details__contains='"withdrawn":"mark_failed"')
    assert recorded.count() == 3
    [again] = re.findall(r'href="([^"]+)">Decide these calls again', page.content.decode())
    assert "refund_card: 3 calls need a decision" in visible_text(people["alice"].get(again.replace("&amp;", "&")))

    assert "3 decisions are withdrawn." in withdraw(people["alice"], address)
    assert withdrawals.count() == 3


def test_decisions_that_runs_have_used_stay_and_are_named(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(4)]
    address, _text = decide_all(people["alice"], calls)
    Session.objects.filter(pk=calls[0].session_id).update(gate_opened_at=clock.now())  # as when a run passes the gate
    make_call(session=calls[1].session, call_id=calls[1].call_id, step=calls[1].step, attempt=2, tool="refund_card")
    page = visible_text(people["alice"].get(address))
    assert "Withdraw 2 decisions" in page
    assert page.count("The run has used this decision.") == 2
    assert "Runs have used these decisions" not in visible_text(people["carol"].get(address))

    page = withdraw(people["alice"], address)
    assert "2 decisions stay, because their runs have used them. 2 decisions are withdrawn." in page
    assert page.count("Not withdrawn") == 2
    assert [ToolCall.objects.get(pk=call.pk).status for call in calls] == [
        CallStatus.FAILED,
        CallStatus.FAILED,
        CallStatus.INTERRUPTED,
        CallStatus.INTERRUPTED,
    ]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, "The run has used this decision, so it cannot be withdrawn. The agent was told that the"),
        (2, "Runs have used these decisions, so they cannot be withdrawn. The agents were told that"),
    ],
)
def test_bulk_decision_that_runs_have_used_cannot_be_withdrawn(
    people: dict[str, Client], lost: Lost, number: int, told: str
) -> None:
    calls = [lost(second) for second in range(2)]
    address, _text = decide_all(people["alice"], calls)
    if number == 1:
        BulkDecisionEntry.objects.order_by("-pk")[0].delete()
    Session.objects.update(gate_opened_at=clock.now())
    page = visible_text(people["alice"].get(address))
    assert told in page
    assert "The run has used this decision." not in page
    assert "Reason for the withdrawal" not in page


def test_run_that_uses_a_decision_between_the_check_and_the_withdrawal_keeps_it(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lost(second) for second in range(2)]
    address, _text = decide_all(people["alice"], calls)
    withdraw_decision = decision_withdrawal.withdraw_decision

    def withdraw_after_the_gate_opened(*args: Any, **fields: Any) -> None:
        Session.objects.filter(pk=calls[0].session_id).update(gate_opened_at=clock.now())
        withdraw_decision(*args, **fields)

    monkeypatch.setattr(decision_withdrawal, "withdraw_decision", withdraw_after_the_gate_opened)
    page = withdraw(people["alice"], address)
    assert "1 decision is withdrawn." in page
    assert "1 decision stays, because its run has used it." in page
    assert statuses() == [CallStatus.FAILED, CallStatus.INTERRUPTED]


def test_decision_that_was_withdrawn_and_made_again_meanwhile_stays(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(3)]
    bulk, _text = decide_all(people["alice"], calls)
    address = f"/review/calls/{calls[0].pk}/"
    people["bob"].post(f"{address}withdraw/", {"revision": 2, "reason": "It is in the ledger."})
    row = people["alice"].get(bulk).content.decode().partition('class="former"')[2].partition("</li>")[0]
    assert "It did not happen</span></s>" in row
    assert "1 decision is withdrawn. Its call waits for a new decision." in visible_text(people["alice"].get(bulk))
    people["bob"].post(address, {"kind": "confirm_landed", "reason": "Ledger row 4.", "revision": 3})
    assert "1 decision is withdrawn. bob" in visible_text(people["alice"].get(bulk))
    assert "3 decisions are withdrawn." in withdraw(people["alice"], bulk)
    assert statuses() == [CallStatus.COMPLETED, CallStatus.INTERRUPTED, CallStatus.INTERRUPTED]


@contextmanager
def changed_after_read(number: int, change: Callable[[], None]) -> Iterator[list[str]]:
    """Call `change` after the read of this number; yield the list of the reads, without those of `change`."""
    reads: list[str] = []

    def execute_and_change(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if not is_changing:
            reads.append(sql)
            if len(reads) == number:
                is_changing.append(True)
                change()
                is_changing.clear()
        return result

    is_changing: list[bool] = []
    with connection.execute_wrapper(execute_and_change):
        yield reads


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_new_decision_between_the_reads_of_a_withdrawal_stays(
    people: dict[str, Client], lost: Lost, number: int
) -> None:
    """The withdrawal is about the decision of the bulk decision, whatever the call has become since."""
    call = lost(0)
    decide_all(people["alice"], [call, lost(1)])
    bulk = BulkDecision.objects.select_related("workspace").get()
    alice = Membership.objects.get(user__username="alice")

    def decide_again() -> None:
        address = f"/review/calls/{call.pk}/"
        people["bob"].post(f"{address}withdraw/", {"revision": 2, "reason": "It is in the ledger."})
        people["bob"].post(address, {"kind": "mark_failed", "reason": "Another ledger.", "revision": 3})

    with changed_after_read(number, decide_again) as reads:
        recorded = bulk_decision_storage_and_withdrawal.load_bulk_decision(bulk.workspace, bulk.pk)
    assert len(reads) == 4
    assert recorded is not None
    actor = Actor(ActorKind.PERSON, "alice", Role.APPROVER)
    assert not bulk_decision_storage_and_withdrawal.withdraw_decisions(
        recorded.list_withdrawable(alice), by=alice, actor=actor, reason=WRONG
    )
    assert statuses() == [CallStatus.FAILED, CallStatus.INTERRUPTED]
    assert Decision.objects.filter(tool_call=call).latest("revision").actor == "bob"


def test_problem_with_one_call_is_named_and_does_not_stop_the_others(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [lost(second) for second in range(2)]
    address, _text = decide_all(people["alice"], calls)
    withdraw_decision = decision_withdrawal.withdraw_decision

    def fail_for_first_call(store: Any, target: Any, **fields: Any) -> None:
        if target.session_id == calls[0].session.session_id:
            raise StorageError("The disk is full.", may_have_happened=False)
        withdraw_decision(store, target, **fields)

    monkeypatch.setattr(decision_withdrawal, "withdraw_decision", fail_for_first_call)
    page = withdraw(people["alice"], address)
    assert "1 decision is withdrawn." in page
    assert "Not withdrawn The disk is full." in page
    assert "Withdraw 1 decision" in page


def test_earlier_bulk_decision_is_withdrawn_from_the_list_of_decided_calls(
    people: dict[str, Client], lost: Lost
) -> None:
    calls = [lost(second) for second in range(5)]
    first, _text = decide_all(people["alice"], calls[:2])
    second, _text = decide_all(people["alice"], calls[2:])
    assert first != second
    decided = people["bob"].get("/review/?tab=decided")
    assert re.findall(r'href="(/review/bulk/\d+/)" data-row', decided.content.decode()) == [second, first]
    assert "alice decided 2 calls of refund_card “" in visible_text(decided)
    Decision.objects.filter(tool_call=calls[0].pk).update(reason="An own reason.")
    other = people["bob"].get("/review/?tab=decided").content.decode()
    assert re.findall(r'href="(/review/bulk/\d+/)" data-row', other) == [second, first]  # still one row
    assert "An own reason." not in other
    each = people["bob"].get("/review/?tab=decided&by=person:alice").content.decode()
    assert (each.count(f'href="{first}"'), each.count(f'href="{second}"')) == (2, 3)
    card = people["bob"].get(f"/review/calls/{calls[0].pk}/").content.decode()
    assert f'<a href="{first}">Recorded together with decisions about other calls</a>' in card
    assert "2 decisions are withdrawn." in withdraw(people["alice"], first)
    assert statuses() == [CallStatus.INTERRUPTED] * 2 + [CallStatus.FAILED] * 3


def test_any_approver_withdraws_the_decisions_of_another_and_an_auditor_reads_them(
    people: dict[str, Client], lost: Lost
) -> None:
    address, _text = decide_all(people["alice"], [lost(second) for second in range(2)])
    read = visible_text(people["carol"].get(address))
    assert "alice decided 2 calls of refund_card" in read
    assert "Reason for the withdrawal" not in read
    assert people["carol"].post(address, {"reason": WRONG}).status_code == 403
    text = withdraw(people["bob"], address)
    assert "2 decisions are withdrawn." in text
    assert "Decide these calls again" in text
    assert statuses() == [CallStatus.INTERRUPTED] * 2
    assert "Decide these calls again" not in visible_text(people["carol"].get(address))


def test_secrets_of_the_calls_are_masked_in_the_reasons(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(0, args={"password": "plum-horse-9"}), lost(1)]
    address, _text = decide_all(people["alice"], calls, reason="It says plum-horse-9.")
    assert "“It says ‹masked›.”" in visible_text(people["carol"].get(address))
    assert "“It says ‹masked›.”" in visible_text(people["carol"].get("/review/?tab=decided"))
    assert "plum-horse-9" not in withdraw(people["alice"], address, "Not plum-horse-9.")
    assert "“Not ‹masked›.”" in visible_text(people["carol"].get(address))


def test_approvals_and_votes_are_withdrawn_by_those_who_gave_them(people: dict[str, Client]) -> None:
    first = awaiting(call_id="first", approvals=2)
    second = make_call(
        session=first.session, call_id="second", tool="pay", status=CallStatus.AWAITING_APPROVAL, approvals=2
    )
    sent = {"tool": "pay", "people": "2", "answer": "approve", "reason": "Fine."}
    page = people["alice"].post(
        "/review/approvals/", {**sent, "call": [f"{first.pk}.1", f"{second.pk}.1"]}, follow=True
    )
    assert "Withdraw these 2 decisions" in visible_text(page)
    [address] = set(re.findall(r'href="(/review/bulk/\d+/)#id_withdraw-several-reason"', page.content.decode()))
    assert f'href="{address}"' in people["alice"].get(f"/review/calls/{second.pk}/").content.decode()
    assert "Reason for the withdrawal" not in visible_text(people["bob"].get(address))
    people["bob"].post(f"/review/calls/{first.pk}/", {"kind": "approve", "reason": "Fine.", "revision": 2})
    assert people["alice"].post(address, {}).status_code == 422
    cancelled = "The approvals of other people are cancelled too: everybody has to decide again."
    assert cancelled not in visible_text(people["alice"].get(address))  # it is bob who completed the approval
    text = withdraw(people["bob"], address)  # bob has not recorded these
    assert "withdrawn" not in text
    text = withdraw(people["alice"], address)
    assert "1 decision is withdrawn. Its call waits for a new decision." in text
    assert "The call has changed since." in text
    assert statuses() == [CallStatus.APPROVED, CallStatus.AWAITING_APPROVAL]


def test_bulk_withdrawal_says_that_it_cancels_the_approvals_of_others(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(f"/review/calls/{call.pk}/", {"kind": "approve", "reason": "Fine.", "revision": 1})
    sent = {"tool": "pay", "people": "2", "answer": "approve", "reason": "Fine.", "call": f"{call.pk}.2"}
    page = people["bob"].post("/review/approvals/", sent, follow=True)
    [address] = set(re.findall(r'href="(/review/bulk/\d+/)#id_withdraw-several-reason"', page.content.decode()))
    cancelled = "The approvals of other people are cancelled too: everybody has to decide again."
    assert f"waits for a new decision. {cancelled}" in visible_text(people["bob"].get(address))
    assert f"Its call waits for a new decision. {cancelled}" in withdraw(people["bob"], address)
    people["alice"].post(f"/review/calls/{call.pk}/", {"kind": "reject", "message": "No.", "revision": 4})
    assert cancelled not in visible_text(people["alice"].get(address))


def test_bulk_decision_of_deleted_sessions_is_deleted_with_the_next_one(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(4)]
    address, _text = decide_all(people["alice"], calls[:2])
    Run.objects.update(status=RunStatus.RELEASED)
    Session.objects.update(status=SessionStatus.COMPLETED, owner=None)
    for call in calls[:2]:
        SyncCheckpointer().delete_session(call.session.session_id)
    assert people["alice"].get(address).status_code == 404
    decide_all(people["alice"], calls[2:])
    assert BulkDecision.objects.count() == 1
    assert BulkDecisionEntry.objects.count() == 2


def test_bulk_decision_of_another_workspace_is_not_found(people: dict[str, Client], lost: Lost) -> None:
    address, _text = decide_all(people["alice"], [lost(second) for second in range(2)])
    BulkDecision.objects.update(workspace=make_workspace(slug="other"))
    assert people["alice"].get(address).status_code == 404
