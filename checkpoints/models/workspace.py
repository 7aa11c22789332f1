"""Table of workspaces."""

from django.db import models


class Workspace(models.Model):
    """Tenant: its sessions, members and tokens. One called `default` always exists."""

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
