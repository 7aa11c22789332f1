"""Agents in processes of their own, which kill themselves."""

import asyncio
from pathlib import Path

from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from examples.pydantic_ai_refunds.agent import POLICIES, build_agent, run_and_save_turn

QUESTION = "Please refund my orders."


def die_in_tool(url: str, effects: str, moment: str, orders: list[int]) -> None:
    """Run the agent until it kills itself."""

    async def run() -> None:
        async with HarnessConversationStore.aopen(url) as store:
            agent = build_agent(Harness(store, POLICIES), Path(effects), moment, orders)
            await run_and_save_turn(store, agent, "s", QUESTION)

    asyncio.run(run())
