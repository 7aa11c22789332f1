"""Keeping a view of a list, and removing one."""

from typing import Final

from django.db import IntegrityError, transaction

from harness_site.accounts.models import Membership
from harness_site.saved.models import SavedView

#: More would be a list that has to be searched itself.
MOST: Final = 40


class ViewRefused(Exception):
    """A view cannot be kept; the message says why and what to do."""


class NameTaken(ViewRefused):
    def __init__(self, name: str) -> None:
        super().__init__(f"There is a view called “{name}” already. Choose another name, or remove that one first.")


class TooManyViews(ViewRefused):
    def __init__(self) -> None:
        super().__init__(f"There are {MOST} views of this list already. Remove one that nobody needs first.")


def keep(member: Membership, *, page: str, name: str, query: str) -> SavedView:
    """A new view for the whole workspace. Raises `NameTaken` and `TooManyViews`."""
    views = SavedView.objects.filter(workspace=member.workspace_id, page=page)
    try:
        with transaction.atomic():
            if views.count() >= MOST:
                raise TooManyViews
            return SavedView.objects.create(
                workspace=member.workspace, page=page, name=name, query=query, created_by_id=member.user_id
            )
    except IntegrityError as error:
        raise NameTaken(name) from error


def remove(view: SavedView) -> None:
    """What it listed stays; only the name goes."""
    SavedView.objects.filter(pk=view.pk).delete()
