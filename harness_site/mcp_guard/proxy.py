"""Proxy between one MCP client and one MCP server. It forwards all messages but the tool calls that are logged."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.message import SessionMessage

from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import CheckpointsError, ReviewRequired
from checkpoints.generate_and_validate_ids import validate_id
from harness_site.mcp_guard import tool_results
from harness_site.mcp_guard.log_guarded_calls_in_session import CallRequest, GuardedSession, OutcomeUnknown
from harness_site.mcp_guard.tool_policies import ToolPolicies

logger = logging.getLogger(__name__)

#: Name in `_meta` under which a client gives a call an identifier of its own.
CALL_ID_META: Final = "harness/call-id"
#: Seconds that the server has to answer a call that the client cancelled, before its outcome counts as unknown.
CANCEL_SECONDS: Final = 5.0
#: Error codes of JSON-RPC that say that nothing ran.
_NOTHING_RAN: Final = frozenset(
    {types.PARSE_ERROR, types.INVALID_REQUEST, types.METHOD_NOT_FOUND, types.INVALID_PARAMS}
)

Reply = types.JSONRPCResponse | types.JSONRPCError


class CallFailed(Exception):
    """The server answered that the call failed, or that it has not begun."""


@dataclass
class _RunningCall:
    """Call of the client that is not answered yet. `reply` is the server's, once the call was forwarded."""

    scope: anyio.CancelScope
    reply: asyncio.Future[Reply] | None = None
    is_cancelled: bool = False


@dataclass
class GuardProxy:
    """Proxy of one connection.

    Attributes:
        session: Session in which calls are logged.
        policies: Policies by tool name.
        from_client: Stream of the client's messages.
        to_client: Stream to the client.
        from_server: Stream of the server's messages.
        to_server: Stream to the server.
    """

    session: GuardedSession
    policies: ToolPolicies
    from_client: Any
    to_client: Any
    from_server: Any
    to_server: Any
    _calls: dict[types.RequestId, _RunningCall] = field(default_factory=dict)
    _tool_lists: set[types.RequestId] = field(default_factory=set)
    _has_server_ended: bool = False
    _is_idle: anyio.Event = field(default_factory=anyio.Event)

    async def forward_client_messages(self, tasks: TaskGroup) -> None:
        """Forward what the client sends until it closes its side; each logged call is a task of its own."""
        async for received in self.from_client:
            if isinstance(received, Exception):
                logger.warning("The client sent what is no message: %s", received)
                continue
            message = received.message
            if isinstance(message, types.JSONRPCRequest) and message.method == "tools/call":
                await self._start_logged_call_or_forward(tasks, message)
            elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                await self._cancel_call_or_forward(tasks, message)
            else:
                if isinstance(message, types.JSONRPCRequest) and message.method == "tools/list":
                    self._tool_lists.add(message.id)
                await self._send_to_server(message)

    async def forward_server_messages(self) -> None:
        """Forward what the server sends until it ends; answers of logged calls go to their tasks."""
        async for received in self.from_server:
            if isinstance(received, Exception):
                logger.warning("The server sent what is no message: %s", received)
                continue
            message = received.message
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                running = self._calls.get(message.id)
                if running is not None and running.reply is not None:
                    if not running.reply.done():
                        running.reply.set_result(message)
                    continue
                message = self._remove_output_schemas_of_logged_tools(message)
            await self._try_send_to_client(message)
        self._end_calls_of_ended_server()

    def _end_calls_of_ended_server(self) -> None:
        self._has_server_ended = True
        for running in self._calls.values():
            _fail_pending_reply_with_outcome_unknown(running, "The server ended during the call.")

    async def wait_for_calls_then_end_them(self, seconds: float) -> None:
        """Wait until all calls are answered; those that are not after this time have an unknown outcome."""
        with anyio.move_on_after(seconds):
            await self._wait_until_no_call_runs()
        for running in self._calls.values():
            _fail_pending_reply_with_outcome_unknown(running, "The client left during the call.")
            if running.reply is None:
                running.scope.cancel()
        await self._wait_until_no_call_runs()

    async def _wait_until_no_call_runs(self) -> None:
        self._is_idle = anyio.Event()
        if self._calls:
            await self._is_idle.wait()

    # messages

    def _remove_output_schemas_of_logged_tools(self, message: Reply) -> Reply:
        if message.id not in self._tool_lists:
            return message
        self._tool_lists.discard(message.id)
        if isinstance(message, types.JSONRPCError):
            return message
        listed = message.result.get("tools")
        names = {tool.get("name") for tool in listed if isinstance(tool, dict)} if isinstance(listed, list) else set()
        logged = {
            name for name in names if isinstance(name, str) and self.policies.get_policy_or_default(name).is_logged
        }
        return message.model_copy(
            update={"result": tool_results.remove_output_schemas_of_tools(message.result, logged)}
        )

    async def _send_to_server(self, message: types.JSONRPCMessage) -> None:
        try:
            await self.to_server.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._end_calls_of_ended_server()

    async def _try_send_to_client(self, message: types.JSONRPCMessage) -> bool:
        try:
            await self.to_client.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True

    # calls

    async def _start_logged_call_or_forward(self, tasks: TaskGroup, message: types.JSONRPCRequest) -> None:
        try:
            request = self._parse_logged_call(message)
        except ValueError as error:
            refusal = types.ErrorData(code=types.INVALID_PARAMS, message=f"{error} Nothing was forwarded.")
            await self._try_send_to_client(types.JSONRPCError(jsonrpc="2.0", id=message.id, error=refusal))
            return
        if request is None:
            await self._send_to_server(message)
            return
        running = self._calls[message.id] = _RunningCall(anyio.CancelScope())
        tasks.start_soon(self._run_and_answer_call, message, request, running)

    def _parse_logged_call(self, message: types.JSONRPCRequest) -> CallRequest | None:
        """Read a call; None for one that is not logged. Raises `ValueError`."""
        params = message.params or {}
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise ValueError("The call has no name, or its arguments are not an object.")
        policy = self.policies.get_policy_or_default(name)
        if not policy.is_logged:
            return None
        if message.id in self._calls:
            raise ValueError(f"A call with the request id {message.id!r} is running.")
        if params.get("task") is not None:
            raise ValueError("harness mcp-guard does not support tasks for tools with side effects.")
        given_id = meta.get(CALL_ID_META) if isinstance(meta, dict) else None
        if given_id is not None:
            given_id = validate_id("call id", given_id)
        return CallRequest(name, arguments or {}, policy, given_id)

    async def _run_and_answer_call(
        self, message: types.JSONRPCRequest, request: CallRequest, running: _RunningCall
    ) -> None:
        try:
            with running.scope:
                reply, call_id, content = await self._dispatch_call(message, request, running)
                if running.is_cancelled or not await self._try_send_to_client(reply) or call_id is None:
                    return
                await self.session.save_answer_as_version(request, call_id, content)
        finally:
            del self._calls[message.id]
            if not self._calls:
                self._is_idle.set()

    async def _dispatch_call(
        self, message: types.JSONRPCRequest, request: CallRequest, running: _RunningCall
    ) -> tuple[Reply, str | None, str]:
        """Make the call. Returns the reply, and the id and text of a call that is answered by it."""
        replies: list[Reply] = []

        async def forward_call_to_server(arguments: dict[str, Any]) -> dict[str, Any]:
            reply = await self._send_call_to_server_and_await_reply(message, arguments, running)
            replies.append(reply)
            return _get_result_of_reply_or_raise(reply)

        try:
            result = await self.session.dispatch_call(request, forward_call_to_server)
        except CheckpointsError as error:
            if replies and not isinstance(error, ReviewRequired):
                logger.warning("The call %s ran, and its result is not in the log: %s", request.tool, error)
                return replies[-1], None, ""
            return _build_failed_tool_result_reply(message, error), None, ""
        if not replies:
            return _build_replayed_reply(message, result), result.call_id, result.content
        if _does_server_require_more_input(replies[-1]):
            self.session.keep_call_id_for_next_equal_call(request, result.call_id)
            return replies[-1], None, ""
        return replies[-1], result.call_id, result.content

    async def _send_call_to_server_and_await_reply(
        self, message: types.JSONRPCRequest, arguments: dict[str, Any], running: _RunningCall
    ) -> Reply:
        if self._has_server_ended:
            raise ConnectionRefusedError("The server has ended. Nothing was forwarded.")
        running.reply = asyncio.get_running_loop().create_future()
        forwarded = message.model_copy(update={"params": {**(message.params or {}), "arguments": arguments}})
        await self._send_to_server(forwarded)
        return await running.reply

    async def _cancel_call_or_forward(self, tasks: TaskGroup, message: types.JSONRPCNotification) -> None:
        request_id = (message.params or {}).get("requestId")
        running = self._calls.get(request_id) if isinstance(request_id, str | int) else None
        if running is None:
            await self._send_to_server(message)
            return
        running.is_cancelled = True
        if running.reply is None:
            running.scope.cancel()
            return
        await self._send_to_server(message)
        tasks.start_soon(_end_cancelled_call_after_grace_period, running, CANCEL_SECONDS)


