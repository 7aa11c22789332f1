"""The async checkpointer: the blocking one behind one thread hop for each whole operation."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import conf, opening
from checkpoints.async_checkpointer.decisions import Decisions
from checkpoints.async_checkpointer.peers import Peers
from checkpoints.async_checkpointer.resuming import Resuming
from checkpoints.async_checkpointer.sessions import Sessions
from checkpoints.async_checkpointer.tool_calls import ToolCalls
from checkpoints.async_checkpointer.versions import Versions
from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.exceptions import CheckpointerClosed
from checkpoints.models import DEFAULT_WORKSPACE
from checkpoints.saving.connection import find_connection

T = TypeVar("T")

#: Threads, and therefore connections, that one checkpointer uses at most. SQLite takes one writer at a time: more
#: threads would only wait for each other there.
WORKERS = {"postgresql": 8, "sqlite": 3}


class Checkpointer(Sessions, Versions, ToolCalls, Resuming, Peers, Decisions):
    """`SyncCheckpointer` with async methods of the same names and meanings.

    Each operation is one hop to a thread of an executor that this object owns. Cancelling a caller never leaves a
    half-made write: an operation that has begun is finished first.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
    ) -> None:
        if url is not None:
            with ThreadPoolExecutor(1) as opener:  # Django refuses to open databases on an event loop's thread
                using = opener.submit(_opened, url, migrate).result()
        self.sync = SyncCheckpointer(
            using=using,
            workspace=workspace,
            lease_seconds=lease_seconds,
            idle_release_seconds=idle_release_seconds,
        )
        self._closed = False
        self._connections: list[BaseDatabaseWrapper] = []
        self._executor = ThreadPoolExecutor(
            WORKERS[find_connection(using).vendor],
            thread_name_prefix="harness",
            initializer=_remember,
            initargs=(using, self._connections),
        )
        weakref.finalize(self, self._executor.shutdown, wait=False)

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
    ) -> Self:
        return cls(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
        )

    async def hop(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise CheckpointerClosed
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def close(self) -> None:
        """Give up the sessions this checkpointer owns, its threads and its connections. Once is enough."""
        if self._closed:
            return
        await self.hop(self.sync.close)
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._executor.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


async def check_pending_tool_calls(checkpointer: Checkpointer, session_id: str) -> list[dict[str, Any]]:
    """Calls that were issued and have no outcome: what a resume has to find out about, oldest first."""
    return await checkpointer.pending_tool_calls(session_id)


def _opened(url: str | Path, migrate: bool | None) -> str:
    alias = opening.opened(url, migrate=migrate)
    connections[alias].close()
    return alias


def _remember(using: str, opened: list[BaseDatabaseWrapper]) -> None:
    """Let a worker's connection be closed from another thread once the worker has ended."""
    connection = connections[using]
    connection.inc_thread_sharing()
    opened.append(connection)
