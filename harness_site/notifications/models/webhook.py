from django.db import models
from django.db.models.functions import Now

from checkpoints.models import Workspace


class WebhookFormat(models.TextChoices):
    JSON = "json", "JSON"
    SLACK = "slack", "Slack message"


class Webhook(models.Model):
    """An address that is told. Both it and the secret that signs are sealed: an address alone may let in who has it."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=100)
    #: What pages show of the address.
    host = models.CharField(max_length=255)
    address_sealed = models.TextField()
    secret_sealed = models.TextField()
    format = models.CharField(max_length=10, choices=WebhookFormat, default=WebhookFormat.JSON)
    #: Comma-separated, in the order of `Event`.
    events = models.CharField(max_length=200)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    #: While it is paused, what there is to tell waits.
    paused_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

    def wants(self, event: str) -> bool:
        return event in self.events.split(",")
