"""Processes that write to one session of the SDK at the same time."""

import asyncio
from typing import Any

from checkpoints import Checkpointer
from checkpoints.adapters.openai_agents import HarnessSession


def say(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def add_in_turns(url: str, writer: int, turns: int) -> None:
    """Add the items of each turn together, from the first access of the session on."""

    async def write() -> None:
        async with Checkpointer.open(url) as checkpointer:
            session = HarnessSession("shared", checkpointer)
            for turn in range(turns):
                await session.add_items([say(f"{writer}.{turn}.{part}") for part in range(2)])

    asyncio.run(write())


def pop_all(url: str) -> list[str]:
    """Pop items until there is none, and return their texts."""

    async def pop() -> list[str]:
        async with Checkpointer.open(url) as checkpointer:
            session, popped = HarnessSession("shared", checkpointer), []
            while (item := await session.pop_item()) is not None:
                popped.append(str(item["content"]))
            return popped

    return asyncio.run(pop())
