"""Table of the masking settings of workspaces."""

from django.db import models

from checkpoints.enums import Role
from checkpoints.models import Workspace
from checkpoints.models.translated_enum_choices import build_choices


class MaskingSettings(models.Model):
    """Masking settings of one workspace: additional secret names and words, and the role that may unmask.

    Without a row the built-in rules apply, and only admins may unmask.
    """

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True, related_name="masking")
    #: One name or word per line.
    names = models.TextField(blank=True)
    words = models.TextField(blank=True)
    usual = models.BooleanField(default=True)
    reveal_role = models.CharField(max_length=10, choices=build_choices(Role), default=Role.ADMIN)

    def __str__(self) -> str:
        return f"masking of {self.workspace}"
