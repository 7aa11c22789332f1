"""Queries of memberships and of their workspaces."""

from __future__ import annotations

from functools import cache
from operator import attrgetter

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet

from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership


def list_memberships_cached_on_user(user: AbstractBaseUser) -> list[Membership]:
    """Return the memberships of `user`, oldest first, with workspace, its masking and requirement, and the user.

    Runs one query for each user object; every request has its own, so that changes apply from the next request on.
    """
    memberships: list[Membership] | None = getattr(user, "memberships_read", None)
    if memberships is None:
        of_user = _select_memberships_with_workspace_and_settings().filter(user=user.pk)
        # There are few, and a statement with an order takes twice as long to build.
        memberships = sorted(of_user, key=attrgetter("pk"))
        for membership in memberships:
            membership.user = user  # type: ignore[assignment]
        user.memberships_read = memberships  # type: ignore[attr-defined]
    return memberships


@cache
def _select_memberships_with_workspace_and_settings() -> QuerySet[Membership]:
    return Membership.objects.select_related("workspace__masking", "workspace__second_factor_requirement")


def may_user_decide_in_a_workspace(user: AbstractBaseUser) -> bool:
    """Return whether `user` may decide calls anywhere. Who may not gets no messages about calls that wait."""
    return any(membership.has_role(Role.APPROVER) for membership in list_memberships_cached_on_user(user))


def is_single_workspace_installation() -> bool:
    """Return whether the installation has a single workspace, whose name tells nobody anything."""
    return Workspace.objects.count() == 1
