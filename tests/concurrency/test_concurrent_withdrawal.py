"""A withdrawal that races with the use of the decision, or with another vote: exactly one succeeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, DecisionUsed, NothingToWithdraw, ReviewRequired, StaleRevision
from checkpoints.models import ToolCall
from tests.concurrency.test_threads import together
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import interrupt_call, start_session
from tests.support.exhaustive_mode import count_examples
from tests.support.processes import append_line

ROUNDS = count_examples(6)


def withdrawn(cp: SyncCheckpointer, session_id: str, revision: int) -> bool:
    try:
        cp.withdraw_decision(session_id, "call_1", actor="bob", reason="Wrong order.", revision=revision)
    except DecisionUsed:
        return False
    return True


@pytest.mark.parametrize("kind", ["approve_call", "respond_call"])
def test_withdrawal_races_with_dispatch(open_checkpointer: Open, effects: Path, kind: str) -> None:
    for number in range(ROUNDS):
        session_id = f"s{number}"
        registry = ToolRegistry(checkpointer=start_session(open_checkpointer(), session_id), session_id=session_id)

        @registry.tool(requires_approval=True)
        def pay(order: int, session_id: str = session_id) -> str:
            append_line(str(effects), session_id)
            return "paid"

        def dispatched(registry: ToolRegistry = registry) -> bool:
            try:
                return registry.dispatch("pay", {"order": 17}, "call_1").content in {"paid", "By hand."}
            except ApprovalRequired:
                return False

        assert not dispatched()
        person = open_checkpointer()
        message = ("By hand.",) if kind == "respond_call" else ()
        getattr(person, kind)(session_id, "call_1", *message, actor="alice", reason="I looked.", revision=1)
        used, undone = together(dispatched, partial(withdrawn, person, session_id, 2))

        call = ToolCall.objects.get(session__session_id=session_id)
        assert used != undone
        assert (call.status == "awaiting_approval") == undone
        assert effects.read_text().count(f"{session_id}\n") == (used and kind == "approve_call")


def test_withdrawal_races_with_the_gate(open_checkpointer: Open) -> None:
    for number in range(ROUNDS):
        session_id = f"s{number}"
        taker, call = interrupt_call(start_session(open_checkpointer(), session_id), open_checkpointer, session_id)
        taker.release_session(session_id)
        revision = call["revision"]
        taker.mark_failed(session_id, "call_1", actor="alice", reason="I looked.", revision=revision)
        run = open_checkpointer()

        def resumed(run: SyncCheckpointer = run, session_id: str = session_id) -> bool:
            try:
                run.resume(session_id)
            except ReviewRequired:
                return False
            return True

        used, undone = together(resumed, partial(withdrawn, taker, session_id, revision + 1))
        assert used != undone
        assert ToolCall.objects.get(session__session_id=session_id).status == ("interrupted" if undone else "failed")


def test_withdrawal_of_a_vote_races_with_the_last_vote(open_checkpointer: Open) -> None:
    """Either both votes count and nothing is withdrawn, or the second vote is refused as stale."""

    def pay(order: int) -> str:
        return "paid"

    for number in range(ROUNDS):
        session_id = f"s{number}"
        agent = start_session(open_checkpointer(), session_id)
        bound = ToolRegistry(checkpointer=agent, session_id=session_id)
        bound.tool(requires_approval=True, approvals=2)(pay)
        with pytest.raises(ApprovalRequired):
            bound.dispatch("pay", {"order": 17}, "call_1")
        first, second = open_checkpointer(), open_checkpointer()
        first.approve_call(session_id, "call_1", actor="alice", reason="It fits.", revision=1)

        def taken_back(person: SyncCheckpointer = first, session_id: str = session_id) -> bool:
            try:
                person.withdraw_decision(session_id, "call_1", actor="alice", reason="Wrong order.", revision=2)
            except (StaleRevision, NothingToWithdraw):
                return False
            return True

        def approved(person: SyncCheckpointer = second, session_id: str = session_id) -> bool:
            try:
                person.approve_call(session_id, "call_1", actor="bob", reason="It fits.", revision=2)
            except StaleRevision:
                return False
            return True

        undone, agreed = together(taken_back, approved)
        assert undone != agreed
        call = ToolCall.objects.get(session__session_id=session_id)
        assert (call.status, call.revision) == ("approved" if agreed else "awaiting_approval", 3)
