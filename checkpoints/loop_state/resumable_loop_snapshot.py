"""Runtime snapshot: the state a loop needs to continue, beside the columns of the version."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

#: Schema of snapshots and phase details as this code writes them; a larger number is of a newer version.
PAYLOAD_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class ToolExecution:
    """Tool call that has ended.

    Attributes:
        call_id: Identifier of the call.
        tool: Name of the tool.
        success: Whether it ended without an error.
        replayed: Whether its stored result was used.
        input_hash: Digest of the arguments, as in the log.
        output_hash: Digest of the result, as in the log.
    """

    call_id: str
    tool: str
    success: bool
    replayed: bool = False
    input_hash: str = ""
    output_hash: str = ""


@dataclass(frozen=True, kw_only=True)
class SubagentExecution:
    """Subagent that has ended.

    Attributes:
        call_id: Identifier of the call that started it.
        agent: Name of the subagent.
        success: Whether it ended without an error.
        session_id: Identifier of its own session, where it has one.
    """

    call_id: str
    agent: str
    success: bool
    session_id: str = ""


@dataclass(frozen=True, kw_only=True)
class RuntimeSnapshot:
    """State of a run's loop, for a resume to continue from.

    The conversation, the usage and the cost are columns of the version and are stored there alone: `usage` and
    `total_cost_usd` are written to and read from these.

    Attributes:
        step: Number of the step.
        state: State of the loop, such as `running`.
        context: JSON object of the loop's own.
        llm_calls: Number of model calls so far.
        tool_calls: Number of tool calls so far.
        replayed_effect_count: Number of calls answered from the log instead of running; counted by the library.
        started_at_s: Start of the run, Unix time in seconds.
        active_s: Time spent working, in seconds, without the time in which no process ran.
        usage: Token usage, a JSON object.
        total_cost_usd: Money spent so far, in US dollars. None if it is unknown: then a save keeps the amount of the
            version before.
        session_token: Token of the provider for the session.
        checkpoint_token: Token of the provider for this point.
        pending_llm_response: Model answer whose tools have not all run.
        tool_executions: Tool calls that have ended.
        subagent_executions: Subagents that have ended.
        requested_model: Name of the model as it was requested.
        normalized_model: Name of the model as the provider resolved it.
        provider_adapter: Name of the adapter to the provider.
        final_text: Final answer of the run as text.
        final_structured: Final answer of the run as a JSON object.
    """

    step: int = 0
    state: str = "running"
    context: dict[str, Any] = field(default_factory=dict)
    llm_calls: int = 0
    tool_calls: int = 0
    replayed_effect_count: int = 0
    started_at_s: float = 0.0
    active_s: float = 0.0
    usage: dict[str, Any] = field(default_factory=dict)
    total_cost_usd: float | Decimal | None = None
    session_token: str | None = None
    checkpoint_token: str | None = None
    pending_llm_response: dict[str, Any] | None = None
    tool_executions: tuple[ToolExecution, ...] = ()
    subagent_executions: tuple[SubagentExecution, ...] = ()
    requested_model: str = ""
    normalized_model: str = ""
    provider_adapter: str = ""
    final_text: str = ""
    final_structured: dict[str, Any] | None = None


#: Fields that are stored in columns of the version.
FIELDS_IN_COLUMNS = frozenset({"usage", "total_cost_usd"})
