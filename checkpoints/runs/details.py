"""What a version says about the phase it was taken in: a few fields, so that one at every phase stays small."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from checkpoints.enums import Phase


@dataclass(frozen=True, kw_only=True)
class PhaseDetails:
    phase: ClassVar[Phase]


@dataclass(frozen=True, kw_only=True)
class RunStarted(PhaseDetails):
    phase = Phase.RUN_STARTED

    agent_name: str = ""
    resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class StepStarted(PhaseDetails):
    phase = Phase.STEP_STARTED

    state: str = "running"
    message_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PreLlm(PhaseDetails):
    phase = Phase.PRE_LLM

    model: str = ""
    provider: str = ""
    message_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostLlm(PhaseDetails):
    phase = Phase.POST_LLM

    model: str = ""
    provider: str = ""
    finish_reason: str = ""
    tool_call_count: int = 0
    session_token: str | None = None
    checkpoint_token: str | None = None
    total_cost_usd: float | Decimal = 0.0


@dataclass(frozen=True, kw_only=True)
class PreToolBatch(PhaseDetails):
    phase = Phase.PRE_TOOL_BATCH

    tool_call_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostToolBatch(PhaseDetails):
    phase = Phase.POST_TOOL_BATCH

    tool_calls_total: int = 0
    tool_failures: int = 0


@dataclass(frozen=True, kw_only=True)
class PreSubagentBatch(PhaseDetails):
    phase = Phase.PRE_SUBAGENT_BATCH

    subagent_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostSubagentBatch(PhaseDetails):
    phase = Phase.POST_SUBAGENT_BATCH

    subagents_total: int = 0
    subagent_failures: int = 0


@dataclass(frozen=True, kw_only=True)
class Paused(PhaseDetails):
    phase = Phase.PAUSED

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Resumed(PhaseDetails):
    phase = Phase.RESUMED

    resumed_from: str = ""


@dataclass(frozen=True, kw_only=True)
class RunTerminal(PhaseDetails):
    """The end: `state` is completed, failed or cancelled. A resume returns `terminal_result` and runs nothing."""

    phase = Phase.RUN_TERMINAL

    state: str
    terminal_result: Any
    final_text: str = ""
    requested_model: str = ""
    normalized_model: str = ""
    provider_adapter: str = ""


DETAILS: dict[str, type[PhaseDetails]] = {
    kind.phase: kind
    for kind in (
        RunStarted,
        StepStarted,
        PreLlm,
        PostLlm,
        PreToolBatch,
        PostToolBatch,
        PreSubagentBatch,
        PostSubagentBatch,
        Paused,
        Resumed,
        RunTerminal,
    )
}
#: After one of these an answer of the model still waits for its tools.
STILL_PENDING = frozenset(
    {Phase.RUN_STARTED, Phase.PRE_TOOL_BATCH, Phase.PRE_SUBAGENT_BATCH, Phase.PAUSED, Phase.RESUMED}
)
