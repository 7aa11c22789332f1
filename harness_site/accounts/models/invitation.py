"""Table of invitations of new members."""

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Workspace
from checkpoints.models.translated_enum_choices import build_choices

#: Validity of an invitation.
LIFETIME: Final = timedelta(days=7)


class Invitation(models.Model):
    """Invitation to a workspace by a link. Its secret is displayed once and stored as a digest."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=build_choices(Role))
    #: Note of the inviting admin about the invited person.
    note = models.CharField(max_length=200, blank=True)
    #: Address that the link was sent to; empty if an admin passed it on.
    email = models.EmailField(blank=True)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"invitation as {self.role}"

    @property
    def is_open(self) -> bool:
        return self.accepted_at is None and self.revoked_at is None and self.expires_at > clock.now()
