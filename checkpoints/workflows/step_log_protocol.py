"""Log of the steps of a workflow, behind a database or a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from checkpoints.store.call_intent_and_outcome_types import IssuedCall
from checkpoints.sync_and_async_flow_runners import Flow
from checkpoints.tools.run_call_and_record_outcome import Execution, WaitOptions
from checkpoints.workflows.step_request import StepRequest


@dataclass(frozen=True)
class StepValue:
    """Stored value of a step that has happened."""

    value: Any


class StepLog(Protocol):
    """Interface of the log of a workflow's steps. Errors are those of `SyncWorkflow.step`."""

    def issue_or_answer_step_flow(self, request: StepRequest, wait_options: WaitOptions) -> Flow[Execution | StepValue]:
        """Log that a step is about to run, or return the value of one that has happened.

        Raises `ReviewRequired` if it is unknown whether the step happened.
        """

    def ask_hook_and_record_answer_if_interrupted_flow(self, request: StepRequest) -> Flow[bool]:
        """Ask the verify hook of a step about its interrupted call. Returns whether there was anything to ask."""

    def load_step_value_found_by_hook_flow(self, request: StepRequest, issued_call: IssuedCall) -> Flow[Any]:
        """Return the value of a step that failed here and was recorded as completed by its verify hook."""

    def list_steps(self) -> list[dict[str, Any]]:
        """List the steps in the order in which they were first requested."""
