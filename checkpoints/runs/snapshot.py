"""The runtime snapshot: everything a loop needs to go on where it stood, beside what the version itself holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

#: The shape of snapshots and phase details as this code writes them; a larger number is from the future.
PAYLOAD_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class ToolExecution:
    """One tool call that has ended; `replayed` says that its stored result was used. The hashes are the log's."""

    call_id: str
    tool: str
    success: bool
    replayed: bool = False
    input_hash: str = ""
    output_hash: str = ""


@dataclass(frozen=True, kw_only=True)
class SubagentExecution:
    """One subagent that has ended; `session_id` is its own session, where it has one."""

    call_id: str
    agent: str
    success: bool
    session_id: str = ""


@dataclass(frozen=True, kw_only=True)
class RuntimeSnapshot:
    """Where a run stands.

    The conversation, the usage and the cost are columns of the version and are kept there alone: `usage` and
    `total_cost_usd` are written to and read from these. `replayed_effect_count` is counted by the library. `active_s`
    are seconds of work: what passed while no process ran does not belong to it. `started_at_s` is Unix time.
    `pending_llm_response` is an answer of the model whose tools have not all run.
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
    total_cost_usd: float | Decimal = 0.0
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


#: Kept in columns of the version.
COLUMNS = frozenset({"usage", "total_cost_usd"})
