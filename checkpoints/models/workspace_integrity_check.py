"""Table of the progress and the result of the latest `verify_integrity` of each workspace."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models.workspace import Workspace
from checkpoints.seals.sealed_model import SealedModel


class IntegrityCheck(SealedModel):
    """Last verification of all rows of a workspace: how far it came, and what it found.

    `problems` is the number of rows that are not as they were written, `named` a JSON list of the first of them. It is
    a report for readers: nothing is decided by it. Its seal says that `verify_integrity` has written it, but not that
    it is the newest one.
    """

    sealed_fields = (
        "workspace",
        "started_at",
        "reached_at",
        "reached",
        "finished",
        "sessions",
        "rows",
        "problems",
        "named",
    )
    unsealed_fields = {"row_seal": "the seal itself"}

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True, related_name="+")
    started_at = models.DateTimeField(db_default=Now())
    #: Time of the last session that was verified, and its key.
    reached_at = models.DateTimeField(db_default=Now())
    reached = models.BigIntegerField(default=0, db_default=0)
    finished = models.BooleanField(default=False, db_default=False)
    sessions = models.BigIntegerField(default=0, db_default=0)
    rows = models.BigIntegerField(default=0, db_default=0)
    problems = models.BigIntegerField(default=0, db_default=0)
    named = models.TextField(default="[]", db_default="[]")

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.sessions} sessions, {self.problems} not as they were written"
