"""Tables of decisions that were recorded together."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models import Decision, Workspace


class BulkDecision(models.Model):
    """Decisions about several calls that one person recorded with one form."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="bulk_decisions")
    author = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"bulk decision {self.pk} of {self.author}"


class BulkDecisionEntry(models.Model):
    """One decision of a bulk decision.

    The row outlives a deleted decision until the site deletes it, because agents' processes, which do not know this
    table, delete sessions too.
    """

    decision = models.OneToOneField(
        Decision, on_delete=models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="bulk_entry"
    )
    bulk = models.ForeignKey(BulkDecision, on_delete=models.CASCADE, related_name="entries")

    def __str__(self) -> str:
        return f"decision {self.decision_id} of bulk decision {self.bulk_id}"
