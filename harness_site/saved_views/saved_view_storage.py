"""Creation, changes and deletion of saved views."""

from typing import Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.accounts.models import Membership
from harness_site.saved_views.models import SavedView, casefold_view_name

#: Maximum number of views per list; more would need a search of their own.
MAX_VIEWS_PER_LIST: Final = 40


class SavedViewRefused(Exception):
    """Refusal to save a view; the message gives the reason and what to do."""


class NameTaken(SavedViewRefused):
    """A view of this name exists; names that differ only in upper and lower case are the same."""

    def __init__(self, name: str, *, can_be_updated: bool) -> None:
        sentence = (
            _("A view named “%(name)s” already exists. Choose another name, or update that view.")
            if can_be_updated
            else _("A view named “%(name)s” already exists. Choose another name.")
        )
        super().__init__(sentence % {"name": name})


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
                workspace=member.workspace,
                page=page,
                name=name,
                folded_name=casefold_view_name(name),
                query=query,
                created_by_id=member.user_id,
            )
    except IntegrityError as error:
        raise _build_name_taken_error(member, page, name) from error


def update_filters_of_saved_view(view: SavedView, query: str) -> None:
    """Give a view other filters, for the whole workspace."""
    SavedView.objects.filter(pk=view.pk).update(query=query)


def rename_saved_view(view: SavedView, name: str, *, by: Membership) -> None:
    """Rename a view for the whole workspace. Raises `NameTaken`."""
    try:
        with transaction.atomic():
            SavedView.objects.filter(pk=view.pk).update(name=name, folded_name=casefold_view_name(name))
    except IntegrityError as error:
        raise _build_name_taken_error(by, view.page, name) from error


def overwrite_view_and_delete_replacement(view: SavedView, replacement: SavedView) -> None:
    """Give `view` the filters of `replacement`, which is deleted, for the whole workspace.

    Raises:
        SavedView.DoesNotExist: Somebody has deleted one of them meanwhile; the other one stays as it is.
    """
    with transaction.atomic():
        locked = SavedView.objects.select_for_update().order_by("pk").in_bulk([view.pk, replacement.pk])
        if len(locked) < 2:
            raise SavedView.DoesNotExist
        update_filters_of_saved_view(view, locked[replacement.pk].query)
        delete_saved_view(replacement)


def find_saved_view_by_name(workspace: int, page: str, name: str) -> SavedView | None:
    """Return the view of a list that has this name, in upper or lower case."""
    return SavedView.objects.filter(workspace=workspace, page=page, folded_name=casefold_view_name(name)).first()


def _build_name_taken_error(member: Membership, page: str, name: str) -> NameTaken:
    existing = find_saved_view_by_name(member.workspace_id, page, name)
    if existing is None:  # deleted in the meantime
        return NameTaken(name, can_be_updated=False)
    return NameTaken(existing.name, can_be_updated=existing.can_be_changed_by(member))


def delete_saved_view(view: SavedView) -> None:
    """Delete a saved view; the sessions or calls it lists are unaffected."""
    SavedView.objects.filter(pk=view.pk).delete()
