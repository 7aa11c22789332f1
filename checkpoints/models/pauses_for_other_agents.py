"""Tables of tasks that wait for other agents, and of the counters of their joins."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.enums import PAUSED_TASK_STATUSES, JoinStatus, PauseStatus
from checkpoints.models.run import Run
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.seals.sealed_model import SealedModel


class PausedTask(SealedModel):
    """Run that stopped to wait for other agents, with all it needs to continue in any process.

    A session pauses any number of times; the newest task is the one that counts. Taking it changes only its owner:
    until the session's version grows beyond `taken_version`, the task holds its session and can be taken again.
    `state` is canonical JSON text in which secrets are encrypted.
    """

    counted_in_head = True
    sealed_fields = (
        "id",
        "session",
        "number",
        "run",
        "version",
        "status",
        "state",
        "paused_at",
        "taken_version",
        "taken_at",
        "ended_at",
    )
    unsealed_fields = {
        "times_taken": "a statistic",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="paused_tasks", db_index=False)
    number = models.IntegerField()
    #: Run that paused; it ended with the pause, so it has no other task.
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="+")
    version = models.BigIntegerField()
    status = models.CharField(max_length=10, choices=build_choices(PauseStatus), default=PauseStatus.WAITING)
    state = models.TextField()
    paused_at = models.DateTimeField(db_default=Now())
    taken_version = models.BigIntegerField(null=True)
    taken_at = models.DateTimeField(null=True)
    times_taken = models.IntegerField(default=0, db_default=0)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "number"], name="pause_number_per_session"),)
        indexes = (
            models.Index(
                fields=["session"], condition=Q(status__in=sorted(PAUSED_TASK_STATUSES)), name="paused_task_holding"
            ),
        )

    def __str__(self) -> str:
        return f"pause {self.number}"


class Join(SealedModel):
    """Calls to other agents that are waited for together.

    `completed` counts each call once, answered or expired, in the transaction that settles the call; the one that makes
    it reach `total` completes the join and stores its receipt. Until the results are durable in a later version or
    pause,
    `taken_version` tells whether they have been given to a run.
    """

    counted_in_head = True
    sealed_fields = (
        "id",
        "session",
        "task",
        "join_id",
        "status",
        "total",
        "completed",
        "completed_at",
        "completed_by",
        "taken_version",
    )
    unsealed_fields = {
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="joins", db_index=False)
    task = models.ForeignKey(PausedTask, on_delete=models.CASCADE, related_name="joins", db_index=False)
    join_id = models.CharField(max_length=255)
    status = models.CharField(max_length=10, choices=build_choices(JoinStatus), default=JoinStatus.WAITING)
    total = models.IntegerField()
    completed = models.IntegerField(default=0, db_default=0)
    completed_at = models.DateTimeField(null=True)
    completed_by = models.CharField(max_length=32, blank=True)
    taken_version = models.BigIntegerField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["task", "join_id"], name="join_id_per_pause"),)
        indexes = (
            models.Index(fields=["session"], name="join_of_session"),
            models.Index(fields=["completed_at"], condition=Q(status=JoinStatus.COMPLETE), name="join_complete"),
        )

    def __str__(self) -> str:
        return f"join {self.join_id} ({self.completed} of {self.total})"
