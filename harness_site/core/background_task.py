"""Background task for the lifetime of the server."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from checkpoints.db import clock

logger = logging.getLogger(__name__)


@dataclass
class TaskState:
    """State of a background task of this process: end of its last good round, and its last failure."""

    name: str
    started_at: datetime
    round_at: datetime | None = None
    failed_at: datetime | None = None
    failure: str = ""

    @property
    def is_failing(self) -> bool:
        return self.failed_at is not None and (self.round_at is None or self.failed_at > self.round_at)


#: The running tasks of this process, by name.
_running: Final[dict[str, TaskState]] = {}


def list_running_task_states() -> list[TaskState]:
    """List the background tasks that run in this process."""
    return list(_running.values())


class BackgroundTask:
    """One task on the event loop of the server, from `start` to `stop`."""

    name = "background"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._state = TaskState(self.name, clock.now())

    async def start(self) -> None:
        _running[self.name] = self._state
        self._task = asyncio.create_task(self._run_until_cancelled(), name=self.name)

    async def stop(self) -> None:
        _running.pop(self.name, None)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def record_successful_round(self) -> None:
        """Note that a round has ended without an error."""
        if self._state.is_failing:
            logger.warning("The background task %s works again.", self.name)
        self._state.round_at = clock.now()

    def record_failure(self, error: Exception) -> None:
        """Note that a round has failed; the log gets the first of several equal failures."""
        failure = type(error).__name__
        if not self._state.is_failing or failure != self._state.failure:
            logger.error("The background task %s failed. It tries again until it works.", self.name, exc_info=error)
        self._state.failed_at, self._state.failure = clock.now(), failure

    async def _run_until_cancelled(self) -> None:
        raise NotImplementedError
