"""Folder with one file for each session: saved on demand or after every version, resumed by the session's id.

The database is authoritative; a file is a copy of it at the time of its last save.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from checkpoints import sync_and_async_flow_runners
from checkpoints.archive import session_export, session_import
from checkpoints.archive.archive_results import ExportedFile, ImportedSession
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import SessionNotFound
from checkpoints.formats import digests
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.resume import start_or_resume
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact, copy_docstring_from

if TYPE_CHECKING:
    from checkpoints.tools.registry_and_dispatch import ToolRegistry


class CheckpointerLike(Protocol):
    """Checkpointer of a database, blocking or async."""

    @property
    def checkpointer_state(self) -> CheckpointerState: ...

    @property
    def store(self) -> Store: ...


class AsyncCheckpointerLike(CheckpointerLike, Protocol):
    """Async checkpointer of a database."""

    @property
    def run_blocking(self) -> sync_and_async_flow_runners.RunBlocking: ...


class SessionDirectory:
    """Common part of the blocking and the async session files."""

    def __init__(self, store: Store, directory: str | Path, *, autosave: bool) -> None:
        """Use a folder for the sessions of a client.

        Args:
            store: State of the client.
            directory: Path of the folder.
            autosave: Whether to write a session's file after each version the client saves, and at its end.
        """
        self.store = store
        self.directory = Path(directory).absolute()
        if autosave:
            store.after_save.append(self._export_unaudited_after_save)

    def get_file_path(self, session_id: str) -> Path:
        """Return the path of a session's file. Its name is a digest: an identifier never becomes a path.

        Args:
            session_id: Identifier of the session.

        Returns:
            The path, whether or not the file exists.

        Raises:
            InvalidIdentifier: `session_id` cannot be an identifier.
        """
        digest = digests.digest_key_parts("session file", self.store.workspace, validate_id("session id", session_id))
        return self.directory / f"{digest[:40]}.session"

    def _export_unaudited_after_save(self, session_id: str) -> None:
        session_export.export_session(self.store, session_id, self.get_file_path(session_id), audited=False)

    def _export_session(self, session_id: str) -> ExportedFile:
        return session_export.export_session(self.store, session_id, self.get_file_path(session_id))

    def _import_session(self, session_id: str) -> ImportedSession:
        return session_import.import_session_file(self.store, self.get_file_path(session_id), session_id=session_id)

    def _import_if_missing_and_resume_flow(
        self, session_id: str, *, wait: bool, timeout: float | None, takeover: bool | str
    ) -> Flow[ResumePoint]:
        yield Transact(partial(self._import_if_missing, session_id))
        return (
            yield from start_or_resume.resume_session_flow(
                self.store, session_id, wait=wait, timeout=timeout, takeover=takeover
            )
        )

    def _import_if_missing(self, session_id: str) -> None:
        """Import the session's file unless the session is in the database, which is never older than the file."""
        with database_operation(self.store.using, writes=False):
            try:
                look_up_and_lock_rows.get_session(self.store, session_id)
            except SessionNotFound:
                if not self.get_file_path(session_id).exists():
                    raise
            else:
                return
        self._import_session(session_id)


class SyncSessionFiles(SessionDirectory):
    """Folder with one file per session, blocking."""

    def __init__(self, checkpointer: CheckpointerLike, directory: str | Path, *, autosave: bool = False) -> None:
        """Use a folder for the sessions of a client.

        Args:
            checkpointer: The client.
            directory: Path of the folder; it is created with the first file.
            autosave: Whether to write a session's file after each version this client saves, and at its end. One that
                fails raises `FileNotWritten` out of the save, whose version is in the database then.

        Raises:
            NotOverHttp: The client is one of a server.
        """
        super().__init__(checkpointer.store, directory, autosave=autosave)
        self._checkpointer = checkpointer

    def save(self, session_id: str) -> ExportedFile:
        """Write a session to its file.

        Args:
            session_id: Identifier of the session.

        Returns:
            The path of the file, the session and its newest version, the size in bytes and the digest.

        Raises:
            SessionNotFound: There is no such session.
            FileNotWritten: The file could not be written; one that was there is unchanged.
        """
        return self._export_session(session_id)

    def load(self, session_id: str) -> ImportedSession:
        """Import a session from its file. On any error nothing is imported.

        Args:
            session_id: Identifier of the session.

        Returns:
            The identifier of the session, its newest version, and how many calls a person has to decide about.

        Raises:
            FileNotReadable: The file cannot be read.
            FileDamaged: The file is not a complete session.
            SchemaFromFuture: A newer version of this library wrote the file.
            WrongSession: The file holds another session.
            WrongWorkspace: The file comes from a workspace of another name.
            SessionExists: The session is in the database already.
            ImportConflict: Part of it is in the database already, under another session.
        """
        return self._import_session(session_id)

    def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """Resume a session from the database, or from its file where the database does not have it.

        Args:
            session_id: Identifier of the session.
            registry: Tools of the agent; it is bound to this session.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired` at once.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The transcript, plan, budget and more to continue from.

        Raises:
            SessionNotFound: The session is neither in the database nor in a file.
            FileNotReadable: The file cannot be read.
            FileDamaged: The file is not a complete session.
            SessionBusy: Another run owns the session and is alive.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            OwnershipLost: Another run took the session over meanwhile.
        """
        if registry is not None:
            registry.bind(self._checkpointer, session_id)
        return sync_and_async_flow_runners.run_flow(
            self._import_if_missing_and_resume_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        )


class SessionFiles(SessionDirectory):
    """Folder with one file per session, async."""

    @copy_docstring_from(SyncSessionFiles.__init__)
    def __init__(self, checkpointer: AsyncCheckpointerLike, directory: str | Path, *, autosave: bool = False) -> None:
        super().__init__(checkpointer.store, directory, autosave=autosave)
        self._checkpointer = checkpointer

    @copy_docstring_from(SyncSessionFiles.save)
    async def save(self, session_id: str) -> ExportedFile:
        return await self._checkpointer.run_blocking(partial(self._export_session, session_id))  # type: ignore[no-any-return]

    @copy_docstring_from(SyncSessionFiles.load)
    async def load(self, session_id: str) -> ImportedSession:
        return await self._checkpointer.run_blocking(partial(self._import_session, session_id))  # type: ignore[no-any-return]

    @copy_docstring_from(SyncSessionFiles.resume)
    async def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> ResumePoint:
        if registry is not None:
            registry.bind(self._checkpointer, session_id)
        flow = self._import_if_missing_and_resume_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await sync_and_async_flow_runners.run_flow_async(flow, self._checkpointer.run_blocking)
