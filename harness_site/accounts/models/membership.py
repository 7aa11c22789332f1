"""Table of the members of workspaces and their roles."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import Role
from checkpoints.models import Workspace
from checkpoints.models.translated_enum_choices import build_choices

#: Roles in ascending order: each includes the permissions of the ones before it.
RANKS = tuple(Role)


class Membership(models.Model):
    """Membership of a user in a workspace, with a role."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=build_choices(Role))
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "workspace"], name="one_membership_per_workspace"),)

    def __str__(self) -> str:
        return f"{self.user} as {self.role}"

    def has_role(self, role: Role) -> bool:
        """Return True if this membership includes the permissions of `role`. An unknown role permits nothing."""
        return self.role in RANKS and RANKS.index(Role(self.role)) >= RANKS.index(role)
