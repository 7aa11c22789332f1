"""Table of files that were uploaded as evidence of a decision."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models import ToolCall


class EvidenceFile(models.Model):
    """Evidence file of a decision, which cites it by key, name, size and digest.

    The content is stored in the database, so that a backup or a crash has it exactly when it has the decision. Agents'
    processes delete sessions without knowing this table, so the site deletes files without a call.
    """

    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, db_constraint=False, related_name="evidence_files")
    given_by = models.CharField(max_length=150)
    name = models.CharField(max_length=255)
    size = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name
