"""Decisions about interrupted calls, and their effect on the next run."""

import json
from pathlib import Path

import pytest

from checkpoints import Actor, SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import CallConflict, ReviewRequired
from checkpoints.formats import digests
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session
from tests.support.processes import append_line


class InterruptedPayment:
    """Session with an interrupted call `pay(order=17)`, and a closed client that can decide about it."""

    def __init__(self, open_checkpointer: Open, effects: Path) -> None:
        self.open_checkpointer, self.effects = open_checkpointer, effects
        first = start_session(open_checkpointer())
        self.registry = self.make_registry(first)
        self.registry.dispatch("warm_up", {}, "call_0")
        first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, self.key(first))
        self.cp = lose_run(open_checkpointer)
        (self.call,) = self.cp.pending_tool_calls("s")
        self.cp.close()

    def make_registry(self, cp: SyncCheckpointer) -> ToolRegistry:
        registry = ToolRegistry(checkpointer=cp, session_id="s")

        @registry.tool(idempotency=lambda args: f"order {args['order']}")
        def pay(order: int, amount: int = 40) -> str:
            append_line(str(self.effects), f"pay {order} {amount}")
            return f"paid {order}"

        @registry.tool
        def warm_up() -> str:
            return "warm"

        return registry

    def key(self, cp: SyncCheckpointer) -> str:
        space = str(Session.objects.get().key_space)
        return digests.digest_key_parts("own", ["default", space], "pay", "order 17")

    def resume(self) -> tuple[ToolRegistry, dict[str, ToolResult]]:
        """Resume the session with another client; return its tools and the results to replay."""
        cp = self.open_checkpointer()
        registry = self.make_registry(cp)
        point = cp.resume("s", registry)
        return registry, {key: value for key, value in point.replayable.items() if key != "call_0"}

    def payments(self) -> list[str]:
        return self.effects.read_text().splitlines()


@pytest.fixture
def interrupted_payment(open_checkpointer: Open, effects: Path) -> InterruptedPayment:
    return InterruptedPayment(open_checkpointer, effects)


def call_status() -> str:
    return ToolCall.objects.filter(call_id="call_1").latest("pk").status


