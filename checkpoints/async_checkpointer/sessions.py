"""Beginning, ending, copying and removing sessions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from checkpoints import flows
from checkpoints.async_checkpointer.hopping import Hopping
from checkpoints.files.exporting import ExportedFile
from checkpoints.files.importing import ImportedSession
from checkpoints.models import Run
from checkpoints.resuming import gate
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.starting import Description
from checkpoints.saving.pruning import Removed
from checkpoints.session_handle import Opening, SessionHandle
from checkpoints.tools.registry import ToolRegistry


class Sessions(Hopping):
    async def start_session(
        self,
        session_id: str,
        user_message: str = "",
        system_prompt: str | None = None,
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        takeover: bool | str = False,
    ) -> Run:
        description = Description(user_message, agent, title, scratchpad_root, metadata, labels)
        flow = gate.start_flow(self.store, session_id, description, takeover=takeover)
        return await flows.adrive(flow, self.hop)

    def session(
        self,
        session_id: str,
        user_message: str = "",
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        registry: ToolRegistry | None = None,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> SessionHandle:
        """`SyncCheckpointer.session` for `async with`: not a coroutine itself."""
        description = Description(user_message, agent, title, scratchpad_root, metadata, labels)
        return SessionHandle(self, session_id, Opening(description, registry, wait, timeout, takeover))

    async def release_session(self, session_id: str) -> bool:
        return await self.hop(partial(self.sync.release_session, session_id))

    async def list_sessions(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        updated_before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        return await self.hop(
            partial(
                self.sync.list_sessions,
                status=status,
                agent=agent,
                label=label,
                updated_before=updated_before,
                after=after,
                limit=limit,
            )
        )

    async def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        await self.hop(partial(self.sync.finish_session, session_id, status, result))

    async def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None = None,
        actor: Actor | str | None = None,
    ) -> int:
        return await self.hop(partial(self.sync.fork_session, session_id, new_session_id, version=version, actor=actor))

    async def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        return await self.hop(partial(self.sync.export_session, session_id, path))

    async def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        return await self.hop(partial(self.sync.import_session, path, session_id=session_id))

    async def delete_session(self, session_id: str, *, dry_run: bool = False) -> Removed:
        return await self.hop(partial(self.sync.delete_session, session_id, dry_run=dry_run))
