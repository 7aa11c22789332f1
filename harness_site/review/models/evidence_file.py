from django.db import models
from django.db.models.functions import Now

from checkpoints.models import ToolCall


class EvidenceFile(models.Model):
    """A file that somebody gave as evidence for a decision, which names it by key, name, size and digest.

    It lies in the database, so that a backup and a crash have it exactly when they have the decision. Agents' processes
    know nothing of this table and delete sessions all the same, so the site drops what has lost its call.
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
