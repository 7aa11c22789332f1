from django.db import models

from checkpoints.enums import Role
from checkpoints.models import Workspace


class MaskingSettings(models.Model):
    """What is secret in one workspace, beside what usually is, and who may have it shown. Without a row: the usual,
    and admins."""

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True, related_name="masking")
    #: One in each line.
    names = models.TextField(blank=True)
    words = models.TextField(blank=True)
    usual = models.BooleanField(default=True)
    reveal_role = models.CharField(max_length=10, choices=Role, default=Role.ADMIN)

    def __str__(self) -> str:
        return f"masking of {self.workspace}"