async def _end_cancelled_call_after_grace_period(running: _RunningCall, seconds: float) -> None:
    await anyio.sleep(seconds)
    _fail_pending_reply_with_outcome_unknown(running, "The client cancelled the call, and the server gave no answer.")


def _fail_pending_reply_with_outcome_unknown(running: _RunningCall, reason: str) -> None:
    if running.reply is not None and not running.reply.done():
        running.reply.set_exception(OutcomeUnknown(reason))


def _get_result_of_reply_or_raise(reply: Reply) -> dict[str, Any]:
    """Return the result of a call that happened. Raises `CallFailed`, and `OutcomeUnknown`."""
    if isinstance(reply, types.JSONRPCError):
        text = f"The server answered with error {reply.error.code}: {reply.error.message}"
        raise CallFailed(text) if reply.error.code in _NOTHING_RAN else OutcomeUnknown(text)
    if _does_server_require_more_input(reply):
        raise CallFailed("The server asked for more input.")
    if reply.result.get("isError") is True:
        raise CallFailed(tool_results.join_texts_of_result(reply.result) or "The server says that the call failed.")
    return reply.result


def _does_server_require_more_input(reply: Reply) -> bool:
    """Return whether the server did not run the call yet: the client sends it again, with more input."""
    return isinstance(reply, types.JSONRPCResponse) and reply.result.get("resultType") == "input_required"


def _build_replayed_reply(message: types.JSONRPCRequest, result: ToolResult) -> Reply:
    value = tool_results.build_tool_result_from_stored_text(result.content, is_error=result.is_error)
    return types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=value)


def _build_failed_tool_result_reply(message: types.JSONRPCRequest, error: CheckpointsError) -> Reply:
    value = tool_results.build_text_result(_describe_error(error), is_error=True)
    return types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=value)


def _describe_error(error: CheckpointsError) -> str:
    """Describe an error for the model that made the call."""
    if not isinstance(error, ReviewRequired):
        return f"{type(error).__name__}: {error}"
    return (
        f"{type(error).__name__}: {error.detail} A person decides about it in Harness. Do not try to reach the same in "
        "another way. Call the tool again with the same arguments after the decision."
    )
