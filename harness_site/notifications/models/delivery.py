"""Table of the deliveries of notices by e-mail and webhook."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from checkpoints.generate_and_validate_ids import generate_uuid7
from harness_site.notifications.models.notice import Notice
from harness_site.notifications.models.webhook import Webhook


class DeliveryStatus(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    SENT = "sent", _("Sent")
    GIVEN_UP = "given_up", _("Given up")
    NOT_NEEDED = "not_needed", _("Not needed any more")


class Delivery(models.Model):
    """One message to one user or one webhook. Its id is part of the message, so that receivers can deduplicate.

    `due_at` is the earliest time of the next attempt; a process postpones it before its attempt, so that no other
    process makes one. All times are from the database's clock.
    """

    id = models.UUIDField(primary_key=True, default=generate_uuid7, editable=False)
    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="deliveries")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    #: E-mail address, or host of the webhook, for the log.
    recipient = models.CharField(max_length=255)
    status = models.CharField(max_length=12, choices=DeliveryStatus, default=DeliveryStatus.WAITING)
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    #: Last attempt: end, duration, HTTP status, and error as a `StoredSentence`, with its values.
    attempted_at = models.DateTimeField(null=True)
    took = models.DurationField(null=True)
    answer = models.IntegerField(null=True)
    problem = models.TextField(blank=True)
    problem_values = models.JSONField(default=dict)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["notice", "webhook"], name="one_delivery_per_webhook"),
            models.UniqueConstraint(fields=["notice", "user"], name="one_delivery_per_person"),
            models.CheckConstraint(
                condition=Q(webhook=None, user__isnull=False) | Q(webhook__isnull=False, user=None),
                name="delivery_has_one_recipient",
            ),
        )
        indexes = (models.Index(fields=["due_at"], condition=Q(status=DeliveryStatus.WAITING), name="delivery_due"),)

    def __str__(self) -> str:
        return f"{self.notice} to {self.recipient}"
