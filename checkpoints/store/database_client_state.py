"""State, in memory, of a checkpointer whose sessions are in a database to which this process connects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db import connections
from django.db.models import QuerySet

from checkpoints.constants import DEFAULT_WORKSPACE, LEASE_SECONDS
from checkpoints.db.connection import get_supported_connection
from checkpoints.db.related_rows_database_router import put_library_router_first
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import InvalidInput, WorkspaceNotFound
from checkpoints.models import Workspace
from checkpoints.process_identity_and_liveness import ProcessIdentity
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.store.version_state_types import VersionState


def _select_workspace_id(slug: str) -> QuerySet[Workspace, int]:
    return Workspace.objects.filter(slug=slug).values_list("pk", flat=True)


@dataclass(frozen=True)
class UnconfirmedAppend:
    """Append without a run whose answer was lost: the version it started from, its end, and its state."""

    expected: int
    length: int
    chain: bytes
    state: VersionState
    #: Time of its last message, which distinguishes it from an equal append of another writer; None if it has none.
    created_at: datetime | None


class Store(CheckpointerState):
    """State of a client whose sessions are in a database: its connection of Django, its workspace and what it owns.

    The functions of this library that work on a database take it as first argument.
    """

    has_database = True

    def __init__(
        self,
        using: str = "default",
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = LEASE_SECONDS,
        idle_release_seconds: float | None = None,
        *,
        remote_process: ProcessIdentity | None = None,
        token: str = "",
        workspace_id: int | None = None,
    ) -> None:
        """Create the state of a client.

        `remote_process` is the process for which sessions are owned if it is not this one: it renews its leases by
        requests, so that this process neither renews them nor answers for them when it ends. `token` is then its name,
        the same in every process that serves it. `workspace_id` is the primary key of the workspace, if the caller has
        it; otherwise it is looked up when needed.
        Raises `InvalidInput`, `DatabaseNotConfigured` if the project has no connection `using`, and `TimesNotInUtc`.
        """
        if not lease_seconds > 0:
            raise InvalidInput(f"lease_seconds is {lease_seconds}; it has to be more than 0.")
        get_supported_connection(using)
        put_library_router_first()
        self.using = using
        self.workspace = workspace
        self.lease = timedelta(seconds=lease_seconds)
        self.remote_process = remote_process
        #: Append without a run whose answer was lost and that could not be read back yet, by session.
        self.unconfirmed_appends: dict[str, UnconfirmedAppend] = {}
        if workspace_id is not None:
            self.workspace_id = workspace_id
        super().__init__(idle_release_seconds, token=token)

    def close_thread_connections(self) -> None:
        connections.close_all()

    @cached_property
    def workspace_id(self) -> int:
        """Primary key of the workspace. Raises `WorkspaceNotFound`."""
        with database_operation(self.using, writes=False):
            workspace_id = _select_workspace_id(self.workspace).using(self.using).first()
        if workspace_id is None:
            raise WorkspaceNotFound(self.workspace)
        return workspace_id

    def is_issued_call_no_longer_executing(self, call_pk: int) -> bool:
        """Return whether nobody executes a call any more that a run of this store has issued and not settled.

        Several server processes serve a run of a remote client. A call that this one has not issued was issued by
        another one, and is executed by the client.
        """
        is_known = self.remote_process is None or call_pk in self.issued
        return is_known and call_pk not in self.executing
