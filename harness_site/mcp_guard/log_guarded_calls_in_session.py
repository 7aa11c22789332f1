"""Session in which the calls of a guarded server are logged."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from checkpoints import Checkpointer, Tool, ToolRegistry
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import (
    CallInProgress,
    CheckpointsError,
    NotOwner,
    OwnershipLost,
    ReviewRequired,
    SessionBusy,
    SessionFinished,
)
from checkpoints.session_handle import SessionHandle
from harness_site.mcp_guard.tool_policies import ToolPolicy

logger = logging.getLogger(__name__)

#: Seconds between two checks of what a call waits for.
POLL_SECONDS: Final = 1.0
#: Longest wait in seconds for the lease of a guard that was killed.
BUSY_SECONDS: Final = 35.0

Forward = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
_forward: ContextVar[Forward] = ContextVar("forward")


class OutcomeUnknown(Exception):
    """The server got the call and gave no answer that says whether it happened."""


@dataclass(frozen=True)
class CallRequest:
    """Call that a client requests. `given_id` is the identifier that the client itself gave it."""

    tool: str
    arguments: dict[str, Any]
    policy: ToolPolicy
    given_id: str | None = None

    @property
    def tool_and_arguments(self) -> tuple[str, str]:
        """Tool and canonical arguments: what makes two calls alike."""
        return self.tool, json.dumps(self.arguments, sort_keys=True, ensure_ascii=False)


@dataclass
class GuardedSession:
    """Session of a guard. It is opened by the first call that needs it, and opened again after it was lost.

    Attributes:
        checkpointer: Client of the database or the server with the log.
        session_id: Identifier of the session.
        agent: Name of the agent in lists.
        title: Title of the session.
        wait_seconds: Seconds that a call waits for a person before it is answered with an error.
    """

    checkpointer: Checkpointer
    session_id: str
    agent: str
    title: str
    wait_seconds: float
    _handle: SessionHandle | None = None
    _opening: anyio.Lock = field(default_factory=anyio.Lock)
    _saving: anyio.Lock = field(default_factory=anyio.Lock)
    #: Identifiers of calls that ended without an answer, by kind: a client that asks again means them.
    _unanswered: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _tools: dict[tuple[str, str], Tool] = field(default_factory=dict)

    async def dispatch_call(self, request: CallRequest, forward: Forward) -> ToolResult:
        """Log a call, forward it unless the log has its answer, and log its outcome.

        Args:
            request: The call.
            forward: Function that sends the call with these arguments to the server and returns its result.

        Returns:
            The result. Its `call_id` is the one to pass to `save_answer_as_version` once the client has the result.

        Raises:
            ReviewRequired: A person has to decide first, and did not within `wait_seconds`.
            CheckpointsError: The call could not be logged, or its result could not.
        """
        call_id = request.given_id or self._reuse_or_generate_call_id(request.tool_and_arguments)
        is_forwarded = False

        async def forward_and_mark_as_forwarded(arguments: dict[str, Any]) -> dict[str, Any]:
            nonlocal is_forwarded
            is_forwarded = True
            return await forward(arguments)

        deadline = time.monotonic() + self.wait_seconds
        token = _forward.set(forward_and_mark_as_forwarded)
        answered = False
        try:
            while True:
                try:
                    result = await self._dispatch_with_call_id(request, call_id)
                    answered = True
                    return result
                except (ReviewRequired, CallInProgress):
                    if is_forwarded or time.monotonic() >= deadline:
                        raise
                except (NotOwner, OwnershipLost):
                    await self._close_handle()
                    if is_forwarded or time.monotonic() >= deadline:
                        raise
                await anyio.sleep(POLL_SECONDS)
        finally:
            _forward.reset(token)
            if not answered and request.given_id is None:
                self._unanswered.setdefault(request.tool_and_arguments, []).append(call_id)

    def keep_call_id_for_next_equal_call(self, request: CallRequest, call_id: str) -> None:
        """Use the identifier again for the next call of the same kind: this one had no final answer."""
        if request.given_id is None:
            self._unanswered.setdefault(request.tool_and_arguments, []).append(call_id)

    async def save_answer_as_version(self, request: CallRequest, call_id: str, content: str) -> None:
        """Save a version with the call and its answer. The next call of the same kind is then a new operation."""
        arguments = json.dumps(request.arguments, ensure_ascii=False)
        function = {"name": request.tool, "arguments": arguments}
        messages: list[dict[str, Any]] = [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": content},
        ]
        try:
            async with self._saving:
                handle = await self._get_or_open_handle()
                await handle.append(messages)
        except CheckpointsError as error:
            logger.warning("The answer of call %s could not be saved: %s", call_id, error)

    async def close(self) -> None:
        """Release the session. Errors are logged."""
        await self._close_handle()

    async def _dispatch_with_call_id(self, request: CallRequest, call_id: str) -> ToolResult:
        await self._get_or_open_handle()
        # A call with an identifier of the client is one operation for ever, in one step that all runs share.
        policy, step = ("call", 0) if request.given_id else (request.policy.idempotency, None)
        registry = ToolRegistry([self._get_or_build_tool(request, policy)])
        bound = registry.for_session(self.checkpointer, self.session_id)
        return await bound.adispatch(request.tool, request.arguments, call_id, step=step, in_progress="raise")

    def _get_or_build_tool(self, request: CallRequest, idempotency: Any) -> Tool:
        key = (request.tool, idempotency)
        if key not in self._tools:
            self._tools[key] = Tool(
                request.tool,
                _call_forward_function,
                side_effects=frozenset({request.policy.side_effect}),
                idempotency=idempotency,
                requires_approval=request.policy.requires_approval,
                ambiguous_errors=(OutcomeUnknown,),
            )
        return self._tools[key]

    def _reuse_or_generate_call_id(self, kind: tuple[str, str]) -> str:
        waiting = self._unanswered.get(kind)
        if waiting:
            return waiting.pop(0)
        digest = hashlib.sha256(kind[1].encode("utf-8", "surrogatepass")).hexdigest()
        return f"{kind[0]}-{digest[:8]}-{secrets.token_hex(4)}"

    async def _get_or_open_handle(self) -> SessionHandle:
        async with self._opening:
            if self._handle is None:
                self._handle = await self._open_handle_waiting_while_busy()
            return self._handle

    async def _open_handle_waiting_while_busy(self) -> SessionHandle:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            handle = self.checkpointer.session(self.session_id, agent=self.agent, title=self.title)
            try:
                await handle.__aenter__()
            except SessionBusy:
                if time.monotonic() >= deadline:
                    raise
            else:
                if handle.finished:
                    raise SessionFinished(self.session_id, "finished")
                return handle
            await anyio.sleep(POLL_SECONDS)

    async def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            await handle.__aexit__(None, None, None)
        except CheckpointsError as error:
            logger.warning("The session %s could not be released: %s", self.session_id, error)


async def _call_forward_function(**arguments: Any) -> dict[str, Any]:
    return await _forward.get()(arguments)
