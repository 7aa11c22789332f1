"""Registry of the tools of an agent, which makes their calls durable."""

from __future__ import annotations

import copy
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, Unpack, overload

from checkpoints import sansio, tracing
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import InvalidArguments, InvalidInput, NotRepresentable, RegistryNotBound, TooLarge
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.ids import validate_id, validate_number
from checkpoints.sansio import Flow
from checkpoints.store.call_intent_and_outcome_types import require_args_dict
from checkpoints.tools import dispatch
from checkpoints.tools.dispatch import WaitOptions
from checkpoints.tools.idempotency import IdempotencyPolicy, validate_idempotency_policy
from checkpoints.tools.tool import Tool, ToolOptions, VerifyHook, make_tool

if TYPE_CHECKING:
    from checkpoints.store.client_state import ClientState

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
WaitMode = Literal["wait", "raise"]


class CheckpointerLike(Protocol):
    """Checkpointer, blocking or async."""

    @property
    def client_state(self) -> ClientState: ...


@dataclass(eq=False)
class ToolRegistry:
    """Tools of one agent, bound to the session whose calls it logs.

    Without a client and a session there is no log: then a tool that only reads runs, and one with side effects is
    refused (`RegistryNotBound`), unless `unlogged` permits such calls without a log. Even then a tool that requires
    approval is refused: approvals are part of the log.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    checkpointer: CheckpointerLike | None = None
    session_id: str | None = None
    unlogged: bool = False
    idempotency: IdempotencyPolicy = "once"

    def __init__(
        self,
        tools: Iterable[Tool] | Mapping[str, Tool] = (),
        checkpointer: CheckpointerLike | None = None,
        session_id: str | None = None,
        *,
        unlogged: bool = False,
        idempotency: IdempotencyPolicy = "once",
    ) -> None:
        """Create a registry.

        Args:
            tools: Tools to add, also as a mapping by name.
            checkpointer: Client, blocking or async, to log calls through.
            session_id: Identifier of the session to log calls in.
            unlogged: Whether tools with side effects may run without a log.
            idempotency: Policy of the tools that have none of their own; `docs/idempotency.md` compares the policies.

        Raises:
            InvalidInput: The policy or a tool cannot be used.
        """
        self.tools = {}
        self.unlogged = unlogged
        self.idempotency = validate_idempotency_policy(idempotency)
        self.checkpointer = checkpointer
        self.session_id = session_id
        for item in tools.values() if isinstance(tools, Mapping) else tools:
            self.add(item)
        if checkpointer is not None:
            self.bind(checkpointer, session_id)

    def bind(self, checkpointer: CheckpointerLike, session_id: str | None = None) -> None:
        """Log calls through a client, and let its resumes use the verify hooks of these tools.

        A registry that is bound to a session serves that session alone; one that is bound to none serves any session.

        Args:
            checkpointer: Client, blocking or async.
            session_id: Identifier of the session. None keeps the one that is set.
        """
        self.checkpointer = checkpointer
        self.session_id = session_id or self.session_id
        checkpointer.client_state.add_verify_hook_provider(self)

    def for_session(self, checkpointer: CheckpointerLike, session_id: str) -> Self:
        """Create a registry with the same tools and options, bound to another session; this one stays bound as it is.

        Several sessions can thus share one registry at the same time. Tools that are added later are in both.

        Args:
            checkpointer: Client, blocking or async.
            session_id: Identifier of the session.

        Returns:
            The new registry.
        """
        view = copy.copy(self)
        view.session_id = None
        view.bind(checkpointer, session_id)
        return view

    def add(self, added: Tool) -> Tool:
        """Add a tool.

        Args:
            added: The tool.

        Returns:
            The same tool.

        Raises:
            InvalidInput: Another tool has its name, or its idempotency policy does not fit.
        """
        if self.tools.get(added.name, added) is not added:
            raise InvalidInput(f"There already is a tool {added.name!r}.")
        validate_idempotency_policy(self.get_idempotency_policy(added), added.scope)
        self.tools[added.name] = added
        return added

    def get_idempotency_policy(self, tool: Tool) -> IdempotencyPolicy:
        """Return the idempotency policy of a tool: its own, or that of the registry.

        Args:
            tool: The tool.

        Returns:
            The policy.
        """
        return self.idempotency if tool.idempotency is None else tool.idempotency

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Make a tool of a function and add it: `@registry.tool` or `@registry.tool(side_effects={"read"})`.

        Args:
            function: The function, sync or async. None: return a decorator.
            options: Fields of `Tool`; `name` is the function's own where it is left out.

        Returns:
            The function itself, unchanged, or a decorator that returns it.

        Raises:
            InvalidInput: An option cannot be used, or another tool has the name.
        """

        def add_tool_of_function(run: F) -> F:
            self.add(make_tool(run, typing.cast("ToolOptions", options)))
            return run

        return add_tool_of_function if function is None else add_tool_of_function(function)

    def knows_tool(self, name: str) -> bool:
        """Return whether a tool of this name is registered here.

        Args:
            name: Name of the tool.

        Returns:
            True if there is such a tool.
        """
        return name in self.tools

    def get_verify_hook(self, name: str) -> VerifyHook | None:
        """Return the verify hook of a tool.

        Args:
            name: Name of the tool.

        Returns:
            The hook; None where there is no such tool or it has none.
        """
        tool = self.tools.get(name)
        return None if tool is None else tool.verify

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
        """Make one call, blocking. Its intent is durable before it runs, and its outcome is logged after.

        A completed call of the same key is replayed instead of run.

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
        wait_options = WaitOptions(in_progress == "wait", approval == "wait")
        with self._keep_session_in_use():
            return sansio.run_flow(dispatch_call_flow(self, name, args, call_id, step=step, waiting=wait_options))

    async def adispatch(
        self,
        name: str,
        args: dict[str, Any],
        call_id: str,
        *,
        step: int | None = None,
        in_progress: WaitMode = "wait",
        approval: WaitMode = "raise",
    ) -> ToolResult:
        """Make one call, async. Its intent is durable before it runs, and its outcome is logged after.

        A completed call of the same key is replayed instead of run.

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
        wait_options = WaitOptions(in_progress == "wait", approval == "wait")
        flow = dispatch_call_flow(self, name, args, call_id, step=step, waiting=wait_options)
        run_blocking = getattr(self.checkpointer, "run_blocking", None) or self._run_in_thread_and_disconnect
        with self._keep_session_in_use():
            return await sansio.run_flow_async(flow, run_blocking)

    async def _run_in_thread_and_disconnect(self, work: Callable[[], T]) -> T:
        """Take database work of a blocking client to a thread of the loop, on which no connection stays open."""
        client = self.checkpointer

        def run_and_disconnect() -> T:
            try:
                return work()
            finally:
                if client is not None:
                    client.client_state.close_thread_connections()

        return await sansio.run_in_thread(run_and_disconnect)

    def _keep_session_in_use(self) -> AbstractContextManager[None]:
        """Keep the session from being idle while one of its calls runs, logged or not."""
        return (
            nullcontext()
            if self.checkpointer is None
            else self.checkpointer.client_state.keep_session_from_idling(self.session_id)
        )


