"""Tables of workflows and their steps."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models.session import Session
from checkpoints.seals.sealed_model import SealedModel


class Workflow(SealedModel):
    """Journal of named steps inside a session."""

    counted_in_head = True
    sealed_fields = ("id", "session", "workflow_id", "created_at")
    unsealed_fields = {"row_seal": "the seal itself"}

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="workflows", db_index=False)
    workflow_id = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "workflow_id"], name="workflow_id_per_session"),)

    def __str__(self) -> str:
        return self.workflow_id


class WorkflowStep(SealedModel):
    """Link from a step of a workflow to its call in the log, by `idempotency_key`; the call has its outcome.

    `function`, `version` and `args_digest` are the step's identity. `position` is the order in which steps were first
    requested. `generation` counts the identities a step has had; only a step that never happened can be given another.
    """

    counted_in_head = True
    sealed_fields = (
        "session",
        "workflow",
        "step_id",
        "position",
        "function",
        "version",
        "args_digest",
        "generation",
        "call_id",
        "idempotency_key",
        "schema_version",
        "created_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="steps", db_index=False)
    step_id = models.CharField(max_length=255)
    position = models.IntegerField()
    function = models.CharField(max_length=200)
    version = models.CharField(max_length=255)
    args_digest = models.CharField(max_length=64)
    generation = models.IntegerField(default=1)
    call_id = models.CharField(max_length=255)
    idempotency_key = models.CharField(max_length=255)
    schema_version = models.SmallIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workflow", "step_id"], name="step_id_per_workflow"),
            models.UniqueConstraint(fields=["workflow", "position"], name="step_position_per_workflow"),
        )
        indexes = (models.Index(fields=["session", "call_id"], name="step_of_call"),)

    def __str__(self) -> str:
        return self.step_id
