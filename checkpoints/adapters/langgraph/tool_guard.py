"""Guard for the tools of a graph: each call passes the log, and the gate becomes an interrupt of the graph."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from checkpoints.adapters.async_session_claims import AsyncClaims
from checkpoints.adapters.langgraph import langchain_messages_to_transcript
from checkpoints.adapters.langgraph.saver import FRAMEWORK, HarnessSaver
from checkpoints.async_client import Checkpointer
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.exceptions import ApprovalRequired, InvalidInput, ReviewRequired
from checkpoints.framework_states import find_decisions_or_discard_interrupt_calls
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard, guard

Result: TypeAlias = ToolMessage | Command[Any]
#: Fields of a waiting call that the value of an interrupt has.
_SHOWN_FIELDS = ("call_id", "tool_name", "args_json", "status", "reason", "started_at")


class ToolGuard:
    """Guard for the calls of a `ToolNode`, as its `wrap_tool_call` and `awrap_tool_call`.

    guarded = ToolGuard(saver, ToolPolicies({"get_*": {"side_effects": {"read"}}}))
    node = ToolNode(tools, wrap_tool_call=guarded.wrap_tool_call, awrap_tool_call=guarded.awrap_tool_call)

    A call of a tool with side effects claims the session of its thread. If a person has to decide first, the session is
    released and the graph interrupted; when it is resumed, with any value, the call continues as was decided.
    """

    def __init__(
        self,
        checkpointer: HarnessSaver | SyncCheckpointer | Checkpointer,
        policies: ToolPolicies | None = None,
        *,
        agent: str = "langgraph",
        release_after_call: bool = True,
    ) -> None:
        """Create a guard.

        Args:
            checkpointer: Checkpointer of the graph, or a client.
            policies: Options of tools by patterns of their names. None: every tool mutates.
            agent: Name of the agent of new sessions, for lists and filters.
            release_after_call: Whether the session is released after each call. False keeps it until `release`.
        """
        self._saver = checkpointer if isinstance(checkpointer, HarnessSaver) else None
        self._client = checkpointer.checkpointer if isinstance(checkpointer, HarnessSaver) else checkpointer
        sync = self._client.sync if isinstance(self._client, Checkpointer) else self._client
        self._async_claims = AsyncClaims(self._client)
        self._claims = self._async_claims.claims
        self._sync = sync
        self._policies = policies or ToolPolicies()
        self._policies.register_verify_hooks(sync)
        self._description = NewSessionFields(agent=agent, framework=FRAMEWORK)
        self._release_after_call = release_after_call
        serde = checkpointer.serde if isinstance(checkpointer, HarnessSaver) else JsonPlusSerializer()
        self._codec = ValueCodec(serde.dumps_typed, serde.loads_typed, _format_tool_result_as_text)

    # ---- calls

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Make one call, blocking.

        Args:
            request: The call.
            handler: Function that runs the tool.

        Returns:
            What the tool returned, now or in an earlier run of the graph.

        Raises:
            SessionBusy: A run of another client owns the session and is alive.
            OwnershipLost: Another run has continued the thread from the state in which this call is made.
            InvalidInput: The config of the graph has no `thread_id`.
        """
        call = request.tool_call
        if not self._policies.logs_calls(call["name"]):
            return handler(request)
        thread_id, config = _get_thread_id_and_config(request)
        while True:
            try:
                with self._claim_session_during_call(thread_id):
                    for seconds in self._iterate_sleeps_until_state_stored_and_newest(thread_id, config):
                        time.sleep(seconds)
                    result = guard(
                        self._client,
                        thread_id,
                        call["name"],
                        call["args"],
                        _get_call_id_or_tool_name(call),
                        lambda args: handler(_replace_call_arguments(request, args)),
                        policies=self._policies,
                        codec=self._codec,
                        failed=_is_error_message,
                    )
                return _convert_result_for_call(result, call)
            except (ReviewRequired, ApprovalRequired) as gate:
                waiting, calls = _build_details_of_calls_awaiting_decision(gate), gate.calls
            if not self._discard_answered_interrupt_calls(thread_id, calls):
                self._claims.release_session_now_or_when_idle(thread_id)
                interrupt(waiting)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Make one call, async. Arguments, result and errors are those of `wrap_tool_call`."""
        call = request.tool_call
        if not self._policies.logs_calls(call["name"]):
            return await handler(request)
        thread_id, config = _get_thread_id_and_config(request)
        while True:
            try:
                async with self._async_claims.claim_session_during_call(
                    thread_id, self._description, release_after=self._release_after_call
                ):
                    pauses = self._iterate_sleeps_until_state_stored_and_newest(thread_id, config)
                    seconds = await self._async_claims.run_blocking(partial(next, pauses, None))
                    while seconds is not None:
                        await asyncio.sleep(seconds)
                        seconds = await self._async_claims.run_blocking(partial(next, pauses, None))
                    result = await aguard(
                        self._client,
                        thread_id,
                        call["name"],
                        call["args"],
                        _get_call_id_or_tool_name(call),
                        lambda args: handler(_replace_call_arguments(request, args)),
                        policies=self._policies,
                        codec=self._codec,
                        failed=_is_error_message,
                    )
                return _convert_result_for_call(result, call)
            except (ReviewRequired, ApprovalRequired) as gate:
                waiting, calls = _build_details_of_calls_awaiting_decision(gate), gate.calls
            if not await self._async_claims.run_blocking(
                partial(self._discard_answered_interrupt_calls, thread_id, calls)
            ):
                await self.arelease(thread_id)
                interrupt(waiting)

    def _iterate_sleeps_until_state_stored_and_newest(self, thread_id: str, config: RunnableConfig) -> Iterator[float]:
        """Wait for the state that has the message with the call, and require that nobody has continued from it.

        A call that was logged before its state would count as one of an earlier version, in which the answers of the
        calls before it are missing: a model that gives two calls the same id would get the result of the first one.
        """
        if self._saver is not None:
            yield from self._saver.iterate_pauses_until_states_are_stored(config)
            self._saver.require_no_newer_state(thread_id, config["configurable"].get("checkpoint_map") or {})

    def _discard_answered_interrupt_calls(self, thread_id: str, calls: Sequence[Mapping[str, Any]]) -> bool:
        """Withdraw the question of an interrupt about a call that the graph makes now: the program has answered it."""
        call_ids = [str(call["call_id"]) for call in calls]
        with self._claims.lock_session_claims(thread_id):
            return find_decisions_or_discard_interrupt_calls.discard_undecided_calls_by_call_id(
                self._sync.store, thread_id, call_ids
            )

    @contextmanager
    def _claim_session_during_call(self, thread_id: str) -> Iterator[None]:
        self._claims.claim_session_and_count_running_call(thread_id, self._description)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._claims.end_call_claim(thread_id)
            if error is not None or self._release_after_call:
                self._claims.release_session_now_or_when_idle(thread_id)

    # ---- release

    def release(self, thread_id: str) -> None:
        """Release the session of a thread, or let its last running call release it.

        Args:
            thread_id: Identifier of the thread.
        """
        self._claims.release_session_now_or_when_idle(thread_id)

    async def arelease(self, thread_id: str) -> None:
        """Release the session of a thread, or let its last running call release it.

        Args:
            thread_id: Identifier of the thread.
        """
        await self._async_claims.release_session_now_or_when_idle(thread_id)


class HarnessMiddleware(AgentMiddleware[Any, Any]):
    """Guard for the tools of `create_agent`.

        agent = create_agent(model, tools, checkpointer=saver, middleware=[HarnessMiddleware(saver)])

    The session of a thread is claimed by the first call with side effects, and released when the agent ends, fails or
    is interrupted.
    """

    def __init__(
        self,
        checkpointer: HarnessSaver | SyncCheckpointer | Checkpointer,
        policies: ToolPolicies | None = None,
        *,
        agent: str = "langgraph",
    ) -> None:
        """Create the middleware.

        Args:
            checkpointer: Checkpointer of the agent, or a client.
            policies: Options of tools by patterns of their names. None: every tool mutates.
            agent: Name of the agent of new sessions, for lists and filters.
        """
        super().__init__()
        self.tool_guard = ToolGuard(checkpointer, policies, agent=agent, release_after_call=False)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        return self.tool_guard.wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        return await self.tool_guard.awrap_tool_call(request, handler)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model, and release the session of the thread if that fails."""
        try:
            return handler(request)
        except BaseException:
            self._release_session_of_current_graph_thread()
            raise

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        try:
            return await handler(request)
        except BaseException:
            await self._arelease_session_of_current_graph_thread()
            raise

    def after_agent(self, state: Any, runtime: Any) -> None:
        self._release_session_of_current_graph_thread()

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await self._arelease_session_of_current_graph_thread()

    def _release_session_of_current_graph_thread(self) -> None:
        thread_id = get_config()["configurable"].get("thread_id")
        if thread_id is not None:
            self.tool_guard.release(str(thread_id))

    async def _arelease_session_of_current_graph_thread(self) -> None:
        thread_id = get_config()["configurable"].get("thread_id")
        if thread_id is not None:
            await self.tool_guard.arelease(str(thread_id))


