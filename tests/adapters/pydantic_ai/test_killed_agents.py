"""SIGKILL inside a tool of an agent of Pydantic AI: the gate or a replay, and never two effects."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import DeferredToolRequests

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from checkpoints.models import Run, ToolCall
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT
from examples.pydantic_ai_refunds.agent import POLICIES, build_agent, run_and_save_turn
from tests.adapters.pydantic_ai import agents
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


async def _start_again(effects: Path, orders: list[int]) -> Any:
    """Run the same script again, in another client."""
    async with Checkpointer() as client:
        store = HarnessConversationStore(client)
        return await run_and_save_turn(
            store, build_agent(Harness(store, POLICIES), effects, orders=orders), "s", agents.QUESTION
        )


async def _go_on(effects: Path, orders: list[int]) -> Any:
    """Continue the conversation with the decisions, in another client."""
    async with Checkpointer() as client:
        store = HarnessConversationStore(client)
        harness = Harness(store, POLICIES)
        conversation = await store.load("s")
        assert conversation is not None
        decisions = await harness.find_decisions(conversation.deferred_tool_requests)
        assert set(decisions.answered_by.values()) == {"alice"}
        agent = build_agent(harness, effects, orders=orders)
        result = await agent.run(conversation=conversation, deferred_tool_results=decisions)
        await store.save(result)
        return result.output


@pytest.mark.parametrize(
    ("moment", "decision", "orders"),
    [
        (BEFORE_EFFECT, "told", [17]),
        (BEFORE_EFFECT, "rerun", [17, 18]),
        (AFTER_EFFECT, "told", [17, 18]),
    ],
)
def test_killed_agent_asks_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, moment: str, decision: str, orders: list[int]
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=moment, orders=orders)
    assert child.died_by() == signal.SIGKILL
    landed = {int(line) for line in effects.read_text().split()}
    requests = asyncio.run(_start_again(effects, orders))
    assert isinstance(requests, DeferredToolRequests)
    assert len(requests.approvals) == len(orders)
    assert {metadata["harness"]["type"] for metadata in requests.metadata.values()} == {"review_required"}
    assert {int(line) for line in effects.read_text().split()} == landed
    assert not Run.objects.filter(status="running").exists()
    _decide(cp, decision, landed)
    assert asyncio.run(_go_on(effects, orders)) == "; ".join(f"refunded 40 for order {order}" for order in orders)
    assert sorted(effects.read_text().split()) == [str(order) for order in orders]
    # every call is answered by the saved turn, although the model has asked again under new ids
    assert not ToolCall.objects.filter(answered_version=None).exclude(status__in=["failed", "superseded"]).exists()
    assert not Run.objects.filter(status="running").exists()


def test_agent_that_dies_before_its_turn_is_saved_replays_it(cp: SyncCheckpointer, effects: Path) -> None:
    async def play() -> list[Any]:
        store = HarnessConversationStore(cp)
        agent = build_agent(Harness(store, POLICIES), effects)
        lost = await agent.run(agents.QUESTION, conversation_id="s")
        kept = await run_and_save_turn(store, agent, "s", agents.QUESTION)
        again = await run_and_save_turn(store, agent, "s", agents.QUESTION)
        return [lost.output, kept, again]

    assert asyncio.run(play()) == ["refunded 40 for order 17"] * 3
    # the lost turn is replayed; after it is saved, the customer may ask for another refund
    assert effects.read_text().split() == ["17", "17"]
    assert ToolCall.objects.filter(answered_version=None).count() == 0