def dispatch_call_flow(
    registry: ToolRegistry,
    name: str,
    args: dict[str, Any],
    call_id: str,
    *,
    step: int | None,
    waiting: WaitOptions,
) -> Flow[ToolResult]:
    """Dispatch one call from its intent to its result, for blocking and async drivers."""
    about = {tracing.OPERATION: "execute_tool", tracing.TOOL: str(name), tracing.CALL: str(call_id)}
    if registry.session_id is not None:
        about[tracing.SESSION] = registry.session_id
    with tracing.open_span(f"execute_tool {name}", about) as span:
        result = yield from _validate_and_dispatch_call_flow(registry, name, args, call_id, step, waiting)
        span.set_attributes(
            {
                "harness.call.replayed": result.replayed,
                "harness.call.attempt": result.attempt,
                "harness.call.is_error": result.is_error,
            }
        )
        return result


def _validate_and_dispatch_call_flow(
    registry: ToolRegistry,
    name: str,
    args: dict[str, Any],
    call_id: str,
    step: int | None,
    waiting: WaitOptions,
) -> Flow[ToolResult]:
    validate_id("call id", call_id)
    if step is not None:
        validate_number("step", step)
    tool = registry.tools.get(name)
    if tool is None:
        return ToolResult(call_id, f"There is no tool {name!r}. Nothing was run.", is_error=True)
    log = _find_call_log(registry, tool)
    try:
        require_args_dict(name, args)
        request = dispatch.DispatchRequest(
            tool, registry.get_idempotency_policy(tool), args, to_canonical_json(args, "args"), call_id, step
        )
        bound_args = tool.bind_arguments(args)
        if log is None:
            return (yield from dispatch.run_unlogged_call_flow(tool, bound_args, call_id))
    except (InvalidArguments, NotRepresentable, TooLarge) as error:
        return ToolResult(call_id, str(error), is_error=True)
    return (yield from dispatch.dispatch_logged_call_flow(log, request, bound_args, waiting))


def _find_call_log(registry: ToolRegistry, tool: Tool) -> dispatch.CallLog | None:
    """Return the log in which a call of `tool` is logged; None for a call that is not logged.

    Raises `RegistryNotBound` for a tool with side effects unless the registry permits calls without a log.
    """
    if not tool.logged:
        return None
    if registry.checkpointer is not None and registry.session_id is not None:
        state = registry.checkpointer.client_state
        log: dispatch.CallLog = state.open_call_log(state, registry.session_id)
        return log
    if registry.unlogged and not tool.requires_approval:  # approvals need the log
        return None
    raise RegistryNotBound(tool.name, "checkpointer" if registry.checkpointer is None else "session id")