def _get_thread_id_and_config(request: ToolCallRequest) -> tuple[str, RunnableConfig]:
    """Return the thread of a call, and the config of the task that makes it."""
    config = request.runtime.config if request.runtime is not None else get_config()
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id is None:
        raise InvalidInput("A guarded tool needs a `thread_id` in the config of the graph, and a checkpointer.")
    return str(thread_id), config


def _get_call_id_or_tool_name(call: Any) -> str:
    return str(call["id"] or call["name"])


def _replace_call_arguments(request: ToolCallRequest, args: dict[str, Any]) -> ToolCallRequest:
    """Return the request with the arguments that a person may have changed."""
    if args == request.tool_call["args"]:
        return request
    return request.override(tool_call={**request.tool_call, "args": args})


def _is_error_message(value: Any) -> bool:
    return isinstance(value, ToolMessage) and value.status == "error"


def _find_tool_messages(value: Any) -> Sequence[ToolMessage]:
    if isinstance(value, ToolMessage):
        return [value]
    if isinstance(value, list | tuple):
        return [message for item in value for message in _find_tool_messages(item)]
    update = value.update if isinstance(value, Command) else None
    found = update.get("messages") if isinstance(update, dict) else None
    return [message for message in found if isinstance(message, ToolMessage)] if isinstance(found, list) else []