def test_confirmed_call_is_replayed(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.confirm_landed(
        "s",
        "call_1",
        "receipt 5\0",
        actor="alice",
        reason="in the ledger",
        revision=interrupted_payment.call["revision"],
    )
    assert (call_status(), Session.objects.get().status) == ("completed", "ready")

    registry, replayable = interrupted_payment.resume()
    assert replayable == {"call_1": ToolResult("call_1", "receipt 5\0", replayed=True)}
    assert registry.dispatch("pay", {"order": 17}, "call_9") == ToolResult("call_9", "receipt 5\0", replayed=True)
    assert interrupted_payment.payments() == []


def test_failed_call_is_reported_to_the_agent(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.mark_failed(
        "s", "call_1", actor="alice", reason="The bank says no.", revision=interrupted_payment.call["revision"]
    )
    assert (call_status(), Session.objects.get().status) == ("failed", "ready")

    registry, replayable = interrupted_payment.resume()
    told = ToolResult("call_1", "This call did not happen. The bank says no.", is_error=True, replayed=True)
    assert (replayable, interrupted_payment.payments()) == ({"call_1": told}, [])
    assert registry.dispatch("pay", {"order": 17}, "call_2").content == "paid 17"
    assert interrupted_payment.payments() == ["pay 17 40"]


def test_approved_rerun_runs_exactly_once(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.approve_rerun(
        "s", "call_1", actor="alice", reason="Not in the ledger.", revision=interrupted_payment.call["revision"]
    )
    assert (call_status(), Session.objects.get().status) == ("rerun_approved", "ready")

    registry, replayable = interrupted_payment.resume()
    assert replayable == {}
    assert registry.dispatch("pay", {"order": 17}, "call_1") == ToolResult("call_1", "paid 17", attempt=2)
    assert registry.dispatch("pay", {"order": 17}, "call_2") == ToolResult(
        "call_2", "paid 17", replayed=True, attempt=2
    )
    assert interrupted_payment.payments() == ["pay 17 40"]
    assert call_statuses()[1:] == [("call_1", 1, "superseded"), ("call_1", 2, "completed")]
    assert ToolCall.objects.get(attempt=2).supersedes_id == ToolCall.objects.get(call_id="call_1", attempt=1).pk


def test_approved_rerun_may_use_another_call_id(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.approve_rerun(
        "s", "call_1", actor="alice", reason="Not there.", revision=interrupted_payment.call["revision"]
    )
    registry, _ = interrupted_payment.resume()

    assert registry.dispatch("pay", {"order": 17}, "call_7") == ToolResult("call_7", "paid 17")
    assert interrupted_payment.payments() == ["pay 17 40"]


def test_approved_rerun_does_not_apply_to_other_arguments(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.approve_rerun(
        "s", "call_1", actor="alice", reason="Not there.", revision=interrupted_payment.call["revision"]
    )
    registry, _ = interrupted_payment.resume()

    for call_id in ("call_1", "call_2"):
        with pytest.raises(CallConflict):
            registry.dispatch("pay", {"order": 17, "amount": 400}, call_id)
    assert (interrupted_payment.payments(), call_status()) == ([], "rerun_approved")


def test_interrupted_rerun_needs_another_decision(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.approve_rerun(
        "s", "call_1", actor="alice", reason="Not there.", revision=interrupted_payment.call["revision"]
    )
    cp = interrupted_payment.open_checkpointer()
    interrupted_payment.make_registry(cp)
    cp.resume("s")
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, interrupted_payment.key(cp))
    lose_run(interrupted_payment.open_checkpointer).close()

    with pytest.raises(ReviewRequired) as caught:
        interrupted_payment.open_checkpointer().resume("s")
    assert [(call["call_id"], call["attempt"]) for call in caught.value.calls] == [("call_1", 2)]
    assert call_statuses()[1:] == [("call_1", 1, "superseded"), ("call_1", 2, "interrupted")]


def test_decision_is_stored_with_actor_time_reason_and_evidence(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.confirm_landed(
        "s",
        "call_1",
        "receipt 5",
        actor=Actor(ActorKind.TOKEN, "nightly", Role.ADMIN),
        reason="  In the ledger\0. ",
        evidence={"link": "https://bank.example/5", "text": "line 5"},
        revision=interrupted_payment.call["revision"],
    )
    decision, call = Decision.objects.get(), ToolCall.objects.get(call_id="call_1")

    assert (decision.kind, decision.actor_kind, decision.actor, decision.reason) == (
        "confirm_landed",
        "token",
        "nightly",
        "In the ledger.",
    )
    assert (decision.result_text, json.loads(decision.evidence or "")) == (
        "receipt 5",
        {"link": "https://bank.example/5", "text": "line 5"},
    )
    assert (decision.tool_call_id, decision.revision, decision.args_digest) == (call.pk, 2, call.args_digest)
    assert call.revision == 3


def test_evidence_may_be_a_text(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.mark_failed(
        "s", "call_1", actor="alice", reason="no", evidence="line 5", revision=interrupted_payment.call["revision"]
    )

    assert json.loads(Decision.objects.get().evidence or "") == {"text": "line 5"}


def test_decision_is_audited(interrupted_payment: InterruptedPayment) -> None:
    interrupted_payment.cp.mark_failed(
        "s", "call_1", actor="alice", reason="no", revision=interrupted_payment.call["revision"]
    )
    event = AuditEvent.objects.get(kind="decided")

    assert (event.actor_kind, event.actor) == ("person", "alice")
    details = json.loads(event.details)
    assert (details["decision"], details["call_id"], details["attempt"]) == ("mark_failed", "call_1", 1)
    assert AuditEvent.objects.filter(kind="session_ready").count() == 1


def test_session_is_ready_when_the_last_call_is_decided(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    for number in (1, 2):
        cp.record_tool_call_issued("s", f"call_{number}", "pay", {"order": number}, f"key {number}")
    taker = lose_run(open_checkpointer)
    pending = taker.pending_tool_calls("s")
    pending_revision = []
    for call in pending:
        taker.mark_failed("s", call["call_id"], actor="alice", reason="no", revision=call["revision"])
        pending_revision.append(Session.objects.get().status)

    assert pending_revision == ["needs_review", "ready"]


def test_call_of_a_given_step_is_decided(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    for step in (1, 2):
        cp.record_tool_call_issued("s", "call_1", "pay", {"order": step}, f"key {step}", step=step)
    taker = lose_run(open_checkpointer)
    taker.mark_failed("s", "call_1", actor="alice", reason="no", revision=2, step=1)

    assert list(ToolCall.objects.order_by("step").values_list("step", "status")) == [
        (1, "failed"),
        (2, "interrupted"),
    ]


def test_owner_continues_after_the_decision_without_a_resume(open_checkpointer: Open) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    taker.mark_failed("s", "call_1", actor="alice", reason="no", revision=call["revision"])
    taker.record_tool_call_issued("s", "call_2", "pay", {"order": 18}, "other key")

    assert (call_statuses()[-1], Session.objects.get().status) == (("call_2", 1, "issued"), "active")
