"""SIGKILL inside a tool of a Strands agent: the gate or a replay, and never two effects."""

import signal
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.adapters.strands import HarnessSessionRepository
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Run, Session, ToolCall
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT
from examples.strands_refunds.agent import build_agent_and_harness
from tests.adapters.strands import agents
from tests.conftest import StartChild
from tests.support.processes import database_url


def _decide(cp: SyncCheckpointer, decision: str, landed: set[int]) -> None:
    for call in cp.pending_tool_calls("s"):
        about = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
        order = next(order for order in (17, 18) if str(order) in call["args_json"])
        if decision == "rerun":
            cp.approve_rerun("s", call["call_id"], **about)
        elif order in landed:
            cp.confirm_landed("s", call["call_id"], f"refunded 40 for order {order}", **about)
        else:
            cp.mark_failed("s", call["call_id"], **about)


def _go_on(effects: Path, orders: list[int], prompt: Any = None) -> Any:
    """Continue in another client, with the decisions if the agent is interrupted."""
    with HarnessSessionRepository.open(database_url()) as repository:
        agent, harness = build_agent_and_harness(repository, "s", effects, orders=orders)
        return agent(harness.build_responses() or prompt)


@pytest.mark.parametrize(
    ("moment", "decision", "orders"),
    [
        (BEFORE_EFFECT, "told", [17]),
        (BEFORE_EFFECT, "rerun", [17, 18]),
        (INSIDE_EFFECT, "told", [17]),
        (AFTER_EFFECT, "told", [17, 18]),
    ],
)
def test_killed_agent_asks_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, moment: str, decision: str, orders: list[int]
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=moment, orders=orders)
    assert child.died_by() == signal.SIGKILL
    landed = {int(line) for line in effects.read_text().split()}
    asked = _go_on(effects, orders)
    assert asked.stop_reason == "interrupt"
    assert len(asked.interrupts) == len(orders)
    assert {interrupt.reason["type"] for interrupt in asked.interrupts} == {"review_required"}
    assert _go_on(effects, orders).stop_reason == "interrupt"  # nobody has decided yet
    assert {int(line) for line in effects.read_text().split()} == landed
    assert not Run.objects.filter(status="running").exists()
    _decide(cp, decision, landed)
    said = _go_on(effects, orders)
    assert said.stop_reason == "end_turn"
    assert sorted(str(said).strip().split("; ")) == [f"refunded 40 for order {order}" for order in orders]
    assert sorted(effects.read_text().split()) == [str(order) for order in orders]
    assert not ToolCall.objects.filter(answered_version=None).exclude(status__in=["failed", "superseded"]).exists()
    assert not Run.objects.filter(status="running").exists()


def test_new_prompt_after_a_kill_waits_for_the_decision_and_tells_the_true_result(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT, orders=[17])
    assert child.died_by() == signal.SIGKILL
    for _ in range(2):
        with pytest.raises(ReviewRequired):
            _go_on(effects, [17], agents.QUESTION)
    _decide(cp, "told", {17})
    assert Session.objects.get().status == "ready"
    said = _go_on(effects, [17], agents.QUESTION)
    assert Session.objects.get().status == "active"  # no call has passed the gate, and the model knows the result
    assert str(said).strip() == "refunded 40 for order 17"
    assert effects.read_text().split() == ["17"]
    latest = cp.load_latest("s")
    assert latest is not None
    roles = [message["role"] for message in latest["transcript"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user", "assistant"]