def _format_tool_result_as_text(value: Any) -> str:
    found = _find_tool_messages(value)
    if found:
        return "\n".join(str(message.text) for message in found)
    return str(
        langchain_messages_to_transcript.convert_to_json_value(value.update if isinstance(value, Command) else value)
    )


def _convert_result_for_call(result: ToolResult, call: Any) -> Result:
    """Return the value of a call as an answer to `call`, or a message with the text that is known of it."""
    if result.value is None:
        status = "error" if result.is_error else "success"
        return ToolMessage(
            result.content, name=call["name"], tool_call_id=_get_call_id_or_tool_name(call), status=status
        )
    value = result.value
    return _copy_value_with_call_id(value, _get_call_id_or_tool_name(call)) if result.replayed else value  # type: ignore[no-any-return]


def _copy_value_with_call_id(value: Any, call_id: str) -> Any:
    """Return a replayed value as an answer to another call: the model may have asked again under a new id."""
    if isinstance(value, ToolMessage):
        return value.model_copy(update={"tool_call_id": call_id})
    if isinstance(value, list):
        return [_copy_value_with_call_id(item, call_id) for item in value]
    if isinstance(value, Command) and _find_tool_messages(value) and isinstance(value.update, dict):
        said = [_copy_value_with_call_id(message, call_id) for message in value.update["messages"]]
        return replace(value, update={**value.update, "messages": said})
    return value


def _build_details_of_calls_awaiting_decision(gate: ReviewRequired | ApprovalRequired) -> dict[str, Any]:
    """Return the value of the interrupt: which calls wait, and where to decide."""
    waiting = [
        {name: langchain_messages_to_transcript.convert_to_json_value(call.get(name)) for name in _SHOWN_FIELDS}
        for call in gate.calls
    ]
    kind = "approval_required" if isinstance(gate, ApprovalRequired) else "review_required"
    return {"type": kind, "session_id": gate.session_id, "calls": waiting, "message": str(gate)}
