"""SIGKILL inside a tool of a LangGraph agent: the gate or a replay, and never two effects."""

import signal
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.models import Run, ToolCall
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT
from examples.langgraph_refunds.agent import build_agent
from tests.adapters.langgraph import agents
from tests.conftest import StartChild
from tests.support.processes import database_url


def _continue(agent: Any, durability: str) -> Any:
    """Start again as a user would: with `None`, or with the question if nothing was saved."""
    saved = agent.get_state(agents.config()).values
    return agent.invoke(None if saved else agents.QUESTION, agents.config(), durability=durability)


def _decide(cp: SyncCheckpointer, landed: set[int]) -> None:
    for call in cp.pending_tool_calls("s"):
        about = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
        order = next(order for order in (17, 18) if str(order) in call["args_json"])
        if order in landed:
            cp.confirm_landed("s", call["call_id"], f"refunded 40 for order {order}", **about)
        else:
            cp.mark_failed("s", call["call_id"], **about)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("moment", [BEFORE_EFFECT, AFTER_EFFECT])
def test_killed_agent_asks_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, moment: str, durability: str
) -> None:
    orders = [17, 18] if durability == "sync" else [17]
    child = start_child(
        agents.die_in_tool,
        url=database_url(),
        effects=str(effects),
        moment=moment,
        durability=durability,
        orders=orders,
    )
    assert child.died_by() == signal.SIGKILL
    landed = {int(line) for line in effects.read_text().split()}
    agent = build_agent(HarnessSaver(cp), effects, orders=orders)
    state = _continue(agent, durability)
    gates = state["__interrupt__"]
    assert {gate.value["type"] for gate in gates} == {"review_required"}
    assert {int(line) for line in effects.read_text().split()} == landed
    assert not cp.store.list_owned_sessions()  # a decision may be carried out by any process
    _decide(cp, landed)
    for _ in orders:
        resume = {gate.id: True for gate in state.get("__interrupt__", [])}
        state = agent.invoke(Command(resume=resume), agents.config(), durability=durability) if resume else state
    assert state["messages"][-1].content == "; ".join(f"refunded 40 for order {order}" for order in orders)
    assert sorted(effects.read_text().split()) == [str(order) for order in orders]
    assert not ToolCall.objects.filter(answered_version=None).exclude(status="failed").exists()
    assert not Run.objects.filter(status="running").exists()
