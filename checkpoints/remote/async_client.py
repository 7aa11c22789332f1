"""Async client over HTTP: each method runs the one of `SyncRemoteCheckpointer` on a thread, as one operation."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from checkpoints import constants
from checkpoints.aio import Checkpointer, derive_async_method
from checkpoints.client import SyncCheckpointer
from checkpoints.models import DEFAULT_WORKSPACE
from checkpoints.remote.sync_client import SyncRemoteCheckpointer

#: Threads, and therefore requests at one time.
WORKERS: Final = 16


class RemoteCheckpointer(Checkpointer):
    """Async client for the sessions in the workspace of a token: what `Checkpointer("https://…", token=…)` creates."""

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> None:
        """Create a client of a server. Arguments and errors are those of `SyncRemoteCheckpointer`."""
        self.sync = SyncRemoteCheckpointer(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            using=using,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
            token=token,
        )
        self.backend = self.sync.backend
        self._closed = False
        self._connections = []
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="harness-http")
        weakref.finalize(self, self._executor.shutdown, wait=False)

    # What the async client of a database composes of its own parts is one request here.
    verify_call = derive_async_method(SyncCheckpointer.verify_call)
