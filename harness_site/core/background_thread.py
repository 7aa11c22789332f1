"""Background task for the lifetime of the server."""

import asyncio
import contextlib


class BackgroundTask:
    """One task on the event loop of the server, from `start` to `stop`."""

    name = "background"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        raise NotImplementedError
