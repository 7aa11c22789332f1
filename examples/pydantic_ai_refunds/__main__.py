"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic_ai import DeferredToolRequests

from checkpoints import SyncCheckpointer
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from examples.pydantic_ai_refunds.agent import AFTER_EFFECT, POLICIES, build_agent, run_turn

QUESTION = "Please refund order 17."


async def ask(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    async with HarnessConversationStore.aopen(database) as store:
        agent = build_agent(Harness(store, POLICIES), effects, AFTER_EFFECT)
        await run_turn(store, agent, "order-17", QUESTION)


def play(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    child = subprocess.run([sys.executable, "-m", __package__, database, str(effects)], check=False)
    print(f"The agent was killed (exit status {child.returncode}). Refunds so far: {count(effects)}.")
    asyncio.run(start_again(database, effects))
    with SyncCheckpointer.open(database) as checkpointer:
        decide(checkpointer)
    print(f"The agent says: {asyncio.run(go_on(database, effects))}")
    print(f"Refunds in the end: {count(effects)}.")


async def start_again(database: str, effects: Path) -> None:
    """Ask the same question again. The run ends with the call that waits for a person."""
    async with HarnessConversationStore.aopen(database) as store:
        agent = build_agent(Harness(store, POLICIES), effects)
        requests = await run_turn(store, agent, "order-17", QUESTION)
        assert isinstance(requests, DeferredToolRequests)  # noqa: S101 - the story
        print(f"Started again, it does not know whether that happened, and asks: {requests.approvals[0].args}")


async def go_on(database: str, effects: Path) -> str:
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


def decide(checkpointer: SyncCheckpointer) -> None:
    """Decide as a person would in the browser, who has looked at the account."""
    (call,) = checkpointer.pending_tool_calls("order-17")
    checkpointer.confirm_landed(
        "order-17",
        call["call_id"],
        "refunded 40 for order 17",
        actor="alice",
        reason="The bank statement has the payment.",
        revision=call["revision"],
    )


def count(effects: Path) -> int:
    """Count the refunds."""
    return len(effects.read_text().splitlines()) if effects.exists() else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(ask(sys.argv[1], Path(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            play(f"sqlite:///{temporary}/agent.db", Path(temporary) / "effects.log")
