"""Programs in processes of their own."""

import asyncio
from typing import Any

from checkpoints.adapters.claude import HarnessSessionStore

KEY: Any = {"project_key": "-srv-shop", "session_id": "0f0e0d0c-1111-4222-8333-444455556666"}


def write_lines(url: str, name: str, count: int) -> None:
    """Append lines of which every process has the first one."""

    async def write() -> None:
        async with HarnessSessionStore.open(url) as store:
            for uuid in ("same", *(f"{name}{number}" for number in range(count))):
                await store.append(KEY, [{"type": "user", "uuid": uuid}])

    asyncio.run(write())
