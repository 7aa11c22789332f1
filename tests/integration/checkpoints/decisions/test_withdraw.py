"""A decision can be withdrawn until a run has used it; then the call needs a decision again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Actor, SyncCheckpointer, ToolRegistry
from checkpoints.enums import ActorKind, AuditKind, Role
from checkpoints.exceptions import (
    AlreadyDecided,
    ApprovalRequired,
    DecisionUsed,
    NothingToWithdraw,
    NotPermitted,
    ReasonRequired,
    ReviewRequired,
    StaleRevision,
)
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session
from tests.support.processes import append_line


def withdraw(cp: SyncCheckpointer, revision: int, *, reason: str = "Wrong order.", **more: Any) -> None:
    cp.withdraw_decision("s", "call_1", **{"actor": "bob", **more}, reason=reason, revision=revision)


def interrupted(cp: SyncCheckpointer, open_checkpointer: Open) -> tuple[SyncCheckpointer, int]:
    """Return a checkpointer that was refused at the gate, and the revision of the interrupted call."""
    taker, call = interrupt_call(start_session(cp), open_checkpointer)
    taker.release_session("s")
    return taker, call["revision"]


DECIDE: dict[str, dict[str, str]] = {
    "confirm_landed": {"result_text": "paid"},
    "mark_failed": {},
    "approve_rerun": {},
}


@pytest.mark.parametrize("kind", DECIDE)
def test_unused_decision_is_withdrawn_and_repeated(cp: SyncCheckpointer, open_checkpointer: Open, kind: str) -> None:
    taker, revision = interrupted(cp, open_checkpointer)
    decide = getattr(taker, kind)
    decide("s", "call_1", actor="alice", reason="I looked.", revision=revision, **DECIDE[kind])
    before = ToolCall.objects.get()
    withdraw(taker, revision + 1)

    call, session = ToolCall.objects.get(), Session.objects.get()
    assert (call.status, call.result, call.result_digest, call.settled_at) == ("interrupted", None, "", None)
    assert (call.revision, call.args, session.status) == (before.revision + 1, before.args, "needs_review")
    made = Decision.objects.get(kind="withdraw")
    assert (made.actor, made.reason, made.final, made.revision) == ("bob", "Wrong order.", True, revision + 1)
    details = json.loads(AuditEvent.objects.filter(kind=AuditKind.DECIDED).latest("pk").details)
    assert (details["decision"], details["withdrawn"]) == ("withdraw", kind)
    with pytest.raises(StaleRevision):
        decide("s", "call_1", actor="alice", reason="I looked.", revision=revision, **DECIDE[kind])
    with pytest.raises(NothingToWithdraw):
        withdraw(taker, revision + 2)

    taker.mark_failed("s", "call_1", actor="alice", reason="Not in the export.", revision=revision + 2)
    with pytest.raises(AlreadyDecided, match="It did not happen"):  # not the decision that was withdrawn
        taker.mark_failed("s", "call_1", actor="bob", reason="Late.", revision=revision)
    assert call_statuses() == [("call_1", 1, "failed")]


def test_exit_code_is_that_of_the_result_in_force(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "shell", {"command": "make deploy"}, "key")
    taker = lose_run(open_checkpointer, "s")
    (call,) = taker.pending_tool_calls("s")
    taker.release_session("s")
    decide = {"actor": "alice", "reason": "I looked.", "revision": call["revision"]}
    taker.confirm_landed("s", "call_1", "Exit code 2", **decide)
    assert ToolCall.objects.get().exit_code == 2
    withdraw(taker, call["revision"] + 1)
    assert ToolCall.objects.get().exit_code is None


def test_decision_is_used_by_a_run_that_passed_the_gate(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    taker, revision = interrupted(cp, open_checkpointer)
    taker.mark_failed("s", "call_1", actor="alice", reason="I looked.", revision=revision)
    open_checkpointer().resume("s")

    with pytest.raises(DecisionUsed, match="alice") as caught:
        withdraw(taker, revision + 1)
    assert "fork the session" in caught.value.hint
    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "failed")], 1)


def test_resume_uses_the_decision_of_an_active_session(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool(requires_approval=True)
    def pay(order: int) -> str:
        return "paid"

    @registry.tool()
    def look_up(order: int) -> str:
        return "open"

    with pytest.raises(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    cp.reject_call("s", "call_1", "Not this one.", actor="alice", reason="Wrong order.", revision=1)
    registry.dispatch("look_up", {"order": 17}, "call_2")
    assert Session.objects.get().status == "active"
    withdraw(cp, 2)  # the run was told to wait, and has not asked again
    cp.reject_call("s", "call_1", "Not this one.", actor="alice", reason="Wrong order.", revision=3)
    registry.dispatch("look_up", {"order": 18}, "call_3")
    cp.release_session("s")
    open_checkpointer().resume("s")
    with pytest.raises(DecisionUsed):
        withdraw(cp, 4)


def test_resume_stops_at_a_withdrawn_decision(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    taker, revision = interrupted(cp, open_checkpointer)
    taker.confirm_landed("s", "call_1", "paid", actor="alice", reason="I looked.", revision=revision)
    withdraw(taker, revision + 1)
    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")


def test_withdrawn_approval_and_rejection(cp: SyncCheckpointer, effects: Path) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool(requires_approval=True, sentence="Pay {amount:.2f} for order {order}")
    def pay(order: int, amount: float) -> str:
        append_line(str(effects), f"pay {order}")
        return "paid"

    def ask() -> None:
        with pytest.raises(ApprovalRequired):
            registry.dispatch("pay", {"order": 17, "amount": 40.0}, "call_1")

    ask()
    for name, *message in [("approve_call",), ("reject_call", "No."), ("respond_call", "17")]:
        revision = ToolCall.objects.get().revision
        getattr(cp, name)("s", "call_1", *message, actor="alice", reason="I looked.", revision=revision)
        withdraw(cp, revision + 1)
        ask()  # the run that was told to wait waits again
    assert effects.read_text() == ""

    revision = ToolCall.objects.get().revision
    cp.edit_call("s", "call_1", {"order": 18, "amount": 5}, actor="alice", reason="Other order.", revision=revision)
    assert ToolCall.objects.get().sentence == "Pay 5.00 for order 18"
    with pytest.raises(NothingToWithdraw):  # an edit is undone by another edit
        withdraw(cp, revision + 1)
    cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=revision + 1)
    registry.dispatch("pay", {"order": 17, "amount": 40.0}, "call_1")
    with pytest.raises(DecisionUsed):
        withdraw(cp, ToolCall.objects.get().revision)
    assert effects.read_text() == "pay 18\n"


def test_decision_is_used_when_its_result_was_replayed(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool(requires_approval=True)
    def pay(order: int) -> str:
        return "paid"

    with pytest.raises(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    cp.respond_call("s", "call_1", "Paid by hand.", actor="alice", reason="By hand.", revision=1)
    assert registry.dispatch("pay", {"order": 17}, "call_1").content == "Paid by hand."
    with pytest.raises(DecisionUsed):
        withdraw(cp, 2)


def test_permissions_and_arguments_of_withdrawals(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    taker, revision = interrupted(cp, open_checkpointer)
    with pytest.raises(NothingToWithdraw):
        withdraw(taker, revision)
    taker.mark_failed("s", "call_1", actor="alice", reason="I looked.", revision=revision)
    with pytest.raises(NotPermitted):
        withdraw(taker, revision + 1, actor=Actor(ActorKind.PERSON, "carol", Role.AUDITOR))
    with pytest.raises(ReasonRequired):
        withdraw(taker, revision + 1, reason=" ")
    with pytest.raises(StaleRevision):
        withdraw(taker, revision)
    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "failed")], 1)


def test_voter_withdraws_own_vote(cp: SyncCheckpointer) -> None:
    """Other votes stay, and a person who has withdrawn a vote can vote again."""
    start_session(cp)
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(requires_approval=True, approvals=3)
    def pay(order: int) -> str:
        return "paid"

    with pytest.raises(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")

    def approve(actor: str, revision: int) -> None:
        cp.approve_call("s", "call_1", actor=actor, reason="It fits.", revision=revision)

    with pytest.raises(NothingToWithdraw):
        withdraw(cp, 1, actor="alice")
    approve("alice", 1)
    approve("bob", 2)
    with pytest.raises(NothingToWithdraw):
        withdraw(cp, 3, actor="carol")
    with pytest.raises(StaleRevision):
        withdraw(cp, 2, actor="alice")
    withdraw(cp, 3, actor="alice")
    call, session = ToolCall.objects.get(), Session.objects.get()
    assert (call.status, call.revision, session.status) == ("awaiting_approval", 4, "needs_review")
    made = Decision.objects.get(kind="withdraw")
    assert (made.actor, made.final, made.revision) == ("alice", False, 3)
    details = json.loads(AuditEvent.objects.filter(kind=AuditKind.DECIDED).latest("pk").details)
    assert (details["withdrawn"], details["decided_by"]) == ("approve", "alice")
    with pytest.raises(NothingToWithdraw):
        withdraw(cp, 4, actor="alice")
    with pytest.raises(StaleRevision):  # who has read the vote that was taken back
        approve("carol", 3)
    approve("carol", 4)
    assert ToolCall.objects.get().status == "awaiting_approval"  # bob and carol
    approve("alice", 5)
    assert ToolCall.objects.get().status == "approved"
    withdraw(cp, 6, actor="dora")  # all of it, as it is in force now
    assert Decision.objects.filter(kind="withdraw", final=True).count() == 1
    approve("alice", 7)
    assert ToolCall.objects.get().status == "awaiting_approval"
