"""Plugin that guards the tools of agents: each call passes the log, and the gate is a request for a confirmation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import uuid4

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm.task._finish_task_tool import FinishTaskTool
from google.adk.plugins import BasePlugin
from google.adk.sessions import Session
from google.adk.tools.agent_tool import AgentTool, _SingleTurnAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool, transfer_to_agent
from google.genai import types
from pydantic_core import to_jsonable_python

from checkpoints.adapters.async_session_claims import AsyncClaims
from checkpoints.adapters.google_adk.event_conversion import CONFIRMATION_CALL
from checkpoints.adapters.google_adk.session_service import (
    FRAMEWORK_NAME,
    HarnessSessionService,
    build_harness_session_id,
)
from checkpoints.adapters.google_adk.unanswered_confirmation_requests import find_open_requests
from checkpoints.async_client import Checkpointer
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.enums import CallStatus
from checkpoints.exceptions import ApprovalRequired, ReviewRequired
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard

#: Fields of a waiting call that the payload of a confirmation has.
_SHOWN_FIELDS: Final = ("call_id", "step", "tool_name", "args_json", "status", "reason", "started_at")
#: Tools of ADK itself that steer the agent and have no effect outside: their classes, and functions.
_CONTROL_TOOLS: Final = (FinishTaskTool, SetModelResponseTool, TransferToAgentTool)
_CONTROL_FUNCTIONS: Final = (exit_loop, transfer_to_agent)
#: What a tool can change beside the state. A replay makes the same changes.
_REPLAYED_ACTIONS: Final = (
    "skip_summarization",
    "artifact_delta",
    "transfer_to_agent",
    "escalate",
    "set_model_response",
)
_UNDECIDED_STATUSES: Final = frozenset({CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL})
_PART: Final = "google.genai.types.Part"


@dataclass
class _OuterCall:
    """Call of a tool that runs an agent: the calls of that agent are logged in the session of the caller.

    Attributes:
        harness_session_id: Session that has the calls.
        description: Description of the session.
        call_ids: Identifiers of the calls of the agent.
        gate: Error of a call of the agent about which a person has to decide first. ADK gives the errors of some agents
            to the model; the calls around them raise this one again.
    """

    harness_session_id: str
    description: NewSessionFields
    call_ids: list[str] = field(default_factory=list)
    gate: ReviewRequired | ApprovalRequired | None = None


#: Call that runs the agent of the current task.
_outer_call: ContextVar[_OuterCall | None] = ContextVar("harness_outer_call", default=None)


class Harness(BasePlugin):
    """Guard for the tools of all agents of a runner.

        service = HarnessSessionService(checkpointer)
        harness = Harness(service, ToolPolicies({"get_*": {"side_effects": {"read"}}}))
        app = App(name="refunds", root_agent=agent, plugins=[harness])
        runner = Runner(app=app, session_service=service)

    The first call with side effects claims the session, and the end of the run releases it. If a person has to decide
    about a call first, the run stops with a request for a confirmation, as for a tool of ADK that requires one.
    """

    def __init__(
        self,
        checkpointer: HarnessSessionService | SyncCheckpointer | Checkpointer | None = None,
        policies: ToolPolicies | None = None,
        *,
        name: str = "harness",
    ) -> None:
        """Create the plugin.

        Args:
            checkpointer: Session service of the runner, or a client. None uses the `default` database of the project.
            policies: Options of tools by patterns of their names. None: every tool mutates.
            name: Name of the plugin, unique in the runner.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        super().__init__(name)
        self._service = (
            checkpointer if isinstance(checkpointer, HarnessSessionService) else HarnessSessionService(checkpointer)
        )
        self._client = self._service.client
        self._policies = policies or ToolPolicies()
        self._policies.register_verify_hooks(self._client.sync)
        self._claims = AsyncClaims(self._client.given)

    async def build_confirmations(self, *, app_name: str, user_id: str, session_id: str) -> types.Content | None:
        """Build the message with which a stopped run continues, in any process.

            message = await harness.build_confirmations(app_name="refunds", user_id="ann", session_id="order-17")
            if message is not None:
                async for event in runner.run_async(user_id="ann", session_id="order-17", new_message=message): ...

        The decisions themselves are read from the log.

        Args:
            app_name: Name of the app.
            user_id: Identifier of the user.
            session_id: Identifier of the session.

        Returns:
            The answers to the requests that this plugin has made in one invocation, the oldest one that has some; None
            if there is none, or if a call of the session still waits for a decision.

        Raises:
            CheckpointCorrupted: A stored event cannot be read.
        """
        session = await self._service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        requests = (
            [] if session is None else find_open_requests(session.events, self._policies.matches_calls_by_arguments)
        )
        if not requests:
            return None
        harness_session_id = build_harness_session_id(app_name, user_id, session_id)
        pending = await self._client.run_blocking(lambda: self._client.sync.pending_tool_calls(harness_session_id))
        if any(call["status"] in _UNDECIDED_STATUSES for call in pending):
            return None
        waiting = {call["call_id"] for call in pending}
        decided = [request for request in requests if request.call_id not in waiting]
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=request.request_id, name=CONFIRMATION_CALL, response={"confirmed": True}
                )
            )
            for request in decided
            if request.invocation_id == decided[0].invocation_id  # ADK refuses answers to several invocations
        ]
        return types.Content(role="user", parts=parts) if parts else None

    # ---- callbacks

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Guard the tool that runs next, so that all callbacks and ADK's own confirmations are as without the guard."""
        if not _is_control_tool(tool) and not isinstance(tool.run_async, _GuardedRun):
            tool.run_async = _GuardedRun(tool)  # type: ignore[method-assign]
        return None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Release the session at the end of a run."""
        await self._release_session(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Release the session after a run that raised."""
        await self._release_session(invocation_context)

    async def _release_session(self, invocation_context: InvocationContext) -> None:
        if _outer_call.get() is None:
            harness_session_id = _get_harness_session_id(invocation_context.session)
            await asyncio.shield(self._claims.release_session_now_or_when_idle(harness_session_id))

    # ---- calls

    async def run_tool(
        self, tool: BaseTool, run: Callable[..., Awaitable[Any]], args: dict[str, Any], tool_context: ToolContext
    ) -> Any:
        """Run a tool through the log.

        Args:
            tool: The tool.
            run: Its own `run_async`.
            args: Arguments of the call.
            tool_context: Context of the call.

        Returns:
            What the tool returned, in this run or an earlier one; an error for the model if a person rejected the call.

        Raises:
            ReviewRequired: A person has to decide about interrupted calls first, and the run cannot stop here.
            ApprovalRequired: A person has to approve the call first, and the run cannot stop here.
            StaleSessionError: Another process has continued the session since the model made the call.
        """
        is_agent = isinstance(tool, AgentTool)
        if not is_agent and not self._policies.logs_calls(tool.name):
            return await run(args=args, tool_context=tool_context)
        try:
            if is_agent:
                return await self._run_agent_tool(run, args, tool_context)
            return await self._run_logged_call(tool, run, args, tool_context)
        except (ReviewRequired, ApprovalRequired) as gate:
            if (
                _find_outer_call(tool_context.session) is not None
                or tool_context.tool_confirmation is not None  # ADK asks once about a call
                or not tool_context.function_call_id
                or isinstance(tool, _SingleTurnAgentTool)  # its agent has asked already
            ):
                if (outer := _outer_call.get()) is not None:
                    outer.gate = gate
                raise
            tool_context.request_confirmation(hint=str(gate), payload=_build_details_of_calls_awaiting_decision(gate))
            tool_context.actions.skip_summarization = True
            return {"error": "The call waits for the decision of a person."}

    async def _run_agent_tool(
        self, run: Callable[..., Awaitable[Any]], args: dict[str, Any], tool_context: ToolContext
    ) -> Any:
        """Run an agent that is a tool. Its calls are logged one by one, so that the call itself needs no log."""
        outer = _outer_call.get()
        if outer is not None:
            result = await run(args=args, tool_context=tool_context)
            if outer.gate is not None:
                raise outer.gate
            return result
        outer = _OuterCall(
            _get_harness_session_id(tool_context.session), _build_session_description(tool_context.session)
        )
        token = _outer_call.set(outer)
        try:
            result = await run(args=args, tool_context=tool_context)
        finally:
            _outer_call.reset(token)
        if outer.gate is not None:
            raise outer.gate
        if tool_context.function_call_id:
            self._service.remember_inner_calls_to_close(
                outer.harness_session_id, tool_context.function_call_id, outer.call_ids
            )
        return result

    async def _run_logged_call(
        self, tool: BaseTool, run: Callable[..., Awaitable[Any]], args: dict[str, Any], tool_context: ToolContext
    ) -> Any:
        execution = _Execution(run, tool_context)
        # A tool that a program runs itself, outside an answer of a model, has no identifier of its call.
        call_id = tool_context.function_call_id or f"harness-{uuid4()}"
        try:
            async with self._claim_session_during_call(tool_context.session, call_id) as harness_session_id:
                result = await aguard(
                    self._client.given,
                    harness_session_id,
                    tool.name,
                    _convert_to_json(args),
                    call_id,
                    execution.run,
                    policies=self._policies,
                    codec=_CODEC,
                    failed=_is_failed_value,
                )
        except _ToolPaused:
            return execution.result
        if _find_outer_call(tool_context.session) is None and _is_call_of_node(tool_context):
            self._service.remember_node_call_to_close(harness_session_id, tool_context.node_path, call_id)
        if execution.has_run:
            return execution.result
        return _apply_replayed_changes_and_get_result(result, tool_context)

    @asynccontextmanager
    async def _claim_session_during_call(self, session: Session, call_id: str) -> AsyncIterator[str]:
        """Hold the session that logs a call of a session of ADK."""
        outer = _find_outer_call(session)
        if outer is not None:
            outer.call_ids.append(call_id)
        harness_session_id, description = (
            (_get_harness_session_id(session), _build_session_description(session))
            if outer is None
            else (outer.harness_session_id, outer.description)
        )
        async with self._claims.claim_session_during_call(harness_session_id, description, release_after=False):
            if outer is None:
                await self._client.run_blocking(partial(self._service.require_newest_revision, session))
            yield harness_session_id


