"""Runs and their phases: the state of a loop, validated when it is written and when it is read."""

from checkpoints.loop_state.phase_details import (
    Paused,
    PhaseDetails,
    PostLlm,
    PostSubagentBatch,
    PostToolBatch,
    PreLlm,
    PreSubagentBatch,
    PreToolBatch,
    Resumed,
    RunStarted,
    RunTerminal,
    StepStarted,
)
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot, SubagentExecution, ToolExecution

__all__ = [
    "Paused",
    "PhaseDetails",
    "PostLlm",
    "PostSubagentBatch",
    "PostToolBatch",
    "PreLlm",
    "PreSubagentBatch",
    "PreToolBatch",
    "Resumed",
    "RunStarted",
    "RunTerminal",
    "RuntimeSnapshot",
    "StepStarted",
    "SubagentExecution",
    "ToolExecution",
]
