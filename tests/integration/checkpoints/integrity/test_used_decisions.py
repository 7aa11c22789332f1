"""Whether a run has used a decision is sealed: nobody can make a used one look unused and withdraw it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, DecisionUsed, IntegrityError, SessionQuarantined
from checkpoints.integrity import verify_session_rows
from checkpoints.integrity.verify_session_rows import VerificationCounts
from checkpoints.models import Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_altered_database import trigger_that_sets
from tests.integration.checkpoints.session_setups import conversation, start_session


def make_registry(cp: SyncCheckpointer, paid: list[int], session_id: str = "s", **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    def pay(order: int) -> str:
        paid.append(order)
        return f"paid {order}"

    registry.tool(side_effects={"mutate"}, **options)(pay)
    return registry


def ask(cp: SyncCheckpointer, **options: Any) -> ToolRegistry:
    registry = make_registry(cp, [], requires_approval=True, **options)
    with suppress(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    return registry


def withdraw(cp: SyncCheckpointer) -> None:
    cp.withdraw_decision("s", "call_1", actor="alice", reason="I was wrong.", revision=2)


def find_problems() -> list[Any]:
    return list(
        verify_session_rows.iterate_session_problems(
            "default", plain(Session).get(session_id="s"), VerificationCounts()
        )
    )


@pytest.mark.parametrize("decide", ["respond_call", "reject_call"])
def test_decision_of_which_the_agent_has_read_the_result_cannot_be_made_to_look_unused(
    open_checkpointer: Open, decide: str
) -> None:
    cp = start_session(open_checkpointer())
    registry = ask(cp)
    getattr(cp, decide)("s", "call_1", "I paid it.", actor="alice", reason="Done by hand.", revision=1)
    registry.dispatch("pay", {"order": 17}, "call_1")
    with pytest.raises(DecisionUsed):
        withdraw(cp)
    plain(ToolCall).update(replay_count=0)
    with pytest.raises(IntegrityError):
        withdraw(cp)
    with pytest.raises(SessionQuarantined):
        open_checkpointer().resume("s")


def test_time_at_which_the_gate_was_opened_is_sealed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    ask(cp)
    cp.reject_call("s", "call_1", "No.", actor="alice", reason="Too much.", revision=1)
    cp.release_session("s")
    open_checkpointer().resume("s")
    with pytest.raises(DecisionUsed):
        withdraw(cp)
    plain(Session).update(gate_opened_at=None)
    with pytest.raises(IntegrityError):
        withdraw(cp)


def test_replays_leave_a_session_that_matches_its_seals(open_checkpointer: Open) -> None:
    cp, paid = start_session(open_checkpointer()), list[int]()
    registry = make_registry(cp, paid)
    registry.dispatch("pay", {"order": 17}, "call_1")
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    for number in range(2, 5):
        assert registry.dispatch("pay", {"order": 17}, f"call_{number}").replayed
    cp.release_session("s")
    again = open_checkpointer()
    again.resume("s")
    assert make_registry(again, paid).dispatch("pay", {"order": 17}, "call_5").replayed
    again.save_checkpoint("s", conversation("abcd"), {}, 0)
    assert paid == [17]
    assert plain(ToolCall).get().replay_count == 4
    assert find_problems() == []


def test_replays_of_a_call_of_another_session_are_sealed(open_checkpointer: Open, witness: Path) -> None:
    first, second, paid = start_session(open_checkpointer()), start_session(open_checkpointer(), "t"), list[int]()
    make_registry(first, paid, scope="workspace").dispatch("pay", {"order": 17}, "call_1")
    registry = make_registry(second, paid, "t", scope="workspace")
    for call_id in ("call_1", "call_2"):
        assert registry.dispatch("pay", {"order": 17}, call_id).replayed
    first.save_checkpoint("s", conversation("ab"), {}, 0)
    assert (paid, plain(ToolCall).get().replay_count) == ([17], 2)
    assert find_problems() == []


@pytest.mark.parametrize("scope", ["session", "workspace"])
def test_replays_that_the_database_does_not_count_are_noticed(open_checkpointer: Open, scope: str) -> None:
    cp = start_session(open_checkpointer())
    registry = ask(cp, scope=scope)
    cp.respond_call("s", "call_1", "I paid it.", actor="alice", reason="Done by hand.", revision=1)
    with trigger_that_sets(ToolCall, "UPDATE", "replay_count = 0"), suppress(IntegrityError):
        registry.dispatch("pay", {"order": 17}, "call_1")
    with pytest.raises((IntegrityError, SessionQuarantined)):
        withdraw(cp)


def test_time_of_the_gate_that_the_database_changes_gets_no_seal(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    ask(cp)
    cp.reject_call("s", "call_1", "No.", actor="alice", reason="Too much.", revision=1)
    cp.release_session("s")
    taker = open_checkpointer()
    with (
        trigger_that_sets(Session, "UPDATE", "gate_opened_at = NULL"),
        pytest.raises(IntegrityError, match="another gate_opened_at"),
    ):
        taker.resume("s")
