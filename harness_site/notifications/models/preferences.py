from django.conf import settings
from django.db import models


class Preferences(models.Model):
    """What one person wants to be told by e-mail. Without a row: everything, at the address of their account."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notification_preferences"
    )
    email = models.BooleanField(default=True)
    #: Empty: the address of the account.
    address = models.EmailField(blank=True)
    #: One that was typed and not confirmed yet; until then messages go where they went before.
    asked_address = models.EmailField(blank=True)
    interrupted = models.BooleanField(default=True)
    awaiting_approval = models.BooleanField(default=True)
    reminder = models.BooleanField(default=True)
    escalation = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"preferences of {self.user}"

    def wants(self, event: str) -> bool:
        return self.email and bool(getattr(self, event))
