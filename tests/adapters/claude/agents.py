"""Programs in processes of their own."""

import asyncio
from pathlib import Path
from typing import Any

from checkpoints.adapters.claude import HarnessSessionStore
from examples.claude_refunds.agent import SESSION_ID, run_agent

KEY: Any = {"project_key": "-srv-shop", "session_id": "0f0e0d0c-1111-4222-8333-444455556666"}

RUN_KEY: Any = {"project_key": "-srv-shop", "session_id": SESSION_ID}


def write_lines(url: str, name: str, count: int) -> None:
    """Append lines of which every process has the first one."""

    async def write() -> None:
        async with HarnessSessionStore.open(url) as store:
            for uuid in ("same", *(f"{name}{number}" for number in range(count))):
                await store.append(KEY, [{"type": "user", "uuid": uuid}])

    asyncio.run(write())


def die_in_tool(url: str, effects: str, moment: str) -> None:
    """Run the agent until it kills itself."""

    async def run() -> None:
        async with HarnessSessionStore.open(url) as store:
            await run_agent(store, Path(effects), moment)

    asyncio.run(run())
