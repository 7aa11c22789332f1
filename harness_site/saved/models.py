from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership


class SavedView(models.Model):
    """A name for the filters of a list, for everybody in the workspace. `query` is as `pages.normalised` makes it."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="saved_views")
    #: The name of the list's address.
    page = models.CharField(max_length=20)
    name = models.CharField(max_length=60)
    query = models.TextField(blank=True)
    #: None when the person who made it has gone; then an admin may remove it.
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "page", "name"], name="one_saved_view_of_a_name"),)

    def __str__(self) -> str:
        return self.name

    def removable_by(self, member: Membership) -> bool:
        """Whoever made it, and admins."""
        return self.created_by_id == member.user_id or member.may(Role.ADMIN)
