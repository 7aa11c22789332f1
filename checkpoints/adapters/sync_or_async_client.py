"""Clients that an adapter is given, blocking or async, and their database work in async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from checkpoints import sync_and_async_flow_runners
from checkpoints.async_client import Checkpointer
from checkpoints.database_backend.database_client_backend import DatabaseBackend
from checkpoints.exceptions import InvalidInput
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact
from checkpoints.sync_client import SyncCheckpointer

T = TypeVar("T")


def get_sync_client(checkpointer: SyncCheckpointer | Checkpointer) -> SyncCheckpointer:
    """Return the blocking client of the same store."""
    return checkpointer.sync if isinstance(checkpointer, Checkpointer) else checkpointer


async def run_on_thread(checkpointer: SyncCheckpointer | Checkpointer, work: Callable[[], T]) -> T:
    """Run blocking work on a thread: the async client's own, or, for a blocking client, one of the default pool of the
    event loop, whose database connection is closed afterwards.

    Args:
        checkpointer: Client that the work uses.
        work: Function without arguments.

    Returns:
        What `work` returns.
    """
    if isinstance(checkpointer, Checkpointer):
        return await checkpointer.run_blocking(work)
    return await asyncio.to_thread(_run_and_disconnect, work)


class AdapterClient:
    """Client whose database work an async framework awaits. It owns what the given client owns."""

    def __init__(self, checkpointer: SyncCheckpointer | Checkpointer | None) -> None:
        """Create the view.

        Args:
            checkpointer: Client, blocking or async. None uses the `default` database of the project.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        #: The given client, or that of the project.
        self.given: SyncCheckpointer | Checkpointer = SyncCheckpointer() if checkpointer is None else checkpointer
        #: Blocking client of the same store.
        self.sync: SyncCheckpointer = get_sync_client(self.given)
        if not isinstance(self.sync.backend, DatabaseBackend):
            raise InvalidInput("This adapter needs a database: a path, or a sqlite or postgresql URL.")
        #: Work of the client on its database.
        self.backend: DatabaseBackend = self.sync.backend

    @property
    def checkpointer_state(self) -> CheckpointerState:
        """State of the client, for a registry of tools."""
        return self.sync.checkpointer_state

    @property
    def store(self) -> Store:
        """State of the client, for work on the database."""
        return self.sync.store

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread. Argument and result are those of `run_on_thread`."""
        return await run_on_thread(self.given, work)

    async def run_database_work_to_end(self, work: Callable[[], T]) -> T:
        """Run database work to its end, even if this task is cancelled. The rest is as in `run_blocking`."""
        return await sync_and_async_flow_runners.run_flow_async(_build_transaction_flow(work), self.run_blocking)


def _run_and_disconnect(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()


def _build_transaction_flow(work: Callable[[], T]) -> Flow[T]:
    result: T = yield Transact(work)
    return result
