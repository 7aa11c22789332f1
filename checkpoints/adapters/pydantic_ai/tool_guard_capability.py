"""Capability that guards the tools of an agent: each call passes the log, and the gate is a deferred approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from pydantic_ai import exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)

from checkpoints.adapters.async_session_claims import AsyncClaims
from checkpoints.adapters.pydantic_ai.harness_conversation_store import FRAMEWORK_NAME, HarnessConversationStore
from checkpoints.adapters.pydantic_ai.tool_result_codec import Deferral, Returned, build_codec
from checkpoints.async_client import Checkpointer
from checkpoints.calls import call_queries
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import CallStatus
from checkpoints.exceptions import ApprovalRequired, CallNotFound, InvalidInput, OwnershipLost, ReviewRequired
from checkpoints.formats import parse_json
from checkpoints.sessions import mark_or_require_session_framework
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard

#: What a run does at the gate: end with the requests, wait for the decision, or fail with the error of this library.
Pause = Literal["defer", "wait", "raise"]
#: Key of this capability in metadata of calls and tools.
_KEY = "harness"
_POLL_SECONDS = 0.25
#: Fields of a waiting call that the metadata of a request has.
_SHOWN_FIELDS = ("call_id", "step", "tool_name", "args_json", "status", "reason", "started_at")


class Harness(AbstractCapability[Any]):
    """Guard for the tools of an agent.

        agent = Agent(model, output_type=[str, DeferredToolRequests], capabilities=[Harness(checkpointer)])

    A conversation is a session. Its first call with side effects claims it, and the end of the run releases it. If a
    person has to decide about a call first, the call is deferred for approval.
    """

    def __init__(
        self,
        checkpointer: HarnessConversationStore | SyncCheckpointer | Checkpointer | None = None,
        policies: ToolPolicies | None = None,
        *,
        agent: str = "pydantic-ai",
        pause: Pause | None = None,
    ) -> None:
        """Create the capability.

        Args:
            checkpointer: Store of the conversations, or a client. None uses the `default` database of the project.
            policies: Options of tools by patterns of their names. None: every tool mutates.
            agent: Name of the agent of new sessions, for lists and filters.
            pause: `defer` ends a run that has to wait with `DeferredToolRequests`, `wait` waits in the run until the
                decision is made, and `raise` ends it with `ReviewRequired` or `ApprovalRequired`. None: `defer` if the
                agent has `DeferredToolRequests` among its output types, else `raise`.

        Raises:
            InvalidInput: There is no such pause.
        """
        if pause is not None and pause not in get_args(Pause):
            raise InvalidInput(f"{pause!r} is no pause. Use 'defer', 'wait' or 'raise'.")
        self._store = (
            checkpointer
            if isinstance(checkpointer, HarnessConversationStore)
            else HarnessConversationStore(checkpointer)
        )
        self._policies = policies or ToolPolicies()
        self._policies.register_verify_hooks(self._store.sync_checkpointer)
        self._claims = AsyncClaims(self._store.checkpointer)
        self._agent_name = agent
        self._pause = pause
        self._starts: dict[str | None, _RunStart] = {}

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    # ---- the run

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Any]) -> AgentRunResult[Any]:
        session_id = _get_conversation_or_run_id(ctx)
        revision = await self._store.find_revision(session_id)
        if revision is None:
            store = self._store.sync_checkpointer.store
            await self._claims.run_blocking(
                partial(
                    mark_or_require_session_framework.require_no_session_of_other_framework,
                    store,
                    session_id,
                    FRAMEWORK_NAME,
                )
            )
        self._starts[ctx.run_id] = _RunStart(revision, _collect_call_ids(ctx.messages))
        try:
            return await handler()  # type: ignore[no-any-return]
        finally:
            self._starts.pop(ctx.run_id, None)
            await asyncio.shield(self._claims.release_session_now_or_when_idle(session_id))

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Let the log ask for the approval that a tool requires by its own definition."""
        return [
            replace(each, kind="function", metadata={**(each.metadata or {}), _KEY: "requires_approval"})
            if each.kind == "unapproved"
            else each
            for each in tool_defs
        ]

    # ---- calls

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Any],
    ) -> Any:
        policies = self._policies
        if (tool_def.metadata or {}).get(_KEY) == "requires_approval":
            policies = policies.require_approval(call.tool_name)
        if not policies.logs_calls(call.tool_name):
            return await handler(args)
        session_id, given = _get_conversation_or_run_id(ctx), call.args_as_dict()

        async def call_handler_with_args(wanted: dict[str, Any]) -> Returned:
            validated = args if wanted == given else await _validate_changed_arguments(ctx, call, wanted)
            try:
                return Returned(await _run_tool_and_raise_hidden_timeout(handler, validated))
            except exceptions.CallDeferred as deferred:  # what the tool has begun must not begin again
                return Returned(Deferral(deferred.metadata, deferred.kind))

        description = NewSessionFields(_get_prompt(ctx), self._agent_name, framework=FRAMEWORK_NAME)
        try:
            async with self._claims.claim_session_during_call(session_id, description, release_after=False):
                await self._require_no_newer_save(ctx.run_id, session_id, call.tool_call_id)
                result = await aguard(
                    self._store.checkpointer,
                    session_id,
                    call.tool_name,
                    _find_requested_args_if_edited(ctx, call) or given,
                    call.tool_call_id,
                    call_handler_with_args,
                    policies=policies,
                    codec=build_codec(ctx, call.tool_name),
                )
        except (ReviewRequired, ApprovalRequired) as gate:
            if self._choose_pause_mode(ctx) == "raise":
                raise
            raise exceptions.ApprovalRequired(
                metadata={_KEY: _build_details_of_calls_awaiting_decision(gate)}
            ) from gate
        return _get_value_or_raise(result)

    async def _require_no_newer_save(self, run_id: str | None, session_id: str, call_id: str) -> None:
        """Require that nobody else has saved the conversation since the run began. Raises `OwnershipLost`."""
        start = self._starts.get(run_id)
        if start is None:
            return
        revision = await self._store.find_revision(session_id)
        if revision not in {start.revision, self._store.find_revision_written_by_this_store(session_id)}:
            raise OwnershipLost(session_id)
        if call_id in start.call_ids and await self._claims.run_blocking(
            partial(self._is_call_answered, session_id, call_id)
        ):
            raise OwnershipLost(session_id)  # saved between the load of the conversation and the run

    def _is_call_answered(self, session_id: str, call_id: str) -> bool:
        store = self._store.sync_checkpointer.store
        with database_operation(store.using, writes=False):
            row = look_up_and_lock_rows.get_session(store, session_id)
            try:
                call = look_up_and_lock_rows.get_latest_call_attempt(store, row, call_id)
            except CallNotFound:
                return False
        return call.answered_version is not None

    def _choose_pause_mode(self, ctx: RunContext[Any]) -> Pause:
        if self._pause is not None:
            return self._pause
        wanted = ctx.agent.output_type if ctx.agent is not None else None
        outputs = wanted if isinstance(wanted, list | tuple) else [wanted, *get_args(wanted)]
        return "defer" if DeferredToolRequests in outputs else "raise"

    # ---- decisions

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Wait for the decisions if the run is to wait; else leave the requests to the end of the run."""
        if self._choose_pause_mode(ctx) != "wait":
            return None
        mine = {
            call.tool_call_id for call in requests.approvals if _KEY in requests.metadata.get(call.tool_call_id, {})
        }
        while mine:
            results = await self.find_decisions(requests)
            if mine <= results.approvals.keys():
                return results
            await asyncio.sleep(_POLL_SECONDS)
        return None

    async def find_decisions(self, requests: DeferredToolRequests | None) -> DeferredToolResults:
        """Find the decisions about the calls that a run has deferred, for `deferred_tool_results` of the next run.

            results = await harness.find_decisions(conversation.deferred_tool_requests)
            result = await agent.run(conversation=conversation, deferred_tool_results=results)

        A rejected call is `ToolDenied` with the message of the person. One with changed arguments is `ToolApproved`
        with `override_args`, and any other one `ToolApproved`: it runs, or its stored result is replayed. `answered_by`
        has who decided.

        Args:
            requests: Requests of the conversation; None for none.

        Returns:
            The decisions. A call that is undecided is not among them.
        """
        found = DeferredToolResults()
        for call in requests.approvals if requests is not None else ():
            waiting = requests.metadata.get(call.tool_call_id, {}).get(_KEY) if requests is not None else None
            if isinstance(waiting, dict):
                found.update(
                    await self._claims.run_blocking(
                        _DecisionLookup(self._store.sync_checkpointer, call, waiting).find_decisions_of_call
                    )
                )
        return found


@dataclass(frozen=True)
class _RunStart:
    """What a run began with: the revision of its conversation, and the identifiers of the calls in its history."""

    revision: str | None
    call_ids: frozenset[str]


class _DecisionLookup:
    """Search for the decisions about the calls that one deferred call waits for."""

    def __init__(self, checkpointer: SyncCheckpointer, call: ToolCallPart, waiting: dict[str, Any]) -> None:
        self._store = checkpointer.store
        self._call = call
        self._session_id = str(waiting["session_id"])
        self._waiting = [(str(each["call_id"]), int(each["step"])) for each in waiting["calls"]]

    def find_decisions_of_call(self) -> DeferredToolResults:
        found = call_queries.find_calls_if_all_decided(self._store, self._session_id, self._waiting)
        if found is None:
            return DeferredToolResults()
        call_id = self._call.tool_call_id
        results = DeferredToolResults(approvals={call_id: ToolApproved()})
        actors = [decided.actor for decided in found if decided.actor]
        if actors:
            results.answered_by[call_id] = actors[-1]
        own = next((decided for decided in found if decided.call.call_id == call_id), None)
        if own is None:
            return results
        if own.actor:
            results.answered_by[call_id] = own.actor
        if own.call.status == CallStatus.REJECTED:
            results.approvals[call_id] = ToolDenied(own.call.result_text or ToolDenied().message)
        elif own.call.status == CallStatus.APPROVED and own.call.has_changed_args:
            results.approvals[call_id] = ToolApproved(override_args=parse_json(own.call.args))
            results.metadata[call_id] = {_KEY: "edited"}
        return results


def _get_conversation_or_run_id(ctx: RunContext[Any]) -> str:
    session_id = ctx.conversation_id or ctx.run_id
    if session_id is None:
        raise InvalidInput("A guarded tool needs a conversation: give the run a `conversation` or `conversation_id`.")
    return session_id


def _collect_call_ids(messages: Sequence[ModelMessage]) -> frozenset[str]:
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    return frozenset(part.tool_call_id for part in parts if isinstance(part, ToolCallPart))


def _get_prompt(ctx: RunContext[Any]) -> str:
    items = [ctx.prompt] if isinstance(ctx.prompt, str) else ctx.prompt or []
    return " ".join(item for item in items if isinstance(item, str))


def _find_requested_args_if_edited(ctx: RunContext[Any], call: ToolCallPart) -> dict[str, Any] | None:
    """Return the arguments that the model requested, by which the call is logged, if a person has changed them."""
    if not isinstance(ctx.tool_call_metadata, dict) or ctx.tool_call_metadata.get(_KEY) != "edited":
        return None
    for message in reversed(ctx.messages):
        for part in message.parts if isinstance(message, ModelResponse) else ():
            if isinstance(part, ToolCallPart) and part.tool_call_id == call.tool_call_id:
                return part.args_as_dict()
    return None


async def _validate_changed_arguments(ctx: RunContext[Any], call: ToolCallPart, args: dict[str, Any]) -> dict[str, Any]:
    """Validate arguments that a person has changed. Raises the tool's own error for arguments that do not fit."""
    if ctx.tool_manager is None:
        return args
    validated = await ctx.tool_manager.validate_tool_call(replace(call, args=args), approved=True)
    if validated.validation_error is not None:
        raise validated.validation_error
    return validated.validated_args or {}


