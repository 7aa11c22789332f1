"""Table of webhooks."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from checkpoints.models import Workspace
from harness_site.notifications.models.call_filter import CallFilter
from harness_site.notifications.models.notice import Event


class WebhookFormat(models.TextChoices):
    JSON = "json", "JSON"
    SLACK = "slack", _("Slack message")


class Webhook(CallFilter):
    """Webhook that receives notifications.

    The address and the signing secret are encrypted, because an address alone may grant access.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=100)
    #: Part of the address that pages display.
    host = models.CharField(max_length=255)
    encrypted_address = models.TextField()
    encrypted_secret = models.TextField()
    format = models.CharField(max_length=10, choices=WebhookFormat, default=WebhookFormat.JSON)
    #: Comma-separated, in the order of `Event`.
    events = models.CharField(max_length=200)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    #: Time of the pause; deliveries wait while it is set.
    paused_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

    @property
    def event_labels(self) -> list[str]:
        return [str(Event(name).label) for name in self.events.split(",") if name in Event.values]

    def wants_event(self, event: str) -> bool:
        return event in self.events.split(",")
