"""Save versions in the background (write-behind). A version is reported as durable only when it is.

Only versions may be delayed; calls and their results never are. An operation that depends on a version writes it first:
an intent, a version that is saved directly, a pause, the end of the session. A full queue blocks the agent and loses
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self

from checkpoints import sync_and_async_flow_runners
from checkpoints.enums import Phase
from checkpoints.loop_state import snapshot_and_phase_payload_codec as payloads
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange, VersionState
from checkpoints.sync_and_async_flow_runners import copy_docstring_from
from checkpoints.versions import save_phase_version, save_version
from checkpoints.versions.queued_snapshots import SnapshotRequest, Ticket
from checkpoints.versions.save_cadence import ENDING_PHASES, Cadence
from checkpoints.versions.writer_thread import BackgroundWriter

QUEUE_SIZE = 1024
FLUSH_TIMEOUT_SECONDS = 10.0
_EVERY_SNAPSHOT = Cadence.every_call()


class CheckpointerLike(Protocol):
    """Checkpointer, blocking or async."""

    @property
    def store(self) -> Store: ...


class AsyncCheckpointerLike(CheckpointerLike, Protocol):
    """Async checkpointer."""

    @property
    def run_blocking(self) -> sync_and_async_flow_runners.RunBlocking: ...


class SyncWriteBehind:
    """Background writer of the versions of one client, on a thread of its own, blocking interface.

    Closing this, or the client, flushes.
    """

    def __init__(
        self,
        checkpointer: CheckpointerLike,
        *,
        cadence: Cadence = _EVERY_SNAPSHOT,
        coalesce: bool = True,
        queue: int = QUEUE_SIZE,
        flush_timeout: float = FLUSH_TIMEOUT_SECONDS,
    ) -> None:
        """Start to write versions of a client behind.

        Args:
            checkpointer: The client, blocking or async.
            cadence: Which snapshots are saved as they come. Left out: each.
            coalesce: Whether a snapshot replaces an unsaved one of the same step and phase.
            queue: Largest number of snapshots that wait.
            flush_timeout: Longest wait for the database in seconds.

        Raises:
            InvalidInput: A number is not positive, or the client is written behind already.
            NotOverHttp: The client is one of a server.
        """
        self.store = checkpointer.store
        self._behind = BackgroundWriter(
            self.store, cadence=cadence, coalesce=coalesce, queue=queue, flush_timeout=flush_timeout
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        step: int | None = None,
    ) -> Ticket:
        """Hand in the whole transcript, as it is now, to be saved as the next version.

        The end of a run and a pause are durable when this returns.

        Args:
            session_id: Identifier of a session the client owns.
            transcript: All messages, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as it was handed in last.
            budget_spent_usd: Total spent so far in the whole session, in US dollars, not what this version adds.
                Left out, it stays.
            phase: Phase of the run, a value of `Phase`.
            usage: Token usage of this version alone, a JSON object.
            payload: JSON object that belongs to this version alone.
            step: Step of the loop: a later snapshot of the same step and phase may replace this one.

        Returns:
            A ticket whose `durable` and `version` tell when the version is saved.

        Raises:
            NotDurable: Earlier versions could not be saved, or the queue stays full.
            NotOwner: The client does not own the session.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
        """
        state = self._resolve_snapshot_state(
            session_id, VersionChange(plan, budget_spent_usd, usage, phase, payload).to_state_or_unresolved_change()
        )
        return self._queue_snapshot_and_flush_at_run_end(
            self._require_owned_and_build_snapshot_request(session_id, transcript, state, payload, step)
        )

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
    ) -> Ticket:
        """Hand in a version at a phase of the run; what is left out stays as it was.

        Args:
            session_id: Identifier of a session the client owns.
            details: Phase with its details.
            snapshot: State of the loop, valid until the next one.
            transcript: All messages, oldest first. None: as handed in last.
            plan: JSON object with the agent's plan.

        Returns:
            A ticket whose `durable` and `version` tell when the version is saved.

        Raises:
            NotDurable: Earlier versions could not be saved, or the queue stays full.
            NotOwner: The client does not own the session.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
        """
        owned_session = self.store.find_owned_session(
            session_id
        ) or look_up_and_lock_rows.flush_and_require_owned_session(self.store, session_id)
        newest = self._behind.find_last_enqueued_snapshot(session_id)
        if newest is None and transcript is None:
            version = save_phase_version.save_phase_version(
                self.store, session_id, details, snapshot=snapshot, plan=plan
            )
            return Ticket(session_id, version)
        state = self._resolve_snapshot_state(
            session_id,
            save_phase_version.build_phase_version_change(self.store, owned_session, details, snapshot, plan),
        )
        step = None if snapshot is None else snapshot.step
        return self._queue_snapshot_and_flush_at_run_end(
            SnapshotRequest(session_id, transcript, state, step, light=snapshot is None)
        )

    def _resolve_snapshot_state(self, session_id: str, change: VersionState | VersionChange) -> VersionState:
        """Return the state of a snapshot beside its transcript; kept values are those handed in or saved last."""
        if isinstance(change, VersionState):
            return change
        newest = self._behind.find_last_enqueued_snapshot(session_id)
        if newest is not None:
            return change.apply_to(newest[1])
        owned_session = self.store.find_owned_session(
            session_id
        ) or look_up_and_lock_rows.flush_and_require_owned_session(self.store, session_id)
        return change.apply_to(
            save_version.get_or_load_newest_version_state(self.store, owned_session, owned_session.head)
        )

    def _queue_snapshot_and_flush_at_run_end(self, request: SnapshotRequest) -> Ticket:
        """Hand in a snapshot, and flush if it ends or pauses the run."""
        ticket = self._behind.enqueue_snapshot(request)
        if request.state.phase in ENDING_PHASES:
            self._behind.flush(request.session_id)
        return ticket

    def _require_owned_and_build_snapshot_request(
        self,
        session_id: str,
        transcript: Sequence[dict[str, Any]],
        state: VersionState,
        payload: dict[str, Any] | None,
        step: int | None,
    ) -> SnapshotRequest:
        if self.store.find_owned_session(session_id) is None:
            look_up_and_lock_rows.flush_and_require_owned_session(self.store, session_id)
        kind = payloads.find_payload_schema_key(session_id, payload)
        if step is None and kind == payloads.SNAPSHOT_KEY and payload is not None:
            step = payload.get("step")
        return SnapshotRequest(session_id, transcript, state, step, light=kind == payloads.PHASE_KEY)

    def flush(self, session_id: str | None = None, *, timeout: float | None = None) -> None:
        """Wait until everything of a session, or of all, is durable.

        Args:
            session_id: Identifier of the session. None: all.
            timeout: Longest wait in seconds. None: `flush_timeout`.

        Raises:
            NotDurable: What it names is not saved. What can never be saved is forgotten; the rest is tried again.
        """
        self._behind.flush(session_id, timeout)

    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """List what is not durable yet, oldest first.

        Args:
            session_id: Identifier of the session. None: all.

        Returns:
            One dict per snapshot: session_id, phase, step, messages, waited_seconds, kept_back.
        """
        return self._behind.list_unsaved_versions(session_id)

    def close(self) -> None:
        """Flush, and accept nothing more.

        Raises:
            NotDurable: The versions it names are not saved.
        """
        self._behind.close()


class WriteBehind:
    """Background writer of the versions of one async client: `SyncWriteBehind` with async methods."""

    @copy_docstring_from(SyncWriteBehind.__init__)
    def __init__(
        self,
        checkpointer: AsyncCheckpointerLike,
        *,
        cadence: Cadence = _EVERY_SNAPSHOT,
        coalesce: bool = True,
        queue: int = QUEUE_SIZE,
        flush_timeout: float = FLUSH_TIMEOUT_SECONDS,
    ) -> None:
        self.sync = SyncWriteBehind(
            checkpointer, cadence=cadence, coalesce=coalesce, queue=queue, flush_timeout=flush_timeout
        )
        self._checkpointer = checkpointer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @copy_docstring_from(SyncWriteBehind.save_checkpoint)
    async def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        step: int | None = None,
    ) -> Ticket:
        save = partial(
            self.sync.save_checkpoint,
            session_id,
            transcript,
            plan,
            budget_spent_usd,
            phase=phase,
            usage=usage,
            payload=payload,
            step=step,
        )
        return await self._checkpointer.run_blocking(save)  # type: ignore[no-any-return]

    @copy_docstring_from(SyncWriteBehind.save_phase)
    async def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
    ) -> Ticket:
        save = partial(self.sync.save_phase, session_id, details, snapshot=snapshot, transcript=transcript, plan=plan)
        return await self._checkpointer.run_blocking(save)  # type: ignore[no-any-return]

    @copy_docstring_from(SyncWriteBehind.flush)
    async def flush(self, session_id: str | None = None, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._checkpointer.run_blocking(partial(self.sync.flush, session_id, timeout=timeout))

    @copy_docstring_from(SyncWriteBehind.unsaved)
    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        return self.sync.unsaved(session_id)

    @copy_docstring_from(SyncWriteBehind.close)
    async def close(self) -> None:
        await self._checkpointer.run_blocking(self.sync.close)
