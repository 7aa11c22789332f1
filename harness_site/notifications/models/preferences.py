"""Table of the notification preferences of members."""

from django.conf import settings
from django.db import models

from harness_site.notifications.models.call_filter import CallFilter


class Preferences(CallFilter):
    """E-mail preferences of one user. Without a row: all events, at the address of the account.

    The filter of calls holds for e-mail and for the notifications of the browser.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notification_preferences"
    )
    email = models.BooleanField(default=True)
    #: Empty for the address of the account.
    address = models.EmailField(blank=True)
    #: New address without confirmation; until then messages go to the previous one.
    asked_address = models.EmailField(blank=True)
    interrupted = models.BooleanField(default=True)
    awaiting_approval = models.BooleanField(default=True)
    reminder = models.BooleanField(default=True)
    escalation = models.BooleanField(default=True)
    handed_over = models.BooleanField(default=True)
    mentioned = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"preferences of {self.user}"

    def wants_event(self, event: str) -> bool:
        return self.email and bool(getattr(self, event))
