"""Table of the workspaces that require a second factor of their members."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import Role
from checkpoints.models import Workspace


class FactorScope(models.TextChoices):
    """Of which members of a workspace a second factor is required."""

    NOBODY = "nobody", _("Nobody")
    APPROVERS = "approvers", _("Approvers and admins")
    EVERYBODY = "everybody", _("All members")

    @property
    def lowest_role(self) -> Role | None:
        """The role from which on members need a second factor; None if nobody does."""
        return {FactorScope.APPROVERS: Role.APPROVER, FactorScope.EVERYBODY: Role.AUDITOR}.get(self)


class SecondFactorRequirement(models.Model):
    """Requirement of a second factor in one workspace. Without a row none is required."""

    workspace = models.OneToOneField(
        Workspace, on_delete=models.CASCADE, primary_key=True, related_name="second_factor_requirement"
    )
    scope = models.CharField(max_length=10, choices=FactorScope.choices)
    #: Username of the admin who has set it last, and when.
    required_by = models.CharField(max_length=255)
    required_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"second factor of {self.scope} in {self.workspace}"
