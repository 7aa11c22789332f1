"""A folder with one file for each session: saved by hand or after every version, resumed by the session's id.

The database is what survives; a file is a copy of it, as old as its last saving. What happened since is not in it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from checkpoints import flows
from checkpoints.exceptions import SessionNotFound
from checkpoints.files import exporting, importing
from checkpoints.files.exporting import ExportedFile
from checkpoints.files.importing import ImportedSession
from checkpoints.flows import Flow, Transact
from checkpoints.ids import checked
from checkpoints.resuming import gate
from checkpoints.resuming.gate import ResumePoint
from checkpoints.saving import lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests

if TYPE_CHECKING:
    from checkpoints.tools.registry import HasStore, ToolRegistry


class HasHop(Protocol):
    """An async checkpointer."""

    @property
    def store(self) -> Store: ...

    @property
    def hop(self) -> flows.Hop: ...


class Folder:
    """What the blocking and the async session files share."""

    def __init__(self, store: Store, directory: str | Path, *, autosave: bool) -> None:
        self.store = store
        self.directory = Path(directory).absolute()
        if autosave:
            store.after_save.append(self._autosave)

    def path(self, session_id: str) -> Path:
        """Where the file of a session is. Its name is a digest: an id never becomes a path."""
        place = digests.key_digest("session file", self.store.workspace, checked("session id", session_id))
        return self.directory / f"{place[:40]}.session"

    def _autosave(self, session_id: str) -> None:
        exporting.export(self.store, session_id, self.path(session_id), audited=False)

    def _save(self, session_id: str) -> ExportedFile:
        return exporting.export(self.store, session_id, self.path(session_id))

    def _load(self, session_id: str) -> ImportedSession:
        return importing.import_file(self.store, self.path(session_id), session_id=session_id)

    def _resume_flow(
        self, session_id: str, *, wait: bool, timeout: float | None, takeover: bool | str
    ) -> Flow[ResumePoint]:
        yield Transact(partial(self._fetch, session_id))
        return (yield from gate.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def _fetch(self, session_id: str) -> None:
        """Make sure that the session is in the database; where it is, its file has nothing to add."""
        with operation(self.store.using, writes=False):
            try:
                lookup.session(self.store, session_id)
            except SessionNotFound:
                if not self.path(session_id).exists():
                    raise
            else:
                return
        self._load(session_id)


class SyncSessionFiles(Folder):
    """Session files, blocking."""

    def __init__(self, checkpointer: HasStore, directory: str | Path, *, autosave: bool = False) -> None:
        """With `autosave` the file of a session is written after each version this checkpointer saves, and at its end.

        An autosave that fails raises `FileNotWritten` out of the save, whose version is in the database then.
        """
        super().__init__(checkpointer.store, directory, autosave=autosave)
        self._checkpointer = checkpointer

    def save(self, session_id: str) -> ExportedFile:
        """Raises `SessionNotFound`, `FileNotWritten`."""
        return self._save(session_id)

    def load(self, session_id: str) -> ImportedSession:
        """Take the session over from its file. Raises what `import_session` raises."""
        return self._load(session_id)

    def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """Resume a session by its id: from the database, or from its file where the database does not have it.

        Raises what `import_session` and `resume` raise.
        """
        if registry is not None:
            registry.bind(self._checkpointer, session_id)
        return flows.drive(self._resume_flow(session_id, wait=wait, timeout=timeout, takeover=takeover))


class SessionFiles(Folder):
    """Session files, async."""

    def __init__(self, checkpointer: HasHop, directory: str | Path, *, autosave: bool = False) -> None:
        super().__init__(checkpointer.store, directory, autosave=autosave)
        self._checkpointer = checkpointer

    async def save(self, session_id: str) -> ExportedFile:
        return await self._checkpointer.hop(partial(self._save, session_id))  # type: ignore[no-any-return]

    async def load(self, session_id: str) -> ImportedSession:
        return await self._checkpointer.hop(partial(self._load, session_id))  # type: ignore[no-any-return]

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
        flow = self._resume_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await flows.adrive(flow, self._checkpointer.hop)
