"""Table of comments on calls."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models import ToolCall


class Comment(models.Model):
    """Comment of a member about a call, for the people who decide. It changes nothing and is never changed.

    Agents' processes delete sessions without knowing this table, so the site deletes comments without a call.
    """

    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, db_constraint=False, related_name="comments")
    author = models.CharField(max_length=150)
    text = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"comment of {self.author} on call {self.call_id}"
