"""Table of the display settings of users."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Theme(models.TextChoices):
    SYSTEM = "", _("Same as the system")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


class DisplayPreference(models.Model):
    """Display settings of one user, for every browser and workspace."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: Name in the IANA database; empty for the time zone of the browser.
    time_zone = models.CharField(max_length=64, blank=True)
    #: Code of one of `settings.LANGUAGES`; empty for the language of the browser.
    language = models.CharField(max_length=15, blank=True)
    theme = models.CharField(max_length=5, choices=Theme, blank=True, default=Theme.SYSTEM)
    #: Whether the next call opens by itself after a decision.
    opens_next_call = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.time_zone or 'browser'}, {self.theme or 'system'}"