async def _run_tool_and_raise_hidden_timeout(handler: Callable[[dict[str, Any]], Any], args: dict[str, Any]) -> Any:
    """Run the tool. What it does after a timeout is unknown, also if the model could be asked to try again."""
    try:
        return await handler(args)
    except exceptions.ToolRetryError as error:
        link: BaseException | None = error
        while link is not None:
            if isinstance(link, TimeoutError):
                raise TimeoutError(str(error)) from error
            link = link.__cause__ or link.__context__
        raise


def _get_value_or_raise(result: ToolResult) -> Any:
    if isinstance(result.value, Returned):
        if isinstance(result.value.value, Deferral):
            raise result.value.value.build_error()
        return result.value.value
    if not result.is_error:
        return result.content
    if result.replayed:
        return ToolDenied(result.content)
    raise exceptions.ToolFailed(result.content)


def _build_details_of_calls_awaiting_decision(gate: ReviewRequired | ApprovalRequired) -> dict[str, Any]:
    """Return the metadata of a request: which calls wait, and where to decide."""
    kind = "approval_required" if isinstance(gate, ApprovalRequired) else "review_required"
    waiting = [{name: call.get(name) for name in _SHOWN_FIELDS} for call in gate.calls]
    return {"type": kind, "session_id": gate.session_id, "calls": waiting, "message": str(gate)}
