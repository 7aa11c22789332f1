"""Table of API tokens."""

from datetime import datetime

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Workspace


class TokenRole(models.TextChoices):
    """Role of a token: an agent writes its own sessions, the others match the member roles of that name."""

    AGENT = "agent", _("Agent")
    AUDITOR = "auditor", _("Auditor")
    APPROVER = "approver", _("Approver")


class ApiToken(models.Model):
    """Bearer token of one workspace. Only its `digest` and its first letters (`hint`) are stored."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=10, choices=TokenRole)
    hint = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=models.Q(revoked_at=None),
                name="one_token_of_a_name",
                violation_error_message="There is a token of this name already.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    def is_expired(self, now: datetime | None = None) -> bool:
        return self.expires_at is not None and self.expires_at <= (now or clock.now())

    @property
    def status(self) -> str:
        """Status: `active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.is_expired() else "active"

    @property
    def equivalent_member_role(self) -> Role | None:
        """The equivalent member role; None for an agent."""
        return None if self.role == TokenRole.AGENT else Role(self.role)
