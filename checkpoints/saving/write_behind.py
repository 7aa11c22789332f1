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
from checkpoints.flows import documented_by
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
    """Saves the versions of one client in the background, on a thread of its own, blocking interface.

    Closing this, or the client, flushes.
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
        """Start to write versions of a client behind.

        Args:
            checkpointer: The client, blocking or async.
            cadence: Which snapshots are saved as they come. Left out: each.
            coalesce: Whether a snapshot replaces an unsaved one of the same step and phase.
            queue: Largest number of snapshots that wait.
            flush_timeout: Longest wait for the database in seconds.

        Raises:
            InvalidInput: A number is not positive, or the client is written behind already.
        """
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

        The end of a run and a pause are durable when this returns.

        Args:
            session_id: Identifier of a session the client owns.
            transcript: All messages, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as it was handed in last.
            budget_spent_usd: Money spent so far in the whole session, in US dollars. Left out, it stays.
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
        return self._behind.unsaved(session_id)

    def close(self) -> None:
        """Flush, and accept nothing more.

        Raises:
            NotDurable: What it names is not saved.
        """
        self._behind.close()


class WriteBehind:
    """Saves the versions of one async client in the background: `SyncWriteBehind` with async methods."""

    @documented_by(SyncWriteBehind.__init__)
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

    @documented_by(SyncWriteBehind.save_checkpoint)
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

    @documented_by(SyncWriteBehind.save_phase)
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

    @documented_by(SyncWriteBehind.flush)
    async def flush(self, session_id: str | None = None, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._checkpointer.hop(partial(self.sync.flush, session_id, timeout=timeout))

    @documented_by(SyncWriteBehind.unsaved)
    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        return self.sync.unsaved(session_id)

    @documented_by(SyncWriteBehind.close)
    async def close(self) -> None:
        await self._checkpointer.hop(self.sync.close)
