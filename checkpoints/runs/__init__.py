"""Runs and their phases: where a loop stands, in a shape that is checked when it is written and when it is read."""

from checkpoints.runs.details import (
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
from checkpoints.runs.snapshot import RuntimeSnapshot, SubagentExecution, ToolExecution

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
