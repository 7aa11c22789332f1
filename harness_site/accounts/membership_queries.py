"""Query of a user's memberships, oldest first."""

from __future__ import annotations

from operator import attrgetter

from django.contrib.auth.base_user import AbstractBaseUser

from harness_site.accounts.models import Membership


def list_memberships_cached_on_user(user: AbstractBaseUser) -> list[Membership]:
    """Return the memberships of `user` with workspace, its masking, and the user.

    Runs one query for each user object; every request has its own, so that changes apply from the next request on.
    """
    memberships: list[Membership] | None = getattr(user, "memberships_read", None)
    if memberships is None:
        of_user = Membership.objects.filter(user=user.pk).select_related("workspace__masking")
        # There are few, and a statement with an order takes twice as long to build.
        memberships = sorted(of_user, key=attrgetter("pk"))
        for membership in memberships:
            membership.user = user  # type: ignore[assignment]
        user.memberships_read = memberships  # type: ignore[attr-defined]
    return memberships
