"""Creation, changes and deletion of saved views."""

from typing import Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.accounts.models import Membership
from harness_site.saved_views.models import SavedView

#: Maximum number of views per list; more would need a search of their own.
MAX_VIEWS_PER_LIST: Final = 40


class SavedViewRefused(Exception):
    """Refusal to save a view; the message gives the reason and what to do."""


class NameTaken(SavedViewRefused):
    def __init__(self, name: str) -> None:
        super().__init__(
            _("A view named “%(name)s” already exists. Choose another name, or update that view.") % {"name": name}
        )


class TooManyViews(SavedViewRefused):
    def __init__(self) -> None:
        super().__init__(
            ngettext(
                "This list already has %(count)s view. Remove it first.",
                "This list already has %(count)s views. Remove one of them first.",
                MAX_VIEWS_PER_LIST,
            )
            % {"count": MAX_VIEWS_PER_LIST}
        )


def create_saved_view(member: Membership, *, page: str, name: str, query: str) -> SavedView:
    """Create a view for the whole workspace. Raises `NameTaken` and `TooManyViews`."""
    views = SavedView.objects.filter(workspace=member.workspace_id, page=page)
    try:
        with transaction.atomic():
            if views.count() >= MAX_VIEWS_PER_LIST:
                raise TooManyViews
            return SavedView.objects.create(
                workspace=member.workspace, page=page, name=name, query=query, created_by_id=member.user_id
            )
    except IntegrityError as error:
        raise NameTaken(name) from error


def update_filters_of_saved_view(view: SavedView, query: str) -> None:
    """Give a view other filters, for the whole workspace."""
    SavedView.objects.filter(pk=view.pk).update(query=query)


def rename_saved_view(view: SavedView, name: str) -> None:
    """Rename a view for the whole workspace. Raises `NameTaken`."""
    try:
        with transaction.atomic():
            SavedView.objects.filter(pk=view.pk).update(name=name)
    except IntegrityError as error:
        raise NameTaken(name) from error


def delete_saved_view(view: SavedView) -> None:
    """Delete a saved view; the sessions or calls it lists are unaffected."""
    SavedView.objects.filter(pk=view.pk).delete()
