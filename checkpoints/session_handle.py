"""Session handle: one session from its start or resume to its release, in one `with` block.

    with cp.session("order-17", "Where is my refund?", registry=registry) as session:
        session.append([{"role": "user", "content": "Where is my refund?"}])

The session is released at the end of the block, so that another process can serve the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from checkpoints import sync_and_async_flow_runners
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.client_backend import ClientBackend
from checkpoints.enums import Phase
from checkpoints.exceptions import CheckpointsError, InvalidInput, NotOwner, OwnershipLost, SessionBusy
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.checkpointer_state import CheckpointerState, OwnedSession
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange
from checkpoints.sync_and_async_flow_runners import Flow, Transact, copy_docstring_from
from checkpoints.tools.registry_and_dispatch import ToolRegistry, WaitMode

T = TypeVar("T")


class CheckpointerLike(Protocol):
    """Blocking checkpointer."""

    @property
    def checkpointer_state(self) -> CheckpointerState: ...

    @property
    def backend(self) -> ClientBackend: ...


class AsyncCheckpointerLike(CheckpointerLike, Protocol):
    """Async checkpointer."""

    @property
    def run_blocking(self) -> sync_and_async_flow_runners.RunBlocking: ...


@dataclass(frozen=True)
class OpenOptions:
    """Options of a handle to start or resume its session: `wait`, `timeout` and `takeover` are those of `resume`."""

    description: NewSessionFields
    registry: ToolRegistry | None = None
    wait: bool = False
    timeout: float | None = None
    takeover: bool | str = False


class _Handle:
    """Common part of the blocking and the async handle."""

    def __init__(self, checkpointer: CheckpointerLike, session_id: str, opening: OpenOptions) -> None:
        self.session_id = session_id
        self._backend = checkpointer.backend
        self._state = checkpointer.checkpointer_state
        self._opening = opening
        self._registry: ToolRegistry | None = None
        if opening.registry is not None:
            self._registry = opening.registry.for_session(checkpointer, session_id)
        self._held: OwnedSession | None = None
        self._point: ResumePoint | None = None
        self._version = 0
        self._finished = False
        self._result: Any = None

    # state

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

    def _start_or_resume_flow(self) -> Flow[None]:
        """Start or resume the session. After an error it is not owned."""
        state, opening = self._state, self._opening
        yield Transact(self._register_handle_or_raise_busy)
        try:
            self._point = yield from self._backend.resume_session_flow(
                self.session_id,
                opening.description,
                wait=opening.wait,
                timeout=opening.timeout,
                takeover=opening.takeover,
            )
        except BaseException:
            state.unregister_session_handle(self.session_id, self)
            raise
        self._version = self._point.version
        self._finished, self._result = self._point.finished, self._point.result
        if not self._finished:
            self._held = state.get_owned_session(self.session_id)

    def _register_handle_or_raise_busy(self) -> None:
        """Claim the session for this handle: two requests of one process do not share a run. Raises `SessionBusy`."""
        state = self._state
        if state.try_register_session_handle(self.session_id, self):
            return
        owned_session = state.find_owned_session(self.session_id)
        if owned_session is not None and self._opening.takeover:
            state.remove_owned_session(owned_session)  # also forgets the open handle
        if not state.try_register_session_handle(self.session_id, self):
            raise self._build_handle_already_open_error()

    def _build_handle_already_open_error(self) -> SessionBusy:
        """Build the error for a session that another handle of this checkpointer has open."""
        owner = "another handle of this checkpointer, which is still open"
        return SessionBusy(
            self.session_id, owner, *self._backend.find_or_predict_heartbeat_and_lease_end(self.session_id)
        )

    def _release_session_flow(self, error: BaseException | None) -> Flow[None]:
        """Release the session. An error of the release does not hide `error`, which ended the block."""
        try:
            yield Transact(self._release_session)
        except CheckpointsError as failure:
            if error is None:
                raise
            error.add_note(f"The session {self.session_id!r} could not be released: {failure}")

    @property
    def _is_owner(self) -> bool:
        return self._held is not None and self._state.find_owned_session(self.session_id) is self._held

    def _release_session(self) -> None:
        owned_session, self._held = self._held, None
        try:
            if owned_session is not None:
                self._version = owned_session.head.version
                if self._state.find_owned_session(self.session_id) is owned_session:
                    self._backend.release_session(self.session_id)
        finally:
            self._state.unregister_session_handle(self.session_id, self)

    # operations

    def _flush_and_require_owned_session(self) -> OwnedSession:
        """Return the owned session of this handle. Raises `NotOwner` after its end, and `OwnershipLost`."""
        owned_session = self._backend.flush_and_require_owned_session(self.session_id)
        if self._held is None:
            raise NotOwner(self.session_id)
        if owned_session is not self._held:
            raise OwnershipLost(self.session_id)
        return owned_session

    def _get_open_registry(self) -> ToolRegistry:
        """Return the tools of this handle unless it is closed: another handle may be open on the session since."""
        owned_session = self._state.find_owned_session(self.session_id)
        if owned_session is not None and owned_session is not self._held:
            raise NotOwner(self.session_id) if self._held is None else OwnershipLost(self.session_id)
        return self.registry

    def _append_version(self, new: Sequence[dict[str, Any]], change: VersionChange) -> int:
        head = self._flush_and_require_owned_session().head
        return self._backend.append_version(self.session_id, new, change, expected_version=head.version)

    def _save_version(self, transcript: Sequence[dict[str, Any]], change: VersionChange) -> int:
        self._flush_and_require_owned_session()
        return self._backend.save_version(self.session_id, transcript, change)

    def _finish_session(self, status: str, result: Any) -> None:
        owned_session = self._flush_and_require_owned_session()
        self._backend.finish_session(self.session_id, status, result)
        self._version, self._held = owned_session.head.version, None
        self._finished, self._result = True, result

    def _load_messages(self, after: int, limit: int, version: int | None) -> list[dict[str, Any]]:
        return self._backend.list_messages(self.session_id, after, limit, version)


class SyncSessionHandle(_Handle):
    """One session in a `with` block, blocking. Made by `SyncCheckpointer.session`; used by one loop at a time."""

    def __enter__(self) -> Self:
        sync_and_async_flow_runners.run_flow(self._start_or_resume_flow())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        sync_and_async_flow_runners.run_flow(self._release_session_flow(error))

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
            budget_spent_usd: Total spent so far in the whole session, in US dollars, not what this version adds.
                Left out, it stays.
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
        return self._append_version(messages, VersionChange(plan, budget_spent_usd, usage, phase, payload))

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
            budget_spent_usd: Total spent so far in the whole session, in US dollars, not what this version adds.
                Left out, it stays.
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
        return self._save_version(transcript, VersionChange(plan, budget_spent_usd, usage, phase, payload))

    def dispatch(
        self,
        name: str,
        args: dict[str, Any],
        call_id: str,
        *,
        step: int | None = None,
        in_progress: WaitMode = "wait",
        approval: WaitMode = "raise",
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
        return self._get_open_registry().dispatch(
            name, args, call_id, step=step, in_progress=in_progress, approval=approval
        )

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
        return self._load_messages(after, limit, version)

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
        self._finish_session(status, result)


class SessionHandle(_Handle):
    """One session in an `async with` block. Made by `Checkpointer.session`; used by one task at a time."""

    def __init__(self, checkpointer: AsyncCheckpointerLike, session_id: str, opening: OpenOptions) -> None:
        super().__init__(checkpointer, session_id, opening)
        self._checkpointer = checkpointer

    async def __aenter__(self) -> Self:
        try:
            await sync_and_async_flow_runners.run_flow_async(
                self._start_or_resume_flow(), self._checkpointer.run_blocking
            )
        except BaseException as error:
            if self._is_owner:  # cancelled after the session was opened
                await sync_and_async_flow_runners.run_flow_async(
                    self._release_session_flow(error), self._checkpointer.run_blocking
                )
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._is_owner:
            await sync_and_async_flow_runners.run_flow_async(
                self._release_session_flow(error), self._checkpointer.run_blocking
            )
        else:
            self._release_session()

    @copy_docstring_from(SyncSessionHandle.append)
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
        return await self._run_work_uncancelled(
            partial(self._append_version, messages, VersionChange(plan, budget_spent_usd, usage, phase, payload))
        )

    @copy_docstring_from(SyncSessionHandle.save)
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
        return await self._run_work_uncancelled(
            partial(self._save_version, transcript, VersionChange(plan, budget_spent_usd, usage, phase, payload))
        )

    @copy_docstring_from(SyncSessionHandle.dispatch)
    async def dispatch(
        self,
        name: str,
        args: dict[str, Any],
        call_id: str,
        *,
        step: int | None = None,
        in_progress: WaitMode = "wait",
        approval: WaitMode = "raise",
    ) -> ToolResult:
        return await self._get_open_registry().adispatch(
            name, args, call_id, step=step, in_progress=in_progress, approval=approval
        )

    @copy_docstring_from(SyncSessionHandle.messages)
    async def messages(self, *, after: int = 0, limit: int = 100, version: int | None = None) -> list[dict[str, Any]]:
        return await self._run_work_uncancelled(partial(self._load_messages, after, limit, version))

    @copy_docstring_from(SyncSessionHandle.finish)
    async def finish(self, status: str, result: Any = None) -> None:
        await self._run_work_uncancelled(partial(self._finish_session, status, result))

    async def _run_work_uncancelled(self, work: Callable[[], T]) -> T:
        """Finish database work even if this task is cancelled, so that the end of the block comes after it."""
        return await sync_and_async_flow_runners.run_flow_async(
            _wrap_database_work_in_flow(work), self._checkpointer.run_blocking
        )


def _wrap_database_work_in_flow(work: Callable[[], T]) -> Flow[T]:
    result: T = yield Transact(work)
    return result
