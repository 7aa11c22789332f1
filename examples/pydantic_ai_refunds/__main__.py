"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import DeferredToolRequests

from checkpoints import SyncCheckpointer
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)
from examples.pydantic_ai_refunds.agent import POLICIES, build_agent, run_and_save_turn

QUESTION = "Please refund order 17."


async def run_agent_and_be_killed_after_refund(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    async with HarnessConversationStore.aopen(database) as store:
        agent = build_agent(Harness(store, POLICIES), effects, AFTER_EFFECT)
        await run_and_save_turn(store, agent, "order-17", QUESTION)


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.pydantic_ai_refunds", database, effects)
    asyncio.run(restart_and_print_call_needing_decision(database, effects))
    with SyncCheckpointer.open(database) as checkpointer:
        confirm_refund(checkpointer, "order-17")
    print(f"The agent says: {asyncio.run(continue_after_decision(database, effects))}")
    print(f"Refunds in the end: {count_refunds(effects)}.")


async def restart_and_print_call_needing_decision(database: str, effects: Path) -> None:
    """Ask the same question again. The run ends with the call that waits for a person."""
    async with HarnessConversationStore.aopen(database) as store:
        agent = build_agent(Harness(store, POLICIES), effects)
        requests = await run_and_save_turn(store, agent, "order-17", QUESTION)
        assert isinstance(requests, DeferredToolRequests)  # noqa: S101 - the story
        print(f"Started again, it does not know whether that happened, and asks: {requests.approvals[0].args}")


async def continue_after_decision(database: str, effects: Path) -> str:
    """Continue the conversation with the decision, as any process can."""
    async with HarnessConversationStore.aopen(database) as store:
        harness = Harness(store, POLICIES)
        conversation = await store.load("order-17")
        assert conversation is not None  # noqa: S101 - the story
        decisions = await harness.find_decisions(conversation.deferred_tool_requests)
        agent = build_agent(harness, effects)
        result = await agent.run(conversation=conversation, deferred_tool_results=decisions)
        await store.save(result)
        return str(result.output)


if __name__ == "__main__":
    play_story_or_run_agent(
        lambda database, effects: asyncio.run(run_agent_and_be_killed_after_refund(database, effects)),
        play_killed_agent_and_confirmed_refund,
    )
