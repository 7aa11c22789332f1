"""Table of saved filters of lists."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership

#: Maximum number of letters to which one letter is folded, such as “ΐ”.
_LONGEST_FOLDED_LETTER: Final = 3


def casefold_view_name(name: str) -> str:
    """Return what names that differ only in upper and lower case have in common."""
    return name.casefold()


class SavedView(models.Model):
    """Named filters of a list, for all members of the workspace.

    `query` is the result of `list_filter_normalization.normalize_filter_query`.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="saved_views")
    #: Key of the list in `list_filter_normalization.FILTERS`.
    page = models.CharField(max_length=20)
    name = models.CharField(max_length=60)
    #: `casefold_view_name(name)`, by which names are compared: databases fold only the case of ASCII letters alike.
    folded_name = models.CharField(max_length=60 * _LONGEST_FOLDED_LETTER, editable=False)
    query = models.TextField(blank=True)
    #: None if the user was deleted; then an admin may remove the view.
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workspace", "page", "folded_name"], name="one_saved_view_of_a_name"),
        )

    def __str__(self) -> str:
        return self.name

    def can_be_changed_by(self, member: Membership) -> bool:
        """Return True for the creator of the view and for admins."""
        return self.created_by_id == member.user_id or member.has_role(Role.ADMIN)
