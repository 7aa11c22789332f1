"""Point where a run continues: the state of the newest version, and the results that are still to be answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.store.owning_run_protocol import OwningRun

#: State from which a session without a checkpoint resumes.
EMPTY_VERSION: dict[str, Any] = {
    "transcript": [],
    "plan": None,
    "budget_spent_usd": 0.0,
    "usage": None,
    "version": 0,
    "payload": None,
}


@dataclass(frozen=True)
class ResumePoint:
    """Point where a run continues.

    Attributes:
        run: The run that owns the session. None for a finished session.
        transcript: All messages of the newest version, oldest first.
        plan: Plan of the newest version, a JSON object.
        budget_spent_usd: Money spent so far in the session, in US dollars.
        usage: Token usage of the newest version, a JSON object.
        version: Number of the newest version; 0 while there is none.
        pending_response: Journaled model answer whose tools have not all run; use it instead of asking the model.
        replayable: Results of calls that are settled and not yet answered in the transcript, by call id; use these
            instead of dispatching the calls.
        snapshot: State of the loop, where versions were saved with `save_phase`.
        finished: Whether the session has ended.
        result: Result of a finished session, a JSON value.
    """

    run: OwningRun | None
    transcript: list[dict[str, Any]]
    plan: dict[str, Any] | None
    budget_spent_usd: float | Decimal
    usage: dict[str, Any] | None
    version: int
    pending_response: dict[str, Any] | None = None
    replayable: dict[str, ToolResult] = field(default_factory=dict)
    snapshot: RuntimeSnapshot | None = None
    finished: bool = False
    result: Any = None
