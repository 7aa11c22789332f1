"""Errors about workflow steps."""

from __future__ import annotations

from collections.abc import Sequence

from checkpoints.exceptions.base_error import CheckpointsError
from checkpoints.exceptions.not_found_errors import NotFound


class WorkflowError(CheckpointsError):
    """Base of errors about workflows."""

    code = "workflow_error"


class WorkflowNotFound(WorkflowError, NotFound):
    """The session has no workflow with this identifier."""

    code = "workflow_not_found"
    hint = "`workflow` of the run that owns the session creates it."

    def __init__(self, session_id: str, workflow_id: str) -> None:
        self.session_id, self.workflow_id = session_id, workflow_id
        super().__init__(f"Session {session_id!r} has no workflow {workflow_id!r}.")


class StepIdentityChanged(WorkflowError):
    """The logged step has another identity. `changed` names what differs: function, arguments, version."""

    code = "step_identity_changed"
    hint = "Give the new step an id of its own, or make it what it was. Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str, changed: Sequence[str], status: str) -> None:
        self.session_id, self.workflow_id, self.step_id = session_id, workflow_id, step_id
        self.changed, self.status = list(changed), status
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} is {status} with another "
            f"{', '.join(changed)}."
        )


class DuplicateStep(WorkflowError):
    """A step was requested twice in one pass through the workflow."""

    code = "duplicate_step"
    hint = "Each step of a pass needs an id of its own; open the workflow anew for another pass. Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str) -> None:
        self.session_id, self.workflow_id, self.step_id = session_id, workflow_id, step_id
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was asked for twice in one pass."
        )


class StepRejected(WorkflowError):
    """A person rejected the step. `message` is the reason."""

    code = "step_rejected"
    hint = "Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str, message: str) -> None:
        self.session_id, self.workflow_id, self.step_id, self.message = session_id, workflow_id, step_id, message
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was rejected: {message}"
        )
