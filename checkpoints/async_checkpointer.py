"""The async checkpointer: the blocking one behind one thread hop for each whole operation."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import conf, flows, opening
from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.enums import Phase
from checkpoints.exceptions import CheckpointerClosed
from checkpoints.files.exporting import ExportedFile
from checkpoints.files.importing import ImportedSession
from checkpoints.models import DEFAULT_WORKSPACE, Run
from checkpoints.peers import cancelling, deadlines, listing, taking, telling
from checkpoints.peers.answers import Answer
from checkpoints.peers.telling import Tell
from checkpoints.peers.values import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.resuming import gate, sweeping
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.gate import ResumePoint
from checkpoints.runs.details import PhaseDetails
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import phases
from checkpoints.saving.pruning import Removed
from checkpoints.saving.state import UNCHANGED, Unchanged
from checkpoints.saving.store import Store
from checkpoints.tools.registry import ToolRegistry
from checkpoints.workflows.journal import Workflow

T = TypeVar("T")

#: Threads, and therefore connections, that one checkpointer uses at most.
WORKERS = 8


class Checkpointer:
    """`SyncCheckpointer` with async methods of the same names and meanings.

    Each operation is one hop to a thread of an executor that this object owns. Cancelling a caller never leaves a
    half-made write: an operation that has begun is finished first.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
    ) -> None:
        if url is not None:
            with ThreadPoolExecutor(1) as opener:  # Django refuses to open databases on an event loop's thread
                using = opener.submit(_opened, url, migrate).result()
        self.sync = SyncCheckpointer(using=using, workspace=workspace, lease_seconds=lease_seconds)
        self._closed = False
        self._connections: list[BaseDatabaseWrapper] = []
        self._executor = ThreadPoolExecutor(
            WORKERS, thread_name_prefix="harness", initializer=_remember, initargs=(using, self._connections)
        )
        weakref.finalize(self, self._executor.shutdown, wait=False)

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        migrate: bool | None = None,
    ) -> Self:
        return cls(url, workspace=workspace, lease_seconds=lease_seconds, migrate=migrate)

    @property
    def store(self) -> Store:
        return self.sync.store

    async def hop(self, work: Callable[[], T]) -> T:
        """Run blocking work on this checkpointer's executor. It is finished even when the caller is cancelled."""
        if self._closed:
            raise CheckpointerClosed
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, work))

    async def close(self) -> None:
        """Give up the sessions this checkpointer owns, its threads and its connections. Once is enough."""
        if self._closed:
            return
        await self.hop(self.sync.close)
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._executor.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # sessions and checkpoints

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
        takeover: bool = False,
    ) -> Run:
        return await self.hop(
            partial(
                self.sync.start_session,
                session_id,
                user_message,
                system_prompt,
                agent=agent,
                title=title,
                scratchpad_root=scratchpad_root,
                metadata=metadata,
                labels=labels,
                takeover=takeover,
            )
        )

    async def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | None,
        budget_spent_usd: float | Decimal,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        return await self.hop(
            partial(
                self.sync.save_checkpoint,
                session_id,
                transcript,
                plan,
                budget_spent_usd,
                phase=phase,
                usage=usage,
                payload=payload,
                expected_version=expected_version,
            )
        )

    async def append_checkpoint(
        self,
        session_id: str,
        new_messages: list[dict[str, Any]],
        *,
        expected_version: int,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        return await self.hop(
            partial(
                self.sync.append_checkpoint,
                session_id,
                new_messages,
                expected_version=expected_version,
                plan=plan,
                budget_spent_usd=budget_spent_usd,
                usage=usage,
                phase=phase,
                payload=payload,
            )
        )

    async def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        return await self.hop(
            partial(
                self.sync.save_phase,
                session_id,
                details,
                snapshot=snapshot,
                transcript=transcript,
                plan=plan,
                expected_version=expected_version,
            )
        )

    async def import_record(
        self, session_id: str, record: dict[str, Any], *, run_id: str | None = None
    ) -> phases.ImportedRecord:
        return await self.hop(partial(self.sync.import_record, session_id, record, run_id=run_id))

    async def load_latest(self, session_id: str) -> dict[str, Any] | None:
        return await self.hop(partial(self.sync.load_latest, session_id))

    async def load(self, session_id: str, version: int) -> dict[str, Any]:
        return await self.hop(partial(self.sync.load, session_id, version))

    async def list_checkpoints(
        self, session_id: str, *, before: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.list_checkpoints, session_id, before=before, limit=limit))

    async def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        await self.hop(partial(self.sync.finish_session, session_id, status, result))

    async def fork_session(self, session_id: str, new_session_id: str, *, version: int | None = None) -> int:
        return await self.hop(partial(self.sync.fork_session, session_id, new_session_id, version=version))

    async def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        return await self.hop(partial(self.sync.export_session, session_id, path))

    async def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        return await self.hop(partial(self.sync.import_session, path, session_id=session_id))

    async def delete_checkpoint(self, session_id: str, version: int) -> Removed:
        return await self.hop(partial(self.sync.delete_checkpoint, session_id, version))

    async def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Removed:
        return await self.hop(
            partial(
                self.sync.prune,
                session_id,
                keep_last=keep_last,
                keep_every=keep_every,
                older_than=older_than,
                dry_run=dry_run,
            )
        )

    async def delete_session(self, session_id: str, *, dry_run: bool = False) -> Removed:
        return await self.hop(partial(self.sync.delete_session, session_id, dry_run=dry_run))

    # the tool-call log

    async def record_tool_call_issued(
        self,
        session_id: str,
        call_id: str,
        tool_name: str,
        args: dict[str, Any],
        idempotency_key: str,
        *,
        side_effects: Iterable[str] = ("mutate",),
        step: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.record_tool_call_issued,
                session_id,
                call_id,
                tool_name,
                args,
                idempotency_key,
                side_effects=side_effects,
                step=step,
            )
        )

    async def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        await self.hop(partial(self.sync.record_tool_call_result, session_id, call_id, result_text, success, step=step))

    async def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        return await self.hop(partial(self.sync.find_completed_call, idempotency_key))

    async def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.pending_tool_calls, session_id))

    # resuming

    async def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool = False,
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
        takeover: bool = False,
    ) -> ResumePoint:
        session_id = await self.hop(partial(gate.session_of, self.store, run_id))
        return await self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    async def preview_resume(self, session_id: str) -> dict[str, Any]:
        return await self.hop(partial(self.sync.preview_resume, session_id))

    async def sweep_lost_runs(self, *, limit: int = sweeping.LIMIT) -> list[str]:
        return await self.hop(partial(self.sync.sweep_lost_runs, limit=limit))

    # other agents

    async def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        return await self.hop(partial(self.sync.pause_for_peers, session_id, state, joins))

    async def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        return await self.hop(
            partial(self.sync.accept_response, peer_call_id, result, session_id=session_id, peer=peer, token=token)
        )

    async def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool = False,
    ) -> TakenTask:
        if registry is not None:
            registry.bind(self, session_id)
        flow = taking.take_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await flows.adrive(flow, self.hop)

    async def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        return await self.hop(partial(self.sync.extend_deadline, peer_call_id, deadline))

    async def cancel_paused(self, session_id: str, *, tell: Tell | None = None, reason: str = "") -> Told:
        return await flows.adrive(cancelling.cancel_flow(self.store, session_id, tell=tell, reason=reason), self.hop)

    async def tell_peers(self, tell: Tell, *, limit: int = telling.LIMIT) -> Told:
        return await flows.adrive(telling.tell_flow(self.store, tell, limit=limit), self.hop)

    async def sweep_deadlines(self, *, limit: int = deadlines.LIMIT) -> Swept:
        return await self.hop(partial(self.sync.sweep_deadlines, limit=limit))

    async def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = listing.LIMIT
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.list_paused, ready=ready, agent=agent, limit=limit))

    async def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.peer_calls, session_id))

    # workflows

    async def workflow(self, session_id: str, workflow_id: str) -> Workflow:
        return await self.hop(partial(Workflow, self.store, session_id, workflow_id, self.hop))

    # decisions

    async def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        return await self.hop(
            partial(self.sync.verify_call, session_id, call_id, actor=actor, step=step, attempt=attempt)
        )

    async def confirm_landed(
        self,
        session_id: str,
        call_id: str,
        result_text: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.confirm_landed,
                session_id,
                call_id,
                result_text,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def mark_failed(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.mark_failed,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def approve_rerun(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.approve_rerun,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def approve_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.approve_call,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def edit_call(
        self,
        session_id: str,
        call_id: str,
        new_args: dict[str, Any],
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.edit_call,
                session_id,
                call_id,
                new_args,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def reject_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.reject_call,
                session_id,
                call_id,
                message,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def respond_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.respond_call,
                session_id,
                call_id,
                message,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )


async def check_pending_tool_calls(checkpointer: Checkpointer, session_id: str) -> list[dict[str, Any]]:
    """Calls that were issued and have no outcome: what a resume has to find out about, oldest first."""
    return await checkpointer.pending_tool_calls(session_id)


def _opened(url: str | Path, migrate: bool | None) -> str:
    alias = opening.opened(url, migrate=migrate)
    connections[alias].close()
    return alias


def _remember(using: str, opened: list[BaseDatabaseWrapper]) -> None:
    """Let a worker's connection be closed from another thread once the worker has ended."""
    connection = connections[using]
    connection.inc_thread_sharing()
    opened.append(connection)
