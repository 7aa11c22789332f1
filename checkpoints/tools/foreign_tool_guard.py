"""Guard for tools that this library does not define: the tools of a framework, called by its own loop.

    policies = ToolPolicies({"get_*": {"side_effects": {"read"}}, "send_*": {"requires_approval": True}})
    result = guard(cp, "order-17", "send_mail", args, call_id, run, policies=policies)

The call passes the same log as a dispatch: its intent is durable before it runs, a completed one is replayed, and one
whose outcome is unknown waits for a person. A tool without a policy counts as mutating.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, cast

from checkpoints import sync_and_async_flow_runners
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.enums import LOGGED_EFFECTS, KeyScope, SideEffect
from checkpoints.exceptions import InvalidInput
from checkpoints.tools.dispatch_registered_call import CheckpointerLike
from checkpoints.tools.idempotency import IdempotencyPolicy, validate_idempotency_policy
from checkpoints.tools.registry_and_dispatch import ToolRegistry, WaitMode
from checkpoints.tools.run_call_and_record_outcome import to_model_content
from checkpoints.tools.tool import Tool, ToolOptions, VerifyHook, make_tool


class ToolPolicies:
    """Options of foreign tools by patterns of their names. The first pattern that matches counts.

    A pattern is a name, or has `*`, `?` and `[…]` as file names have. A tool that no pattern matches has the options of
    `Tool`: it mutates. Bound to a client, the verify hooks are used by its resumes.
    """

    #: Verify hooks are for the calls of any session.
    session_id: str | None = None

    def __init__(
        self, policies: Mapping[str, ToolOptions] | None = None, *, idempotency: IdempotencyPolicy = "unanswered"
    ) -> None:
        """Create the policies.

        Args:
            policies: Options of `Tool`, by patterns of tool names.
            idempotency: Policy of the tools that have none of their own; `docs/idempotency.md` compares the policies.

        Raises:
            InvalidInput: An option cannot be used.
        """
        self._policies = {pattern: cast("ToolOptions", {**options}) for pattern, options in (policies or {}).items()}
        self.idempotency = validate_idempotency_policy(idempotency)
        for pattern in self._policies:
            tool = self.build_tool(pattern, print, pattern=pattern)
            if (tool.idempotency or idempotency) == "call" and tool.scope == KeyScope.WORKSPACE:
                raise InvalidInput(
                    f"The tools {pattern!r} have the idempotency policy 'call' and the scope 'workspace'. A framework "
                    "continues a call in a later step of its session, and only there it is known. Use 'once', or a "
                    "function of the args."
                )

    def register_verify_hooks(self, checkpointer: CheckpointerLike) -> None:
        """Let the resumes of a client use the verify hooks of these tools.

        Args:
            checkpointer: Client, blocking or async.
        """
        checkpointer.checkpointer_state.add_verify_hook_provider(self)

    def find_options(self, name: str) -> ToolOptions:
        """Return the options of a tool.

        Args:
            name: Name of the tool.

        Returns:
            The options of the first pattern that matches; none if there is no such pattern.
        """
        for pattern, options in self._policies.items():
            if fnmatchcase(name, pattern):
                return options
        return {}

    def logs_calls(self, name: str) -> bool:
        """Return whether the calls of a tool are logged before they run: it has side effects.

        Args:
            name: Name of the tool.

        Returns:
            True if it has, or if no pattern matches its name.
        """
        effects = self.find_options(name).get("side_effects", (SideEffect.MUTATE,))
        return bool(LOGGED_EFFECTS & ({effects} if isinstance(effects, str) else set(effects)))

    def matches_calls_by_arguments(self, name: str) -> bool:
        """Return whether an equal call of a tool, with another identifier, is the same operation until its result.

        Args:
            name: Name of the tool.

        Returns:
            True unless the tool has the policy `call`.
        """
        return (self.find_options(name).get("idempotency") or self.idempotency) != "call"

    def require_approval(self, name: str) -> ToolPolicies:
        """Return policies in which a tool requires approval, and is logged for that; the rest is as here.

        Args:
            name: Name of the tool.

        Returns:
            The policies.
        """
        options: dict[str, Any] = {**self.find_options(name), "requires_approval": True}
        if not self.logs_calls(name):
            options["side_effects"] = (SideEffect.MUTATE,)
        made = ToolPolicies(idempotency=self.idempotency)
        made._policies = {_escape_pattern(name): cast("ToolOptions", options), **self._policies}
        return made

    def build_tool(self, name: str, run: Callable[..., Any], *, pattern: str | None = None) -> Tool:
        """Build the tool that a call is logged for.

        Args:
            name: Name of the tool.
            run: Function of the tool, which takes any arguments by name.
            pattern: Pattern whose options to use. None: the first that matches.

        Returns:
            The tool.

        Raises:
            InvalidInput: An option cannot be used, or the name cannot be one.
        """
        options = self.find_options(name) if pattern is None else self._policies[pattern]
        made = make_tool(run, cast("ToolOptions", {**options, "name": name}))
        values = {each.name: getattr(made, each.name) for each in fields(made)}
        return _ForeignTool(**{**values, "description": "", "continues_open_calls": True})

    def knows_tool(self, name: str) -> bool:
        """Return whether a pattern matches a name.

        Args:
            name: Name of the tool.

        Returns:
            True if one does.
        """
        return any(fnmatchcase(name, pattern) for pattern in self._policies)

    def get_verify_hook(self, name: str) -> VerifyHook | None:
        """Return the verify hook of a tool.

        Args:
            name: Name of the tool.

        Returns:
            The hook; None if the tool has none.
        """
        return self.find_options(name).get("verify")


def _escape_pattern(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


@dataclass(frozen=True)
class _ForeignTool(Tool):
    """Tool whose arguments the framework has checked."""

    def bind_arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return {"args": dict(args)}


class _FailedValue(Exception):
    """Value by which a tool reports its own failure."""


@dataclass(eq=False)
class _Execution:
    """Execution of a foreign tool: it remembers what the framework has to get."""

    run: Callable[[dict[str, Any]], Any]
    codec: ValueCodec | None
    failed: Callable[[Any], bool] | None
    error: BaseException | None = None
    failed_values: list[Any] = field(default_factory=list)

    def run_tool(self, args: dict[str, Any]) -> Any:
        try:
            return self._raise_if_value_is_failure(self.run(args))
        except _FailedValue:
            raise
        except BaseException as error:
            self.error = error
            raise

    async def run_tool_async(self, args: dict[str, Any]) -> Any:
        try:
            return self._raise_if_value_is_failure(await self.run(args))
        except _FailedValue:
            raise
        except BaseException as error:
            self.error = error
            raise

    def _raise_if_value_is_failure(self, value: Any) -> Any:
        if self.failed is not None and self.failed(value):
            self.failed_values.append(value)
            raise _FailedValue(self._to_model_text(value))
        return value

    def _to_model_text(self, value: Any) -> str:
        return to_model_content(
            value if self.codec is None or self.codec.to_text is None else self.codec.to_text(value)
        )

    def get_result_or_raise_tool_error(self, result: ToolResult) -> ToolResult:
        """Return the result for the framework, or raise the error of its tool."""
        if self.error is not None and result.is_error:
            raise self.error
        if self.failed_values and result.is_error:
            value = self.failed_values[-1]
            return replace(result, content=self._to_model_text(value), value=value)
        return result


def _build_registry_of_one_tool(
    checkpointer: CheckpointerLike,
    session_id: str,
    tool: str,
    run: Callable[..., Any],
    policies: ToolPolicies,
    codec: ValueCodec | None,
) -> ToolRegistry:
    built = policies.build_tool(tool, run)
    registry = ToolRegistry(idempotency=policies.idempotency)
    registry.add(built if codec is None else replace(built, codec=codec))
    registry.checkpointer, registry.session_id = checkpointer, session_id
    return registry


_NO_POLICIES = ToolPolicies()


def guard(
    checkpointer: CheckpointerLike,
    session_id: str,
    tool: str,
    args: dict[str, Any],
    call_id: str,
    run: Callable[[dict[str, Any]], Any],
    *,
    policies: ToolPolicies | None = None,
    codec: ValueCodec | None = None,
    failed: Callable[[Any], bool] | None = None,
    step: int | None = None,
    in_progress: WaitMode = "wait",
    approval: WaitMode = "raise",
) -> ToolResult:
    """Make one call of a foreign tool. Its intent is durable before it runs, and its outcome is logged after.

    A completed call of the same operation is replayed instead of run. What `run` raises is logged and raised again.

    Args:
        checkpointer: Client that owns the session.
        session_id: Identifier of the session.
        tool: Name of the tool.
        args: Arguments of the call, a JSON object.
        call_id: Identifier of the call, unique in its step.
        run: Function that runs the tool. It gets the arguments, which a person may have changed.
        policies: Options of tools by name. None: every tool mutates.
        codec: Encoder of the tool's values, which makes a replayed value equal to the first one.
        failed: Function that says of a value whether the tool reports its own failure by it. None: no value does.
        step: Step of the loop. None: the number of the newest version.
        in_progress: `wait` waits for a call of the same key that runs elsewhere; `raise` raises `CallInProgress`.
        approval: `raise` raises `ApprovalRequired` for a call that needs approval; `wait` waits for the decision.

    Returns:
        The result; `value` is what `run` returned, or its decoded copy.

    Raises:
        ReviewRequired: A person has to decide about an earlier call first.
        ApprovalRequired: The call needs approval.
        CallInProgress: A call of the same key is running.
        NotOwner: The session is not owned.
        OwnershipLost: Another run has taken the session over.
        CallConflict: The step has another call with this identifier.
        ResultNotRecorded: The tool ran and its result could not be stored.
    """
    execution = _Execution(run, codec, failed)
    registry = _build_registry_of_one_tool(
        checkpointer, session_id, tool, execution.run_tool, policies or _NO_POLICIES, codec
    )
    return execution.get_result_or_raise_tool_error(
        registry.dispatch(tool, args, call_id, step=step, in_progress=in_progress, approval=approval)
    )


@sync_and_async_flow_runners.copy_docstring_from(guard)
async def aguard(
    checkpointer: CheckpointerLike,
    session_id: str,
    tool: str,
    args: dict[str, Any],
    call_id: str,
    run: Callable[[dict[str, Any]], Awaitable[Any]],
    *,
    policies: ToolPolicies | None = None,
    codec: ValueCodec | None = None,
    failed: Callable[[Any], bool] | None = None,
    step: int | None = None,
    in_progress: WaitMode = "wait",
    approval: WaitMode = "raise",
) -> ToolResult:
    execution = _Execution(run, codec, failed)
    registry = _build_registry_of_one_tool(
        checkpointer, session_id, tool, execution.run_tool_async, policies or _NO_POLICIES, codec
    )
    return execution.get_result_or_raise_tool_error(
        await registry.adispatch(tool, args, call_id, step=step, in_progress=in_progress, approval=approval)
    )
