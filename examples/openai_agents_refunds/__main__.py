"""Play the story: the agent dies after a refund, a person decides, the same program continues."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agents import RunConfig, Runner

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.openai_agents import HarnessSession, use_harness
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)
from examples.openai_agents_refunds.agent import POLICIES, build_agent

QUESTION = "Please refund order 17."


async def ask_agent_for_refund(database: str, effects: Path, moment: str | None = None) -> Any:
    """Run the agent. At `moment` its process is killed."""
    use_harness(POLICIES)
    async with Checkpointer.open(database) as checkpointer:
        session = HarnessSession("order-17", checkpointer)
        agent = build_agent(effects, moment)
        return await Runner.run(agent, QUESTION, session=session, run_config=RunConfig(tracing_disabled=True))


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.openai_agents_refunds", database, effects)
    result = asyncio.run(ask_agent_for_refund(database, effects))
    print(f"Started again, it does not know whether that happened, and asks: {result.interruptions[0].arguments}")
    with SyncCheckpointer.open(database) as checkpointer:
        confirm_refund(checkpointer, "order-17")
    result = asyncio.run(ask_agent_for_refund(database, effects))
    print(f"The agent says: {result.final_output}")
    print(f"Refunds in the end: {count_refunds(effects)}.")


if __name__ == "__main__":
    play_story_or_run_agent(
        lambda database, effects: asyncio.run(ask_agent_for_refund(database, effects, AFTER_EFFECT)),
        play_killed_agent_and_confirmed_refund,
    )
