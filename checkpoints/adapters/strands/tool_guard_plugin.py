"""Plugin that guards the tools of an agent: each call passes the log, and the gate is an interrupt of the agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

from strands.hooks import AfterInvocationEvent, AfterToolCallEvent, MessageAddedEvent
from strands.hooks.registry import HookOrder
from strands.middleware import ExecuteToolContext, ExecuteToolStage
from strands.plugins import Plugin
from strands.types.events import ToolResultEvent
from strands.types.session import decode_bytes_values, encode_bytes_values

from checkpoints.adapters.async_session_claims import AsyncClaims
from checkpoints.adapters.strands.session_repository import (
    FRAMEWORK_NAME,
    HarnessSessionRepository,
    SessionConflict,
)
from checkpoints.async_client import Checkpointer
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.exceptions import ApprovalRequired, CallNotFound, CheckpointsError, ReviewRequired, SessionNotFound
from checkpoints.formats import parse_message_parts
from checkpoints.framework_states import message_list_without_lease
from checkpoints.models import ToolCall
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard

#: Name of the interrupts of this plugin; a further one of the same call has a number behind it.
_INTERRUPT: Final = "harness"
#: Fields of a waiting call that the reason of an interrupt has.
_SHOWN_FIELDS = ("call_id", "step", "tool_name", "args_json", "status", "reason", "started_at")


class Harness(Plugin):
    """Guard for the tools of an agent.

        repository = HarnessSessionRepository(checkpointer)
        agent = Agent(
            model,
            tools=tools,
            session_manager=RepositorySessionManager("order-17", repository),
            plugins=[Harness("order-17", repository)],
        )

    The first call with side effects claims the session, and the end of the invocation releases it. If a person has to
    decide about a call first, the agent is interrupted.
    """

    name = "harness"

    def __init__(
        self,
        session_id: str,
        checkpointer: HarnessSessionRepository | SyncCheckpointer | Checkpointer | None = None,
        policies: ToolPolicies | None = None,
        *,
        agent: str = "strands",
    ) -> None:
        """Create the plugin. It can be that of all agents of the session.

        Args:
            session_id: Identifier of the session, as the session manager has it.
            checkpointer: Repository of the session, or a client. None uses the `default` database of the project.
            policies: Options of tools by patterns of their names. None: every tool mutates.
            agent: Name of the agent of a new session, for lists and filters.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        super().__init__()
        self._repository = (
            checkpointer
            if isinstance(checkpointer, HarnessSessionRepository)
            else HarnessSessionRepository(checkpointer)
        )
        self._client = self._repository.client
        self._session_id = session_id
        self._policies = policies or ToolPolicies()
        self._policies.register_verify_hooks(self._client.sync)
        self._claims = AsyncClaims(self._client.given)
        self._agent_name = agent
        #: Calls whose results are those of this process.
        self._answered: set[str] = set()
        #: Calls of the current invocation of each agent without a session manager, such as one of a graph.
        self._calls_without_session: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    def init_agent(self, agent: Any) -> None:
        """Add the guard to an agent.

        Args:
            agent: The agent.
        """
        agent.add_middleware(ExecuteToolStage, self._execute_tool)
        agent.hooks.add_callback(AfterToolCallEvent, self._raise_error_of_refused_call)
        agent.hooks.add_callback(AfterInvocationEvent, self._release_session_after_invocation)
        # Before the session manager stores the message.
        agent.hooks.add_callback(MessageAddedEvent, self._replace_results_of_killed_calls, order=HookOrder.SDK_FIRST)

    def build_responses(self, agent_id: str = "default") -> list[dict[str, Any]]:
        """Build the input with which an interrupted agent, graph or swarm continues, in any process.

            agent(harness.build_responses() or "Where is my refund?")
            swarm(harness.build_responses(swarm.id) or "Where is my refund?")

        The decisions themselves are read from the log. A call about which nobody has decided interrupts again.

        Args:
            agent_id: Identifier of the agent, the graph or the swarm.

        Returns:
            The responses to the interrupts of this plugin; none if nothing is interrupted.

        Raises:
            CheckpointCorrupted: The stored state cannot be read.
        """
        agent = self._repository.read_agent(self._session_id, agent_id)
        states = [
            agent.to_dict() if agent is not None else {},
            self._repository.read_multi_agent(self._session_id, agent_id) or {},
        ]
        interrupts = [state.get("_internal_state", {}).get("interrupt_state", {}) for state in states]
        return [
            {"interruptResponse": {"interruptId": each["id"], "response": "decided"}}
            for state in interrupts
            if state.get("activated")
            for each in state.get("interrupts", {}).values()
            if each["name"].partition(" ")[0] == _INTERRUPT and each["response"] is None
        ]

    # ---- calls

    async def _execute_tool(
        self, context: ExecuteToolContext, next_fn: Callable[[ExecuteToolContext], AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        name, call_id = context.tool_use["name"], str(context.tool_use["toolUseId"])
        if context.tool is None or not self._policies.logs_calls(name):
            async for event in next_fn(context):
                yield event
            return
        execution = _Execution(context, next_fn)
        try:
            result = await self._run_logged_call(context, execution)
        except (ReviewRequired, ApprovalRequired) as gate:
            for number in count(1):
                context.interrupt(
                    _INTERRUPT if number == 1 else f"{_INTERRUPT} {number}",
                    reason=_build_details_of_calls_awaiting_decision(gate),
                )
        except (CheckpointsError, SessionConflict) as error:
            raise _Refused(error) from error
        else:
            if result is not None and execution.result is None:
                execution.events.append(ToolResultEvent(_convert_to_tool_result(result, call_id)))
        self._answered.add(call_id)
        if context.agent._session_manager is None:
            self._calls_without_session.setdefault(context.agent, []).append(call_id)
        for event in execution.events:
            yield event

    async def _run_logged_call(self, context: ExecuteToolContext, execution: _Execution) -> ToolResult | None:
        """Make a call through the log. Returns None if the tool itself has failed or interrupts the agent."""
        agent_session_id = await self._load_session_id_of_agent(context.agent)
        is_direct = "event_loop_cycle_id" not in context.invocation_state
        try:
            async with self._claims.claim_session_during_call(
                agent_session_id, self._build_session_description(context.agent), release_after=is_direct
            ):
                if context.agent._session_manager is not None and not is_direct:
                    await self._client.run_blocking(
                        partial(
                            self._require_newest_message_has_call, agent_session_id, str(context.tool_use["toolUseId"])
                        )
                    )
                return await aguard(
                    self._client.given,
                    agent_session_id,
                    context.tool_use["name"],
                    context.tool_use["input"],
                    str(context.tool_use["toolUseId"]),
                    execution.run,
                    policies=self._policies,
                    codec=_CODEC,
                    failed=_is_failed_result,
                )
        except Exception as error:
            if error is not execution.error:
                raise
            return None

    def _require_newest_message_has_call(self, agent_session_id: str, call_id: str) -> None:
        """Require that nobody has continued the session since the model made a call. Raises `SessionConflict`."""
        newest = message_list_without_lease.list_messages_of_newest_version(self._client.store, agent_session_id, 1)
        blocks = [block for message in newest for block in message["content"] if "toolUse" in block]
        if newest and not any(block["toolUse"]["toolUseId"] == call_id for block in blocks):
            raise SessionConflict(
                f"Another process has continued the session {agent_session_id} since the model made the call "
                f"{call_id}. Nothing was done; create the agent again."
            )

    async def _raise_error_of_refused_call(self, event: AfterToolCallEvent[Any]) -> None:
        """End the invocation with the error of a call that was refused, which the model must not take for a result."""
        if isinstance(event.exception, _Refused):
            raise event.exception.error

    async def _release_session_after_invocation(self, event: AfterInvocationEvent) -> None:
        self._answered.clear()
        if event.result is not None and event.result.stop_reason != "interrupt":
            self._repository.remember_calls_to_close_with_node_state(
                event.agent, self._calls_without_session.pop(event.agent, [])
            )
        agent_session_id = await self._load_session_id_of_agent(event.agent)
        await asyncio.shield(self._claims.release_session_now_or_when_idle(agent_session_id))

    async def _load_session_id_of_agent(self, agent: Any) -> str:
        return await self._client.run_blocking(partial(self._load_session_id_of_agent_blocking, str(agent.agent_id)))

    def _load_session_id_of_agent_blocking(self, agent_id: str) -> str:
        return self._repository.load_session_id_of_agent(self._session_id, agent_id)

    def _build_session_description(self, agent: Any) -> NewSessionFields:
        asked = [message for message in agent.messages if message["role"] == "user"]
        title = parse_message_parts.find_first_user_text_or_empty(asked)
        return NewSessionFields(title, self._agent_name, framework=FRAMEWORK_NAME)

    # ---- results of calls that another process began

    async def _replace_results_of_killed_calls(self, event: MessageAddedEvent[Any]) -> None:
        """Let a message that answers calls of a killed process have their true results.

        Strands answers such a call with an error if the agent gets a new prompt. The call may have happened.
        """
        results = {
            block["toolResult"]["toolUseId"]: block["toolResult"]
            for block in event.message["content"]
            if "toolResult" in block and block["toolResult"].get("status") == "error"
        }
        open_ids = [call_id for call_id in results if call_id not in self._answered]
        if not open_ids:
            return
        agent_session_id = await self._load_session_id_of_agent(event.agent)
        try:
            calls = await self._client.run_blocking(partial(self._find_latest_attempts, agent_session_id, open_ids))
            if any(call.status in {CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES} for call in calls):
                async with self._claims.claim_session_during_call(
                    agent_session_id, self._build_session_description(event.agent), release_after=True
                ):
                    calls = await self._client.run_blocking(
                        partial(self._find_latest_attempts, agent_session_id, open_ids)
                    )
        except CheckpointsError:
            event.agent.messages.pop()
            raise
        for call in calls:
            if call.status in {CallStatus.COMPLETED, CallStatus.REJECTED}:
                status = "success" if call.status == CallStatus.COMPLETED else "error"
                results[call.call_id].update(status=status, content=[{"text": call.result_text}])

    def _find_latest_attempts(self, agent_session_id: str, call_ids: list[str]) -> list[ToolCall]:
        store, found = self._client.store, list[ToolCall]()
        with database_operation(store.using, writes=False):
            try:
                row = look_up_and_lock_rows.get_session(store, agent_session_id)
            except SessionNotFound:
                return []
            for call_id in call_ids:
                try:
                    found.append(look_up_and_lock_rows.get_latest_call_attempt(store, row, call_id))
                except CallNotFound:
                    continue
        return found


class _ToolPaused(Exception):
    """The tool interrupts the agent itself, and runs again when it is resumed: this attempt counts as failed."""

    def __init__(self) -> None:
        super().__init__("The tool has interrupted the agent, and runs again.")


class _Refused(Exception):
    """Error of this library, which is not one of the tool."""

    def __init__(self, error: CheckpointsError | SessionConflict) -> None:
        super().__init__(str(error))
        self.error = error


class _Execution:
    """Execution of one tool by Strands.

    Attributes:
        events: Events of the tool.
        result: Its result; None if it has not run.
        error: What it raised.
    """

    def __init__(
        self, context: ExecuteToolContext, next_fn: Callable[[ExecuteToolContext], AsyncGenerator[Any, None]]
    ) -> None:
        self._context, self._next = context, next_fn
        self.events: list[Any] = []
        self.result: dict[str, Any] | None = None
        self.error: BaseException | None = None

    async def run(self, args: dict[str, Any]) -> dict[str, Any]:
        """Run the tool with arguments that a person may have changed. Returns its result."""
        async for event in self._next(self._context.replace(tool_use={**self._context.tool_use, "input": args})):
            self.events.append(event)
            if "tool_interrupt_event" in event:
                self.error = _ToolPaused()
            if isinstance(event, ToolResultEvent):
                self.result, self.error = dict(event.tool_result), event.exception
        if self.error is not None:
            raise self.error
        return self.result or {}


def _is_failed_result(result: dict[str, Any]) -> bool:
    return result.get("status") == "error"


def _encode_tool_result(result: dict[str, Any]) -> tuple[str, bytes]:
    value = {key: value for key, value in result.items() if key != "toolUseId"}
    return "strands", json.dumps(encode_bytes_values(value), default=str).encode()


def _decode_tool_result(encoded: tuple[str, bytes]) -> dict[str, Any]:
    return dict(decode_bytes_values(json.loads(encoded[1])))


def _format_tool_result_as_text(result: dict[str, Any]) -> str:
    message = {"role": "tool", "content": encode_bytes_values(result.get("content", []))}
    return parse_message_parts.parts_to_text(parse_message_parts.list_message_parts(message))


_CODEC = ValueCodec(_encode_tool_result, _decode_tool_result, _format_tool_result_as_text)


def _convert_to_tool_result(result: ToolResult, call_id: str) -> Any:
    """Return a replayed result as an answer to this call: the model may have asked again under a new id."""
    if isinstance(result.value, dict):
        return {**result.value, "toolUseId": call_id}
    status = "error" if result.is_error else "success"
    return {"toolUseId": call_id, "status": status, "content": [{"text": result.content}]}


def _build_details_of_calls_awaiting_decision(gate: ReviewRequired | ApprovalRequired) -> dict[str, Any]:
    """Return the reason of an interrupt, which is JSON: which calls wait, and where to decide."""
    kind = "approval_required" if isinstance(gate, ApprovalRequired) else "review_required"
    waiting = [
        {name: value if isinstance(value := call.get(name), int) else str(value or "") for name in _SHOWN_FIELDS}
        for call in gate.calls
    ]
    return {"type": kind, "session_id": gate.session_id, "calls": waiting, "message": str(gate)}
