"""Guard for the tools of an agent: each call passes the log, and the gate is an interruption of the run."""

from __future__ import annotations

import asyncio
import copy
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from agents import Agent, FunctionTool, Handoff, Model, RunContextWrapper, Tool, ToolApprovalItem
from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from checkpoints.adapters.openai_agents import unfinished_run_and_model_answer
from checkpoints.adapters.openai_agents.agent_session import HarnessSession, RunContext
from checkpoints.adapters.openai_agents.durable_model import DurableModel, build_config_without_durable_models
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.calls import call_queries, unfinished_call_queries
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import ApprovalRequired, OwnershipLost, ReviewRequired
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.models import Decision, ToolCall
from checkpoints.store import look_up_and_lock_rows
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard
from checkpoints.tools.tool import ToolOptions

_OUTPUT_TYPES = {kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)}


def guard_agent(agent: Agent[Any], session: HarnessSession, policies: ToolPolicies | None = None) -> Agent[Any]:
    """Clone an agent, and those that it hands off to, with tools that pass the log. The given one stays as it is.

        agent = guard_agent(agent, session, ToolPolicies({"get_*": {"side_effects": {"read"}}}))
        result = await Runner.run(agent, "Refund order 17.", session=session)

    The session is claimed for each call alone. `HarnessRunner` guards agents too, and keeps what the model answered.

    Args:
        agent: The agent.
        session: Session in which calls are logged.
        policies: Options of tools by patterns of their names. None: every tool mutates.

    Returns:
        The clone, for runs with this session.
    """
    return AgentGuard(session, policies or ToolPolicies()).get_or_create_guarded_clone(agent)