def _is_control_tool(tool: BaseTool) -> bool:
    """Return whether a tool is one of ADK itself by which it steers agents; a tool of a program may have its name."""
    if isinstance(tool, FunctionTool) and tool.func in _CONTROL_FUNCTIONS:
        return True
    return isinstance(tool, _CONTROL_TOOLS)


class _GuardedRun:
    """`run_async` of one tool, through the log of the runner's plugin; the tool's own one without such a plugin."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool, self._run = tool, tool.run_async

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        plugins = tool_context._invocation_context.plugin_manager.plugins
        plugin = next((plugin for plugin in plugins if isinstance(plugin, Harness)), None)
        if plugin is None:
            return await self._run(args=args, tool_context=tool_context)
        return await plugin.run_tool(self._tool, self._run, args, tool_context)


class _ToolPaused(Exception):
    """The tool asks for a confirmation or credentials itself, and runs again then: this attempt counts as failed."""

    def __init__(self) -> None:
        super().__init__("The tool asked its user for a confirmation or for credentials, and runs again.")


class _Execution:
    """Execution of one tool by ADK.

    Attributes:
        has_run: Whether it has run.
        result: What it returned.
    """

    def __init__(self, run: Callable[..., Awaitable[Any]], tool_context: ToolContext) -> None:
        self._run, self._context = run, tool_context
        self.has_run = False
        self.result: Any = None

    async def run(self, args: dict[str, Any]) -> dict[str, Any]:
        """Run the tool with arguments that a person may have changed. Returns its result, and what it changed."""
        self.result = await self._run(args=args, tool_context=self._context)
        self.has_run = True
        actions = self._context.actions
        if actions.requested_tool_confirmations or actions.requested_auth_configs:
            raise _ToolPaused
        changes = {name: getattr(actions, name) for name in _REPLAYED_ACTIONS if getattr(actions, name, None)}
        return {"result": self.result, "state": dict(actions.state_delta), "actions": changes}


def _apply_replayed_changes_and_get_result(result: ToolResult, tool_context: ToolContext) -> Any:
    """Return a result of the log, and make the changes that the tool made when it ran."""
    value = result.value
    if not isinstance(value, dict):
        return {"error": result.content} if result.is_error else result.content
    for name, changed in value["state"].items():
        tool_context.state[name] = changed
    for name, changed in value["actions"].items():
        setattr(tool_context.actions, name, changed)
    return value["result"]


def _is_failed_value(value: dict[str, Any]) -> bool:
    result = value["result"]
    return isinstance(result, dict) and bool(result.get("error") or result.get("isError"))


def _encode_value(value: dict[str, Any]) -> tuple[str, bytes]:
    return "google-adk", json.dumps(_convert_to_json(value)).encode()


def _decode_value(encoded: tuple[str, bytes]) -> dict[str, Any]:
    return dict(json.loads(encoded[1], object_hook=_decode_part_or_dict))


def _decode_part_or_dict(value: dict[str, Any]) -> Any:
    return types.Part.model_validate(value[_PART]) if list(value) == [_PART] else value


def _convert_to_json(value: Any) -> Any:
    """Convert a value to JSON. A part, such as an image, comes back as one; another type as what it is in JSON."""
    if isinstance(value, types.Part):
        return {_PART: value.model_dump(mode="json", by_alias=True, exclude_none=True)}
    if isinstance(value, dict):
        return {str(name): _convert_to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_to_json(each) for each in value]
    return to_jsonable_python(value, fallback=repr)


def _format_value_as_text(value: dict[str, Any]) -> str:
    result = value["result"]
    if isinstance(result, dict) and list(result) == ["result"]:
        result = result["result"]
    return result if isinstance(result, str) else json.dumps(_convert_to_json(result), ensure_ascii=False)


_CODEC: Final = ValueCodec(_encode_value, _decode_value, _format_value_as_text)


def _get_harness_session_id(session: Session) -> str:
    return build_harness_session_id(session.app_name, session.user_id, session.id)


def _is_call_of_node(tool_context: ToolContext) -> bool:
    """Return whether a node of a workflow has made a call. A call that a model has made is in an event."""
    if not tool_context.node_path or not tool_context.function_call_id:
        return False
    return not any(
        call.id == tool_context.function_call_id
        for event in reversed(tool_context.session.events)
        for call in event.get_function_calls()
    )


def _find_outer_call(session: Session) -> _OuterCall | None:
    """Return the call that runs the agent of a session; None if the agent runs in the session of the caller, as one
    with the mode `single_turn` does."""
    outer = _outer_call.get()
    return None if outer is None or outer.harness_session_id == _get_harness_session_id(session) else outer


def _build_session_description(session: Session) -> NewSessionFields:
    texts = (
        part.text
        for event in session.events
        if event.author == "user" and event.content is not None
        for part in event.content.parts or ()
        if part.text
    )
    return NewSessionFields(next(texts, ""), session.app_name, framework=FRAMEWORK_NAME)


def _build_details_of_calls_awaiting_decision(gate: ReviewRequired | ApprovalRequired) -> dict[str, Any]:
    """Return the payload of a confirmation, which is JSON: which calls wait, and where to decide."""
    kind = "approval_required" if isinstance(gate, ApprovalRequired) else "review_required"
    waiting = [
        {name: value if isinstance(value := call.get(name), int) else str(value or "") for name in _SHOWN_FIELDS}
        for call in gate.calls
    ]
    return {"type": kind, "session_id": gate.session_id, "calls": waiting, "message": str(gate)}
