"""Table of the people who have a call's page open."""

from django.db import models

from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership


class Presence(models.Model):
    """Time at which a member last had the card of a call open."""

    call = models.ForeignKey(
        ToolCall, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="presence"
    )
    member = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")
    seen_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["call", "member"], name="one_presence_per_call_and_member"),)

    def __str__(self) -> str:
        return f"{self.member.user} at call {self.call_id}"
