"""State of a checkpointer whose sessions are in a database of this process."""

from __future__ import annotations

from django.db.models import QuerySet

from checkpoints.constants import DEFAULT_WORKSPACE, LEASE_SECONDS
from checkpoints.db.connection import find_connection
from checkpoints.db.database_operation import database_operation
from checkpoints.exceptions import WorkspaceNotFound
from checkpoints.models import Workspace
from checkpoints.process_identity import ProcessIdentity
from checkpoints.store.client_state import Store


def _select_workspace_id(slug: str) -> QuerySet[Workspace, int]:
    return Workspace.objects.filter(slug=slug).values_list("pk", flat=True)


class DatabaseStore(Store):
    """State of a client with a connection of Django: the sessions it owns, and its workspace."""

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

        `workspace_id` is the primary key of the workspace, if the caller has it; otherwise it is looked up when needed.
        Raises `InvalidInput`, and `DatabaseNotConfigured` if the project has no connection `using`.
        """
        super().__init__(
            using, workspace, lease_seconds, idle_release_seconds, remote_process=remote_process, token=token
        )
        find_connection(using)
        self._workspace_id = workspace_id

    @property
    def workspace_id(self) -> int:
        if self._workspace_id is None:
            with database_operation(self.using, writes=False):
                self._workspace_id = _select_workspace_id(self.workspace).using(self.using).first()
            if self._workspace_id is None:
                raise WorkspaceNotFound(self.workspace)
        return self._workspace_id
