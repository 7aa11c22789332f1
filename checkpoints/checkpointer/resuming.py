"""Going on with sessions, and with workflows in them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from checkpoints import flows
from checkpoints.resuming import gate, sweeping
from checkpoints.resuming.gate import ResumePoint
from checkpoints.saving.store import Store
from checkpoints.tools.registry import ToolRegistry
from checkpoints.workflows.journal import SyncWorkflow


class Resuming:
    store: Store

    def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """Own the session, pass the gate, and return where to go on.

        Read-only calls that were interrupted are discarded, verify hooks of `registry` settle what they can, and
        what remains unknown raises `ReviewRequired`; with `wait`, that only happens after `timeout` seconds (None:
        never). A finished session returns its result and runs nothing. Raises `SessionNotFound`, `SessionBusy`,
        `CheckpointCorrupted`, `SchemaFromFuture`, and `OwnershipLost` where another run takes the session over on the
        way.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return flows.drive(gate.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def resume_run(
        self,
        run_id: str | UUID,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """`resume` for who has kept the id of a run: a new run, linked to the last one of its session, goes on with
        everything that was used up carried forward. Raises `RunNotFound`, and what `resume` raises."""
        session_id = gate.session_of(self.store, run_id)
        return self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        """What a resume would do now: `version`, `finished`, `pending_response`, and the calls to `replay`, `run` and
        `ask` about. Changes nothing."""
        return gate.preview(self.store, session_id)

    def sweep_lost_runs(self, *, limit: int = sweeping.LIMIT) -> list[str]:
        """End runs of this workspace that are gone, and interrupt what they had issued, so that people see it before
        anybody resumes. A run is gone when its lease has run out, and on this machine when its process is. Returns the
        ids of their sessions. Any number of processes may do this at once."""
        return sweeping.sweep_lost_runs(self.store, limit=limit)

    def workflow(self, session_id: str, workflow_id: str) -> SyncWorkflow:
        """Open the journal of a workflow, or begin one, in a session this checkpointer owns: one pass through it.

        Raises `NotOwner`, and `SchemaFromFuture` or `CheckpointCorrupted` where the journal cannot be read: then none
        of its steps runs.
        """
        return SyncWorkflow(self.store, session_id, workflow_id)
