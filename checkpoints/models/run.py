"""Table of the runs of sessions: one for each process that has owned a session."""

from typing import Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.enums import OWNING_RUN_STATUSES, RunStatus
from checkpoints.generate_and_validate_ids import generate_uuid7
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.seals.dropped_insert_detection import CheckedInsertModel

#: Number of the run that stands for the copying of a fork: the first process of the fork is run 1.
FORK_RUN_NUMBER: Final = 0
_OWNING_STATUSES = sorted(OWNING_RUN_STATUSES)


class Run(CheckedInsertModel):
    """One process driving a session. A resumed run is a new run, linked to the one before it."""

    id = models.UUIDField(primary_key=True, default=generate_uuid7, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="runs", db_index=False)
    number = models.IntegerField()
    resumed_from = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    status = models.CharField(max_length=12, choices=build_choices(RunStatus), default=RunStatus.RUNNING)
    fence = models.BigIntegerField()
    #: Both times are by the database's clock.
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_expires_at = models.DateTimeField()
    #: Machine, boot and process namespace: process ids may only be compared within one.
    host = models.CharField(max_length=255)
    host_identity = models.CharField(max_length=255)
    pid = models.IntegerField()
    process_started = models.CharField(max_length=64, blank=True)
    #: Token of the checkpointer object, which distinguishes two of them in one process.
    owner_token = models.CharField(max_length=32)
    code_version = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "number"], name="run_number_per_session"),)
        indexes = (
            models.Index(fields=["host_identity"], condition=Q(status__in=_OWNING_STATUSES), name="run_owning"),
            models.Index(fields=["session"], condition=Q(status=RunStatus.LOST), name="run_lost"),
            models.Index(fields=["ended_at", "session"], condition=Q(status=RunStatus.LOST), name="run_lost_at"),
        )

    def __str__(self) -> str:
        return f"run {self.number}"

    @property
    def has_owning_status(self) -> bool:
        return self.status in OWNING_RUN_STATUSES
