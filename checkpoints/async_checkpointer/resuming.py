"""Going on with sessions, and with workflows in them."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from checkpoints import flows
from checkpoints.async_checkpointer.hopping import Hopping
from checkpoints.resuming import gate, sweeping
from checkpoints.resuming.gate import ResumePoint
from checkpoints.tools.registry import ToolRegistry
from checkpoints.workflows.journal import Workflow


class Resuming(Hopping):
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
            registry.bind(self, session_id)
        flow = gate.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await flows.adrive(flow, self.hop)

    async def resume_run(
        self,
        run_id: str | UUID,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> ResumePoint:
        session_id = await self.hop(partial(gate.session_of, self.store, run_id))
        return await self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    async def preview_resume(self, session_id: str) -> dict[str, Any]:
        return await self.hop(partial(self.sync.preview_resume, session_id))

    async def sweep_lost_runs(self, *, limit: int = sweeping.LIMIT) -> list[str]:
        return await self.hop(partial(self.sync.sweep_lost_runs, limit=limit))

    async def workflow(self, session_id: str, workflow_id: str) -> Workflow:
        return await self.hop(partial(Workflow, self.store, session_id, workflow_id, self.hop))