class AgentGuard:
    """Guard for the agents of one session."""

    def __init__(
        self,
        session: HarnessSession,
        policies: ToolPolicies,
        *,
        run: RunContext | None = None,
        inner: bool = False,
        guards_inner_agents: bool = False,
        approvals: set[str] | None = None,
    ) -> None:
        """Create a guard.

        Args:
            session: Session in which calls are logged.
            policies: Options of tools by patterns of their names.
            run: Run whose answers of the model are kept, and that releases the session. None: each call releases it.
            inner: Whether the agents are those of a tool, whose turns are not in the session.
            guards_inner_agents: Whether the tools of agents that are tools are guarded when they run.
            approvals: Calls that the framework wants to be approved, shared with another guard. None: those of its own.
        """
        self._session, self._policies, self._run = session, policies, run
        self._inner, self._guards_inner_agents = inner, guards_inner_agents
        self._approval_requiring = _ApprovalRequiringPolicies(policies)
        self._client = session.client
        self._claims = SessionClaims.get_for_client(self._client.sync)
        self._codec = ValueCodec(_encode_tool_value, _decode_tool_value, _format_tool_result_as_text)
        self._clones: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._inner_guard: AgentGuard | None = self if inner else None
        #: Calls that the framework wants to be approved, and calls that were asked for.
        self._approvals: set[str] = set() if approvals is None else approvals
        self._seen: set[str] = set()
        policies.register_verify_hooks(self._client.sync)

    # ---- agents

    def get_or_create_guarded_clone(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the clone of an agent, the same one for the same agent."""
        known = self._clones.get(id(agent))
        if known is not None:
            return known[1]
        tools: list[Any] = []
        handoffs: list[Any] = []
        changes: dict[str, Any] = {"tools": tools, "handoffs": handoffs}
        if self._run is not None and not self._inner and isinstance(agent.model, Model):
            changes |= {"model": DurableModel(agent.model, self._run), "model_settings": agent.model_settings}
        clone = agent.clone(**changes)
        self._clones[id(agent)] = self._clones[id(clone)] = agent, clone
        tools.extend(self._guard_tool_if_logged(tool) for tool in agent.tools)
        handoffs.extend(self._guard_target_agent_of_handoff(target) for target in agent.handoffs)
        if agent.mcp_servers:
            clone.get_mcp_tools = partial(self._list_guarded_mcp_tools, clone)  # type: ignore[method-assign]
        return clone

    def find_handoff_agent_or_first(self, agent: Agent[Any], name: str) -> Agent[Any]:
        """Find the agent of a name among those that an agent hands off to, or return that agent.

        Args:
            agent: Clone of the first agent.
            name: Name to find.

        Returns:
            The clone of that name.
        """
        found, queue = {id(agent)}, [agent]
        for each in queue:
            if each.name == name:
                return each
            for target in each.handoffs:
                reference = None if isinstance(target, Agent) else getattr(target, "_agent_ref", None)
                next_agent: Any = target if isinstance(target, Agent) else reference and reference()
                if isinstance(next_agent, Agent) and id(next_agent) not in found:
                    found.add(id(next_agent))
                    queue.append(next_agent)
        return agent

    def _guard_target_agent_of_handoff(self, target: Any) -> Any:
        if isinstance(target, Agent):
            return self.get_or_create_guarded_clone(target)
        if not isinstance(target, Handoff):
            return target
        guarded = copy.copy(target)
        hand_off = target.on_invoke_handoff

        async def on_invoke_handoff(context: RunContextWrapper[Any], arguments: str) -> Any:
            agent = await hand_off(context, arguments)
            return self.get_or_create_guarded_clone(agent) if isinstance(agent, Agent) else agent

        guarded.on_invoke_handoff = on_invoke_handoff
        agent = target._agent_ref() if target._agent_ref is not None else None
        if isinstance(agent, Agent):
            guarded._agent_ref = weakref.ref(self.get_or_create_guarded_clone(agent))
        return guarded

    async def _list_guarded_mcp_tools(self, clone: Agent[Any], context: RunContextWrapper[Any]) -> list[Tool]:
        tools = await type(clone).get_mcp_tools(clone, context)
        return [self._guard_tool_if_logged(tool) for tool in tools]

    # ---- tools

    def _guard_tool_if_logged(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        if isinstance(tool.on_invoke_tool, _GuardedInvoker):  # a second guard would wait for the call of the first
            return tool
        if tool._is_agent_tool and self._guards_inner_agents:
            return self._copy_agent_tool_with_guarded_agent(tool)
        if self._policies.logs_calls(tool.qualified_name):
            return self._copy_tool_with_guard(tool)
        return _copy_agent_tool_to_run_with_program_config(tool) if tool._is_agent_tool else tool

    def _copy_agent_tool_with_guarded_agent(self, tool: FunctionTool) -> FunctionTool:
        """Return an agent that is a tool, whose own run is continued from a state with guarded tools."""
        if self._run is None or not isinstance(tool._agent_instance, Agent):
            return tool
        if self._inner_guard is None:
            self._inner_guard = AgentGuard(
                self._session,
                self._policies,
                run=self._run,
                inner=True,
                guards_inner_agents=True,
                approvals=self._approvals,
            )
        copied = copy.copy(tool)
        copied._agent_instance = self._inner_guard.get_or_create_guarded_clone(tool._agent_instance)
        return copied

    def _copy_tool_with_guard(self, tool: FunctionTool) -> FunctionTool:
        handles_errors = hasattr(tool.on_invoke_tool, "__agents_bind_function_tool__")
        tool_without_error_handler = copy.copy(tool)  # raises the errors that the other one describes to the model
        if handles_errors:
            set_function_tool_failure_error_function(tool_without_error_handler, None)

        async def on_invoke_tool(context: ToolContext[Any], arguments: str) -> Any:
            errors: list[BaseException] = []
            try:
                return await self._invoke_guarded_tool(tool_without_error_handler, context, arguments, errors)
            except Exception as error:
                if not handles_errors or error not in errors:
                    raise
                said = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=error
                )
                if said is None:
                    raise
                return said

        async def needs_approval(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
            wanted = tool.needs_approval
            if callable(wanted):
                wanted = await wanted(context, args, call_id)
            return await self._log_call_if_decision_needed(tool.qualified_name, args, call_id, wanted=bool(wanted))

        guarded = copy.copy(tool)
        guarded.on_invoke_tool = _GuardedInvoker(on_invoke_tool)
        guarded.needs_approval = needs_approval
        return guarded

    async def _invoke_guarded_tool(
        self, tool: FunctionTool, context: ToolContext[Any], arguments: str, errors: list[BaseException]
    ) -> Any:
        args = _parse_arguments_or_wrap_text(arguments)

        async def invoke_tool_with_args(given: dict[str, Any]) -> Any:
            text = arguments if given == args else json.dumps(given)
            used = _copy_context_without_durable_models(context) if tool._is_agent_tool else context
            if text != arguments:
                used = copy.copy(used)
                used.tool_arguments = text
            try:
                return await tool.on_invoke_tool(used, text)
            except Exception as error:
                errors.append(error)
                raise

        call_id = context.tool_call_id
        async with self._claim_session_during_call():
            result = await self._run_logged_call(tool.qualified_name, args, call_id, invoke_tool_with_args)
        if self._inner and self._run is not None:
            self._run.inner_calls.append(call_id)
        return result.content if result.value is None else result.value

    async def _run_logged_call(
        self, name: str, args: dict[str, Any], call_id: str, run: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> ToolResult:
        own = None if self._run is None else self._run.own
        if own is not None and await self._client.run_database_work_to_end(
            partial(
                unfinished_run_and_model_answer.is_call_answered_by_other_run,
                self._client.store,
                self._session.session_id,
                own,
                call_id,
            )
        ):
            raise OwnershipLost(self._session.session_id)
        self._seen.add(call_id)
        return await aguard(
            self._client,
            self._session.session_id,
            name,
            args,
            call_id,
            run,
            policies=self._approval_requiring if call_id in self._approvals else self._policies,
            codec=self._codec,
        )

    async def _log_call_if_decision_needed(
        self, name: str, args: dict[str, Any], call_id: str, *, wanted: bool
    ) -> bool:
        """Log a call that needs a decision, so that it is in the review queue. Returns whether it waits for that."""
        if wanted:
            self._approvals.add(call_id)
        try:
            async with self._claim_session_during_call():
                if not wanted and not self._policies.find_options(name).get("requires_approval"):
                    return False
                if not await self._client.run_database_work_to_end(
                    partial(self._is_unanswered_call_logged, name, args, call_id)
                ):
                    await self._run_logged_call(name, args, call_id, _refuse_run_of_call_awaiting_approval)
        except (ApprovalRequired, ReviewRequired):
            return True
        return False

    def _is_unanswered_call_logged(self, name: str, args: dict[str, Any], call_id: str) -> bool:
        """Return whether the log has a call. It is decided then: an undecided one would have held the session.

        One that has failed is not: its next attempt needs a decision of its own.
        """
        store = self._client.store
        row = look_up_and_lock_rows.get_session(store, self._session.session_id)
        newest = {
            call.idempotency_key: call
            for call in call_queries.list_unanswered_tool_calls(store, row.pk)
            if call.tool == name
        }
        calls = [call for call in newest.values() if call.status != CallStatus.FAILED]
        if any(call.call_id == call_id for call in calls):
            return True
        if not self._policies.matches_calls_by_arguments(name):
            return False
        digest = digests.digest_text(to_canonical_json(args, "args"))
        return any(
            call.call_id not in self._seen
            and digest in call_queries.collect_current_and_earlier_args_digests(store, call)
            for call in calls
        )

    async def try_register_call_decided_in_log(self, item: ToolApprovalItem) -> bool:
        """Register a call that a state of the SDK waits for, if the log has its decision.

        A call that has failed runs again; if it was approved, the next attempt waits for a decision of its own.

        Args:
            item: Interruption of the state.

        Returns:
            True if the call may go on: the log says whether it runs.
        """
        call_id = item.call_id
        attempt = (
            None
            if call_id is None
            else await self._client.run_database_work_to_end(
                partial(self._find_newest_attempt_if_none_undecided, call_id)
            )
        )
        if call_id is None or attempt is None:
            return False
        if attempt.status != CallStatus.FAILED:
            self._approvals.add(call_id)
            return True
        wanted = await self._client.run_database_work_to_end(partial(self._was_call_approved, attempt))
        args = _parse_arguments_or_wrap_text(item.arguments or "")
        try:
            return not await self._log_call_if_decision_needed(attempt.tool, args, call_id, wanted=wanted)
        finally:
            await self.release_session_now_or_when_idle()

    def _find_newest_attempt_if_none_undecided(self, call_id: str) -> ToolCall | None:
        """Return the newest attempt of an unanswered call; None if there is none, or if a call of the session is
        undecided."""
        store = self._client.store
        row = look_up_and_lock_rows.get_session(store, self._session.session_id)
        if unfinished_call_queries.list_verified_undecided_calls_of_session(store, row):
            return None
        calls = call_queries.list_unanswered_tool_calls(store, row.pk)
        return next((call for call in reversed(calls) if call.call_id == call_id), None)

    def _was_call_approved(self, call: ToolCall) -> bool:
        store = self._client.store
        approvals = Decision.objects.using(store.using).filter(tool_call=call, kind=DecisionKind.APPROVE)
        with database_operation(store.using, writes=False):
            return approvals.exists()

    # ---- ownership

    @asynccontextmanager
    async def _claim_session_during_call(self) -> AsyncIterator[None]:
        session_id = self._session.session_id
        try:
            await self._client.run_database_work_to_end(
                partial(
                    self._claims.claim_session_and_count_running_call,
                    session_id,
                    self._session.build_session_description(),
                )
            )
        except asyncio.CancelledError:  # the claim has succeeded
            await self._client.run_database_work_to_end(partial(self._end_call_claim, session_id, release=True))
            raise
        release = True
        try:
            yield
            release = self._run is None
        finally:
            await self._client.run_database_work_to_end(partial(self._end_call_claim, session_id, release=release))

    def _end_call_claim(self, session_id: str, *, release: bool) -> None:
        self._claims.end_call_claim(session_id)
        if release:
            self._claims.release_session_now_or_when_idle(session_id)

    async def release_session_now_or_when_idle(self) -> None:
        """Release the session, or let its last running call release it."""
        await self._client.run_database_work_to_end(
            partial(self._claims.release_session_now_or_when_idle, self._session.session_id)
        )


class _GuardedInvoker:
    """Function of a guarded tool, which can be told from others."""

    def __init__(self, invoke: Callable[[ToolContext[Any], str], Awaitable[Any]]) -> None:
        self._invoke = invoke

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        return await self._invoke(context, arguments)


class _ApprovalRequiringPolicies(ToolPolicies):
    """Policies of calls that the framework wants to be approved."""

    def __init__(self, policies: ToolPolicies) -> None:
        super().__init__(idempotency=policies.idempotency)
        self._given = policies

    def find_options(self, name: str) -> ToolOptions:
        return {**self._given.find_options(name), "requires_approval": True}

    def get_verify_hook(self, name: str) -> Any:
        return self._given.get_verify_hook(name)


def _copy_context_without_durable_models(context: ToolContext[Any]) -> ToolContext[Any]:
    """Return the context of a call whose tool may run an agent, with the configuration that the program gave."""
    copied = copy.copy(context)
    if copied.run_config is not None:
        copied.run_config = build_config_without_durable_models(copied.run_config)
    return copied


def _copy_agent_tool_to_run_with_program_config(tool: FunctionTool) -> FunctionTool:
    """Return an agent that is a tool and is not logged, whose run has the configuration that the program gave."""

    async def on_invoke_tool(context: ToolContext[Any], arguments: str) -> Any:
        return await tool.on_invoke_tool(_copy_context_without_durable_models(context), arguments)

    copied = copy.copy(tool)
    copied.on_invoke_tool = on_invoke_tool
    return copied


async def _refuse_run_of_call_awaiting_approval(args: dict[str, Any]) -> Any:
    raise AssertionError("A call that waits for approval was run.")


def _parse_arguments_or_wrap_text(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call; those that are no object are kept as text, for the tool to complain about."""
    try:
        parsed = json.loads(arguments) if arguments else {}
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": arguments}


# ---- values


def _encode_tool_value(value: Any) -> tuple[str, bytes]:
    """Encode a value of a tool. Raises `ValueError` for one that would not come back equal."""
    text = json.dumps(_convert_tool_output_to_dict(value))
    if not _are_same_values(_decode_stored_tool_output(json.loads(text)), value):
        raise ValueError("The value has no exact JSON form.")
    return "json", text.encode()


def _decode_tool_value(encoded: tuple[str, bytes]) -> Any:
    return _decode_stored_tool_output(json.loads(encoded[1]))


def _convert_tool_output_to_dict(value: Any) -> Any:
    kind = type(value).__name__
    if _OUTPUT_TYPES.get(kind) is type(value):
        return {"tool_output": kind, "value": value.model_dump(mode="json")}
    return {"list": [_convert_tool_output_to_dict(item) for item in value]} if type(value) is list else {"value": value}


def _decode_stored_tool_output(stored: Mapping[str, Any]) -> Any:
    if "list" in stored:
        return [_decode_stored_tool_output(item) for item in stored["list"]]
    kind = stored.get("tool_output")
    return stored["value"] if kind is None else _OUTPUT_TYPES[kind](**stored["value"])


def _are_same_values(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_are_same_values(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_are_same_values, left, right))
    return bool(left == right)


def _format_tool_result_as_text(value: Any) -> str:
    return value.text if isinstance(value, ToolOutputText) else str(value)
