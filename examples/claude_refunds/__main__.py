"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from checkpoints.adapters.claude import HarnessSessionStore
from examples.claude_refunds.agent import STORED_ID, run_agent
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)


async def run_agent_and_be_killed_after_refund(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    async with HarnessSessionStore.open(database) as store:
        await run_agent(store, effects, AFTER_EFFECT)


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.claude_refunds", database, effects)
    asyncio.run(restart_confirm_refund_and_continue(database, effects))
    print(f"Refunds in the end: {count_refunds(effects)}.")


async def restart_confirm_refund_and_continue(database: str, effects: Path) -> None:
    """Run the agent again, and once more after the decision."""
    async with HarnessSessionStore.open(database) as store:
        result = await run_agent(store, effects)
        waiting = result.deferred_tool_use
        print(f"Started again, it does not know whether that happened, and asks: {waiting and waiting.input}")
        await asyncio.to_thread(confirm_refund, store.sync_checkpointer, STORED_ID)
        result = await run_agent(store, effects)
        print(f"The agent says: {result.result}")


if __name__ == "__main__":
    play_story_or_run_agent(
        lambda database, effects: asyncio.run(run_agent_and_be_killed_after_refund(database, effects)),
        play_killed_agent_and_confirmed_refund,
    )
