"""One session from its start or resume to its release: what a request or a loop does with it, in one `with` block.

    with cp.session("order-17", "Where is my refund?", registry=registry) as session:
        session.append([{"role": "user", "content": "Where is my refund?"}])

The session is released at the end of the block, so that the next request can be served by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from checkpoints import clock, flows
from checkpoints.enums import Phase
from checkpoints.exceptions import CheckpointsError, InvalidInput, NotOwner, OwnershipLost, SessionBusy
from checkpoints.flows import Flow, Transact, documented_by
from checkpoints.models import Session
from checkpoints.outcomes import ToolResult
from checkpoints.resuming import gate, starting
from checkpoints.resuming.gate import ResumePoint
from checkpoints.resuming.starting import Description
from checkpoints.saving import checkpoints as saving
from checkpoints.saving import lookup, reading
from checkpoints.saving.operations import operation
from checkpoints.saving.state import UNCHANGED, Change, Unchanged
from checkpoints.saving.store import Held, Store
from checkpoints.tools.registry import InProgress, ToolRegistry

T = TypeVar("T")


class HasStore(Protocol):
    """A blocking checkpointer."""

    @property
    def store(self) -> Store: ...


class HasHop(HasStore, Protocol):
    """An async checkpointer."""

    @property
    def hop(self) -> flows.Hop: ...


@dataclass(frozen=True)
class Opening:
    """How a handle starts or resumes its session: `wait`, `timeout` and `takeover` are those of `resume`."""

    description: Description
    registry: ToolRegistry | None = None
    wait: bool = False
    timeout: float | None = None
    takeover: bool | str = False


class _Handle:
    """Common part of the blocking and the async handle."""

    def __init__(self, checkpointer: HasStore, session_id: str, opening: Opening) -> None:
        self.session_id = session_id
        self._store = checkpointer.store
        self._opening = opening
        self._registry: ToolRegistry | None = None
        if opening.registry is not None:
            self._registry = opening.registry.for_session(checkpointer, session_id)
        self._held: Held | None = None
        self._point: ResumePoint | None = None
        self._version = 0
        self._finished = False
        self._result: Any = None

    # what is known

    @property
    def point(self) -> ResumePoint:
        """Point where the session continues: transcript, plan, budget and more, as they were when the block began.

        Raises:
            NotOwner: The block has not begun.
        """
        if self._point is None:
            raise NotOwner(self.session_id)
        return self._point

    @property
    def version(self) -> int:
        """Number of the newest version that was saved here; 0 while there is none."""
        return self._version if self._held is None else self._held.head.version

    @property
    def finished(self) -> bool:
        """Whether the session has ended, before the block or in it. Then nothing can be saved any more."""
        return self._finished

    @property
    def result(self) -> Any:
        """Result of a finished session, a JSON value."""
        return self._result

    @property
    def registry(self) -> ToolRegistry:
        """Tools bound to this session alone.

        Raises:
            InvalidInput: The handle was opened without a registry.
        """
        if self._registry is None:
            raise InvalidInput(
                f"Session {self.session_id!r} was opened without tools; open it with session(…, registry=registry)."
            )
        return self._registry

    # beginning and end

    def _open_flow(self) -> Flow[None]:
        """Start or resume the session. Where that fails, it is not owned afterwards."""
        store, opening = self._store, self._opening
        yield Transact(self._begin)
        try:
            self._point = yield from gate.open_flow(
                store,
                self.session_id,
                opening.description,
                wait=opening.wait,
                timeout=opening.timeout,
                takeover=opening.takeover,
            )
        except BaseException:
            store.close_handle(self.session_id, self)
            raise
        self._version = self._point.version
        self._finished, self._result = self._point.finished, self._point.result
        if not self._finished:
            self._held = store.held(self.session_id)

    def _begin(self) -> None:
        """One handle at a time: two requests of one process do not share a run. Raises `SessionBusy`."""
        store = self._store
        if store.open_handle(self.session_id, self):
            return
        held = store.holds(self.session_id)
        if held is not None and self._opening.takeover:
            store.drop(held)  # with the handle that is open on it
        if not store.open_handle(self.session_id, self):
            raise self._busy()

    def _busy(self) -> SessionBusy:
        store = self._store
        with operation(store.using, writes=False):
            rows = Session.objects.using(store.using).filter(
                workspace_id=store.workspace_id, session_id=self.session_id
            )
            row = rows.select_related("owner").first()
            now = clock.database_now(store.using)
        owner = "another handle of this checkpointer, which is still open"
        if row is None or row.owner is None:  # it is just being opened
            return SessionBusy(self.session_id, owner, now, now + store.lease)
        return SessionBusy(self.session_id, owner, row.owner.heartbeat_at, row.owner.lease_expires_at)

    def _close_flow(self, error: BaseException | None) -> Flow[None]:
        """Release the session. A failure of that does not hide `error`, which ended the block."""
        try:
            yield Transact(self._release)
        except CheckpointsError as failure:
            if error is None:
                raise
            error.add_note(f"The session {self.session_id!r} could not be released: {failure}")

    @property
    def _owns(self) -> bool:
        return self._held is not None and self._store.holds(self.session_id) is self._held

    def _release(self) -> None:
        held, self._held = self._held, None
        try:
            if held is not None:
                self._version = held.head.version
                if self._store.holds(self.session_id) is held:
                    starting.release_session(self._store, self.session_id)
        finally:
            self._store.close_handle(self.session_id, self)

    # what is done with it

    def _owned(self) -> Held:
        """The run of this handle. Raises `NotOwner` after its end, and `OwnershipLost`."""
        held = lookup.owned(self._store, self.session_id)
        if self._held is None:
            raise NotOwner(self.session_id)
        if held is not self._held:
            raise OwnershipLost(self.session_id)
        return held

    def _tools(self) -> ToolRegistry:
        """The tools of this handle, which is not closed: another one may be open on the session since."""
        held = self._store.holds(self.session_id)
        if held is not None and held is not self._held:
            raise NotOwner(self.session_id) if self._held is None else OwnershipLost(self.session_id)
        return self.registry

    def _append(self, new: Sequence[dict[str, Any]], change: Change) -> int:
        head = self._owned().head
        return saving.append(self._store, self.session_id, new, change, expected_version=head.version)

    def _save(self, transcript: Sequence[dict[str, Any]], change: Change) -> int:
        held = self._owned()
        state = change.applied(saving.state_of(self._store, held, held.head))
        return saving.save(self._store, self.session_id, transcript, state)

    def _finish(self, status: str, result: Any) -> None:
        held = self._owned()
        starting.finish(self._store, self.session_id, status, result)
        self._version, self._held = held.head.version, None
        self._finished, self._result = True, result

    def _messages(self, after: int, limit: int, version: int | None) -> list[dict[str, Any]]:
        return reading.messages(self._store, self.session_id, after=after, limit=limit, version=version)


class SyncSessionHandle(_Handle):
    """One session in a `with` block, blocking. Made by `SyncCheckpointer.session`; used by one loop at a time."""

    def __enter__(self) -> Self:
        flows.drive(self._open_flow())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        flows.drive(self._close_flow(error))

    def append(
        self,
        messages: list[dict[str, Any]],
        *,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version from the messages that are new since the last one.

        The cost does not depend on the length of the transcript. The version is durable when this returns.

        Args:
            messages: Messages to append, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as in the previous version.
            budget_spent_usd: Money spent so far in the whole session, in US dollars. Left out, it stays.
            usage: Token usage, a JSON object. Left out, it stays.
            phase: Phase of the run, a value of `Phase`.
            payload: JSON object that belongs to this version alone.

        Returns:
            The number of the new version.

        Raises:
            NotOwner: The block has ended.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
        """
        return self._append(messages, Change(plan, budget_spent_usd, usage, phase, payload))

    def save(
        self,
        transcript: list[dict[str, Any]],
        *,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version from a whole transcript; only what is new in it is stored.

        The transcript may be a compacted or edited one. The version is durable when this returns.

        Args:
            transcript: All messages, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as in the previous version.
            budget_spent_usd: Money spent so far in the whole session, in US dollars. Left out, it stays.
            usage: Token usage, a JSON object. Left out, it stays.
            phase: Phase of the run, a value of `Phase`.
            payload: JSON object that belongs to this version alone.

        Returns:
            The number of the new version.

        Raises:
            NotOwner: The block has ended.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
        """
        return self._save(transcript, Change(plan, budget_spent_usd, usage, phase, payload))

    def dispatch(
        self,
        name: str,
        args: dict[str, Any],
        call_id: str,
        *,
        step: int | None = None,
        in_progress: InProgress = "wait",
        approval: InProgress = "raise",
    ) -> ToolResult:
        """Make one call with a tool of the handle's registry.

        Args:
            name: Name of the tool.
            args: Arguments of the call, a JSON object.
            call_id: Identifier of the call, unique in its step.
            step: Step of the loop. None: the number of the newest version.
            in_progress: `wait` waits for a call of the same key that runs elsewhere; `raise` raises `CallInProgress`.
            approval: `raise` raises `ApprovalRequired` for a call that needs approval; `wait` waits for the decision.

        Returns:
            The result for the model. An unknown tool or unfitting arguments give an error result, and nothing runs.

        Raises:
            ReviewRequired: A person has to decide about an earlier call first.
            ApprovalRequired: The call needs approval.
            CallInProgress: A call of the same key is running.
            RegistryNotBound: The tool has side effects and there is no session to log the call in.
            NotOwner: The session is not owned.
            OwnershipLost: Another run has taken the session over.
            CallConflict: The step has another call with this identifier.
            ResultNotRecorded: The tool ran and its result could not be stored.
        """
        return self._tools().dispatch(name, args, call_id, step=step, in_progress=in_progress, approval=approval)

    def messages(self, *, after: int = 0, limit: int = 100, version: int | None = None) -> list[dict[str, Any]]:
        """Load a page of the transcript, oldest message first.

        Args:
            after: Number of messages to skip at the beginning.
            limit: Largest number of messages.
            version: Version whose transcript is read. None: the newest.

        Returns:
            One dict per message: position (its index in the transcript, from 0), created_at, message.

        Raises:
            VersionNotFound: There is no such version.
            InvalidInput: `after` or `limit` is not a fitting number.
            CheckpointCorrupted: A stored message cannot be read.
        """
        return self._messages(after, limit, version)

    def finish(self, status: str, result: Any = None) -> None:
        """End the session. The end of the block does nothing then.

        Args:
            status: `completed`, `failed` or `cancelled`.
            result: JSON value that is the result of the session.

        Raises:
            ReviewRequired: A call is undecided, except for `cancelled`.
            CallInProgress: A call is running, except for `cancelled`.
            NotOwner: The block has ended.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended already.
            NotRepresentable: `result` has no exact JSON form.
            InvalidInput: `status` is none of the three.
        """
        self._finish(status, result)


class SessionHandle(_Handle):
    """One session in an `async with` block. Made by `Checkpointer.session`; used by one task at a time."""

    def __init__(self, checkpointer: HasHop, session_id: str, opening: Opening) -> None:
        super().__init__(checkpointer, session_id, opening)
        self._checkpointer = checkpointer

    async def __aenter__(self) -> Self:
        try:
            await flows.adrive(self._open_flow(), self._checkpointer.hop)
        except BaseException as error:
            if self._owns:  # cancelled when it was open already
                await flows.adrive(self._close_flow(error), self._checkpointer.hop)
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._owns:
            await flows.adrive(self._close_flow(error), self._checkpointer.hop)
        else:
            self._release()

    @documented_by(SyncSessionHandle.append)
    async def append(
        self,
        messages: list[dict[str, Any]],
        *,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        return await self._work(partial(self._append, messages, Change(plan, budget_spent_usd, usage, phase, payload)))

    @documented_by(SyncSessionHandle.save)
    async def save(
        self,
        transcript: list[dict[str, Any]],
        *,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        return await self._work(partial(self._save, transcript, Change(plan, budget_spent_usd, usage, phase, payload)))

    @documented_by(SyncSessionHandle.dispatch)
    async def dispatch(
        self,
        name: str,
        args: dict[str, Any],
        call_id: str,
        *,
        step: int | None = None,
        in_progress: InProgress = "wait",
        approval: InProgress = "raise",
    ) -> ToolResult:
        return await self._tools().adispatch(name, args, call_id, step=step, in_progress=in_progress, approval=approval)

    @documented_by(SyncSessionHandle.messages)
    async def messages(self, *, after: int = 0, limit: int = 100, version: int | None = None) -> list[dict[str, Any]]:
        return await self._work(partial(self._messages, after, limit, version))

    @documented_by(SyncSessionHandle.finish)
    async def finish(self, status: str, result: Any = None) -> None:
        await self._work(partial(self._finish, status, result))

    async def _work(self, work: Callable[[], T]) -> T:
        """Database work, which is finished also where this task is cancelled: the block's end comes after it."""
        return await flows.adrive(_one(work), self._checkpointer.hop)


def _one(work: Callable[[], T]) -> Flow[T]:
    result: T = yield Transact(work)
    return result
