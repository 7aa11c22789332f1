"""Saving versions behind the agent's back, honestly: nothing is called durable that is not.

Only versions may wait; calls and their results never do. Whatever depends on a version writes it first: an intent, a
version that is saved directly, a pause, the end of the session. A full queue makes the agent wait and loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self

from checkpoints import flows
from checkpoints.enums import Phase
from checkpoints.runs import payload as payloads
from checkpoints.runs.details import PhaseDetails
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import checkpoints, lookup, phases
from checkpoints.saving.cadence import ENDS, Cadence
from checkpoints.saving.state import UNCHANGED, Change, State, Unchanged
from checkpoints.saving.store import Store
from checkpoints.saving.waiting import Ticket, Wanted
from checkpoints.saving.writer import Behind

QUEUE = 1024
FLUSH_TIMEOUT = 10.0
_AS_THEY_COME = Cadence.every_call()


class HasStore(Protocol):
    """A checkpointer, blocking or async."""

    @property
    def store(self) -> Store: ...


class HasHop(HasStore, Protocol):
    """An async checkpointer."""

    @property
    def hop(self) -> flows.Hop: ...


class SyncWriteBehind:
    """Versions of one checkpointer, written by a thread of its own.

    `cadence` says which snapshots are saved (each, where it is not given); with `coalesce` a snapshot takes the place
    of an unsaved one of the same step and phase. At most `queue` wait. `flush_timeout` in seconds bounds every wait for
    the database. Closing this, or the checkpointer, flushes.
    """

    def __init__(
        self,
        checkpointer: HasStore,
        *,
        cadence: Cadence = _AS_THEY_COME,
        coalesce: bool = True,
        queue: int = QUEUE,
        flush_timeout: float = FLUSH_TIMEOUT,
    ) -> None:
        self.store = checkpointer.store
        self._behind = Behind(self.store, cadence=cadence, coalesce=coalesce, queue=queue, flush_timeout=flush_timeout)

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

        A run's end and a pause are durable when this returns. Raises `NotDurable` for what could not be written before,
        and where the queue stays full; `NotOwner`, `NotRepresentable`, `TooLarge`. A plan and a budget that are left
        out stay as they were handed in last.
        """
        state = self._state(session_id, Change(plan, budget_spent_usd, usage, phase, payload).as_given())
        return self._offer(self._wanted(session_id, transcript, state, payload, step))

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
    ) -> Ticket:
        """Hand in a version at a phase, as `save_phase` of the checkpointer saves one."""
        held = self.store.holds(session_id) or lookup.owned(self.store, session_id)
        before = self._behind.newest(session_id)
        if before is None and transcript is None:
            version = phases.save_phase(self.store, session_id, details, snapshot=snapshot, plan=plan)
            return Ticket(session_id, version)
        state = self._state(session_id, phases.change_of(self.store, held, details, snapshot, plan))
        step = None if snapshot is None else snapshot.step
        return self._offer(Wanted(session_id, transcript, state, step, light=snapshot is None))

    def _state(self, session_id: str, given: State | Change) -> State:
        """What a snapshot holds beside its transcript; what it keeps is as it was handed in last, or saved."""
        if isinstance(given, State):
            return given
        before = self._behind.newest(session_id)
        if before is not None:
            return given.applied(before[1])
        held = self.store.holds(session_id) or lookup.owned(self.store, session_id)
        return given.applied(checkpoints.state_of(self.store, held, held.head))

    def _offer(self, wanted: Wanted) -> Ticket:
        """What ends a run, or pauses it, is flushed."""
        ticket = self._behind.offer(wanted)
        if wanted.state.phase in ENDS:
            self._behind.flush(wanted.session_id)
        return ticket

    def _wanted(
        self,
        session_id: str,
        transcript: Sequence[dict[str, Any]],
        state: State,
        payload: dict[str, Any] | None,
        step: int | None,
    ) -> Wanted:
        if self.store.holds(session_id) is None:
            lookup.owned(self.store, session_id)
        kind = payloads.understood(session_id, payload)
        if step is None and kind == payloads.SNAPSHOT and payload is not None:
            step = payload.get("step")
        return Wanted(session_id, transcript, state, step, light=kind == payloads.PHASE)

    def flush(self, session_id: str | None = None, *, timeout: float | None = None) -> None:
        """Wait until everything of a session, or of all, is durable: at most `timeout` seconds (None: `flush_timeout`).

        Raises `NotDurable` with what is not. What can never be written is forgotten with that; the rest is tried on.
        """
        self._behind.flush(session_id, timeout)

    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """What is not durable yet, oldest first: session_id, phase, step, messages, waited_seconds, kept_back."""
        return self._behind.unsaved(session_id)

    def close(self) -> None:
        """Flush, and take nothing more. Raises `NotDurable`."""
        self._behind.close()


class WriteBehind:
    """`SyncWriteBehind` for an async checkpointer."""

    def __init__(
        self,
        checkpointer: HasHop,
        *,
        cadence: Cadence = _AS_THEY_COME,
        coalesce: bool = True,
        queue: int = QUEUE,
        flush_timeout: float = FLUSH_TIMEOUT,
    ) -> None:
        self.sync = SyncWriteBehind(
            checkpointer, cadence=cadence, coalesce=coalesce, queue=queue, flush_timeout=flush_timeout
        )
        self._checkpointer = checkpointer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

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
        return await self._checkpointer.hop(save)  # type: ignore[no-any-return]

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
        return await self._checkpointer.hop(save)  # type: ignore[no-any-return]

    async def flush(self, session_id: str | None = None, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._checkpointer.hop(partial(self.sync.flush, session_id, timeout=timeout))

    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        return self.sync.unsaved(session_id)

    async def close(self) -> None:
        await self._checkpointer.hop(self.sync.close)
