from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import Role
from checkpoints.models import Workspace

#: From least to most: each role may do what the ones before it may.
RANKS = tuple(Role)


class Membership(models.Model):
    """What one person may do in one workspace."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "workspace"], name="one_membership_per_workspace"),)

    def __str__(self) -> str:
        return f"{self.user} as {self.role}"

    def may(self, role: Role) -> bool:
        """Whether this membership covers what `role` may do."""
        return RANKS.index(Role(self.role)) >= RANKS.index(role)
