"""The blocking checkpointer: the whole public interface of a session, one method for each thing one can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from checkpoints import conf, opening
from checkpoints.checkpointer.decisions import Decisions
from checkpoints.checkpointer.peers import Peers
from checkpoints.checkpointer.resuming import Resuming
from checkpoints.checkpointer.sessions import Sessions
from checkpoints.checkpointer.tool_calls import ToolCalls
from checkpoints.checkpointer.versions import Versions
from checkpoints.models import DEFAULT_WORKSPACE
from checkpoints.resuming import starting
from checkpoints.saving.store import Store


class SyncCheckpointer(Sessions, Versions, ToolCalls, Resuming, Peers, Decisions):
    """Sessions in one workspace of one database.

    Inside a Django project it uses the connection `using`; with a path or URL as first argument it is the same as
    `open`. Sessions it has started or resumed are its own until `release_session` or `close`; a `with` block closes
    it. Safe to use from many threads; a child process needs its own.

    Every method can raise `StorageError` and its kinds; all errors derive from `CheckpointsError`.
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
        """A checkpointer for one workspace.

        `lease_seconds`: a run that gives no sign of life for so long counts as lost. `idle_release_seconds`: a session
        that nothing was done with for so long is released by itself (None: never); the next write to it raises
        `ReleasedWhenIdle`. Raises `InvalidInput`, `InvalidDatabaseUrl`.
        """
        if url is not None:
            using = opening.opened(url, migrate=migrate)
        self.store = Store(using, workspace, lease_seconds, idle_release_seconds)

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
        """A checkpointer for `sqlite:///path`, a path, or `postgresql://…`, in a Django project or a plain script.

        A SQLite file is created and migrated; PostgreSQL only with `migrate=True`. Raises `InvalidDatabaseUrl`.
        """
        return cls(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
        )

    def close(self) -> None:
        """Give up the sessions this checkpointer owns, so that another process can go on at once."""
        starting.release(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_pending(checkpointer: SyncCheckpointer, session_id: str) -> list[dict[str, Any]]:
    """The blocking twin of `check_pending_tool_calls`."""
    return checkpointer.pending_tool_calls(session_id)
