"""Table of claims: who works on which call."""

from django.db import models

from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership


class Claim(models.Model):
    """A member's claim on a call. It blocks nobody: the first decision counts.

    `seen_at` is the last heartbeat of the card in their browser. A claim that a colleague has handed over names that
    colleague and their note. The row outlives a deleted call until it expires,
    because agents' processes, which do not know this table, delete sessions too.
    """

    call = models.OneToOneField(
        ToolCall, on_delete=models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="claim"
    )
    member = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="claims")
    since = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    handed_by = models.CharField(max_length=150, blank=True, default="")
    note = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"{self.member.user} on call {self.call_id}"
