"""Registry of the tools of an agent, bound to a session, which dispatches their calls by the name of the tool."""

from __future__ import annotations

import copy
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from checkpoints import sync_and_async_flow_runners
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import InvalidInput
from checkpoints.tools.dispatch_registered_call import CheckpointerLike, dispatch_call_flow
from checkpoints.tools.idempotency import IdempotencyPolicy, validate_idempotency_policy
from checkpoints.tools.run_call_and_record_outcome import WaitOptions
from checkpoints.tools.tool import Tool, ToolOptions, VerifyHook, make_tool

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
WaitMode = Literal["wait", "raise"]


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
        checkpointer.checkpointer_state.add_verify_hook_provider(self)

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
        with self._keep_bound_session_from_idling():
            return sync_and_async_flow_runners.run_flow(
                dispatch_call_flow(self, name, args, call_id, step=step, waiting=wait_options)
            )

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
        with self._keep_bound_session_from_idling():
            return await sync_and_async_flow_runners.run_flow_async(flow, run_blocking)

    async def _run_in_thread_and_disconnect(self, work: Callable[[], T]) -> T:
        """Take database work of a blocking client to a thread of the loop, on which no connection stays open."""
        client = self.checkpointer

        def run_and_disconnect() -> T:
            try:
                return work()
            finally:
                if client is not None:
                    client.checkpointer_state.close_thread_connections()

        return await sync_and_async_flow_runners.run_blocking_in_default_thread_pool(run_and_disconnect)

    def _keep_bound_session_from_idling(self) -> AbstractContextManager[None]:
        """Keep the session from being idle while one of its calls runs, logged or not."""
        return (
            nullcontext()
            if self.checkpointer is None
            else self.checkpointer.checkpointer_state.keep_session_from_idling(self.session_id)
        )
