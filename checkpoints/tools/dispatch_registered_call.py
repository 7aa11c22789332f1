"""Dispatch of one call by the name of its tool: find tool and log, check the arguments, log and run the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from checkpoints import tracing
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import InvalidArguments, NotRepresentable, RegistryNotBound, TooLarge
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id, validate_integer
from checkpoints.store.call_intent_and_outcome_types import require_args_dict
from checkpoints.sync_and_async_flow_runners import Flow
from checkpoints.tools import run_call_and_record_outcome
from checkpoints.tools.idempotency import IdempotencyPolicy
from checkpoints.tools.run_call_and_record_outcome import WaitOptions
from checkpoints.tools.tool import Tool

if TYPE_CHECKING:
    from checkpoints.store.checkpointer_state import CheckpointerState


class CheckpointerLike(Protocol):
    """Checkpointer, blocking or async."""

    @property
    def checkpointer_state(self) -> CheckpointerState: ...


class BoundTools(Protocol):
    """Tools of one agent, and the client and the session that log their calls: a `ToolRegistry`."""

    tools: dict[str, Tool]
    checkpointer: CheckpointerLike | None
    session_id: str | None
    unlogged: bool

    def get_idempotency_policy(self, tool: Tool) -> IdempotencyPolicy: ...


def dispatch_call_flow(
    registry: BoundTools,
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
    registry: BoundTools,
    name: str,
    args: dict[str, Any],
    call_id: str,
    step: int | None,
    waiting: WaitOptions,
) -> Flow[ToolResult]:
    validate_id("call id", call_id)
    if step is not None:
        validate_integer("step", step)
    tool = _find_tool(registry.tools, name)
    if tool is None:
        return ToolResult(call_id, f"There is no tool {name!r}. Nothing was run.", is_error=True)
    log = _open_call_log_if_logged(registry, tool)
    try:
        require_args_dict(name, args)
        request = run_call_and_record_outcome.DispatchRequest(
            tool, registry.get_idempotency_policy(tool), args, to_canonical_json(args, "args"), call_id, step
        )
        bound_args = tool.bind_arguments(args)
        if log is None:
            return (yield from run_call_and_record_outcome.run_unlogged_call_flow(tool, bound_args, call_id))
    except (InvalidArguments, NotRepresentable, TooLarge) as error:
        return ToolResult(call_id, str(error), is_error=True)
    return (yield from run_call_and_record_outcome.dispatch_logged_call_flow(log, request, bound_args, waiting))


def _find_tool(tools: dict[str, Tool], name: object) -> Tool | None:
    """Return the tool of that name, which a model wrote and may be no text."""
    return tools.get(name) if isinstance(name, str) else None


def _open_call_log_if_logged(registry: BoundTools, tool: Tool) -> run_call_and_record_outcome.CallLog | None:
    """Return the log in which a call of `tool` is logged; None for a call that is not logged.

    Raises `RegistryNotBound` for a tool with side effects unless the registry permits calls without a log.
    """
    if not tool.logged:
        return None
    if registry.checkpointer is not None and registry.session_id is not None:
        state = registry.checkpointer.checkpointer_state
        log: run_call_and_record_outcome.CallLog = state.open_call_log(state, registry.session_id)
        return log
    if registry.unlogged and not tool.requires_approval:  # approvals need the log
        return None
    raise RegistryNotBound(tool.name, "checkpointer" if registry.checkpointer is None else "session id")
