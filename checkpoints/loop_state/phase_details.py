"""Details of the phase that a version was saved in: a few fields, so that a version at every phase stays small."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from checkpoints.enums import Phase


@dataclass(frozen=True, kw_only=True)
class PhaseDetails:
    """Details of a phase: base of the classes below, one for each phase.

    Attributes:
        phase: The phase, a value of `Phase`.
    """

    phase: ClassVar[Phase]


@dataclass(frozen=True, kw_only=True)
class RunStarted(PhaseDetails):
    """Details of a version saved when a run begins.

    Attributes:
        agent_name: Name of the agent.
        resumed: Whether the run continues an earlier one.
    """

    phase = Phase.RUN_STARTED

    agent_name: str = ""
    resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class StepStarted(PhaseDetails):
    """Details of a version saved when a step of the loop begins.

    Attributes:
        state: State of the loop.
        message_count: Number of messages in the transcript.
    """

    phase = Phase.STEP_STARTED

    state: str = "running"
    message_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PreLlm(PhaseDetails):
    """Details of a version saved before the model is asked.

    Attributes:
        model: Name of the model.
        provider: Name of the provider.
        message_count: Number of messages in the request.
    """

    phase = Phase.PRE_LLM

    model: str = ""
    provider: str = ""
    message_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostLlm(PhaseDetails):
    """Details of a version saved after the model has answered.

    Attributes:
        model: Name of the model.
        provider: Name of the provider.
        finish_reason: Reason why the model stopped, as the provider names it.
        tool_call_count: Number of tool calls in the answer.
        session_token: Token of the provider for the session.
        checkpoint_token: Token of the provider for this point.
        total_cost_usd: Money spent so far, in US dollars.
    """

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
    """Details of a version saved before tools run.

    Attributes:
        tool_call_count: Number of calls that are about to run.
    """

    phase = Phase.PRE_TOOL_BATCH

    tool_call_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostToolBatch(PhaseDetails):
    """Details of a version saved after tools have run.

    Attributes:
        tool_calls_total: Number of calls that ran.
        tool_failures: Number of those that failed.
    """

    phase = Phase.POST_TOOL_BATCH

    tool_calls_total: int = 0
    tool_failures: int = 0


@dataclass(frozen=True, kw_only=True)
class PreSubagentBatch(PhaseDetails):
    """Details of a version saved before subagents run.

    Attributes:
        subagent_count: Number of subagents that are about to run.
    """

    phase = Phase.PRE_SUBAGENT_BATCH

    subagent_count: int = 0


@dataclass(frozen=True, kw_only=True)
class PostSubagentBatch(PhaseDetails):
    """Details of a version saved after subagents have run.

    Attributes:
        subagents_total: Number of subagents that ran.
        subagent_failures: Number of those that failed.
    """

    phase = Phase.POST_SUBAGENT_BATCH

    subagents_total: int = 0
    subagent_failures: int = 0


@dataclass(frozen=True, kw_only=True)
class Paused(PhaseDetails):
    """Details of a version saved when a run pauses.

    Attributes:
        reason: Why, in a sentence.
    """

    phase = Phase.PAUSED

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Resumed(PhaseDetails):
    """Details of a version saved when a run resumes.

    Attributes:
        resumed_from: Identifier of the run it continues.
    """

    phase = Phase.RESUMED

    resumed_from: str = ""


@dataclass(frozen=True, kw_only=True)
class RunTerminal(PhaseDetails):
    """Details of a version saved when a run ends.

    Attributes:
        state: `completed`, `failed` or `cancelled`.
        terminal_result: Result of the run, a JSON value; a resume returns it and runs nothing.
        final_text: Final answer of the run as text.
        requested_model: Name of the model as it was requested.
        normalized_model: Name of the model as the provider resolved it.
        provider_adapter: Name of the adapter to the provider.
    """

    phase = Phase.RUN_TERMINAL

    state: str
    terminal_result: Any
    final_text: str = ""
    requested_model: str = ""
    normalized_model: str = ""
    provider_adapter: str = ""


DETAILS_BY_PHASE: dict[str, type[PhaseDetails]] = {
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
#: Phases after which an answer of the model still waits for its tools.
PHASES_KEEPING_ANSWER_PENDING = frozenset(
    {Phase.RUN_STARTED, Phase.PRE_TOOL_BATCH, Phase.PRE_SUBAGENT_BATCH, Phase.PAUSED, Phase.RESUMED}
)
