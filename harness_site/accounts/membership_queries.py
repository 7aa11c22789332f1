"""Query of a user's memberships, oldest first."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import Prefetch, prefetch_related_objects

from harness_site.accounts.models import Membership


def list_memberships(user: AbstractBaseUser) -> list[Membership]:
    """Return the memberships of `user` with workspace, its masking, and the user.

    Runs one query for each user object; every request has its own, so that changes apply from the next request on.
    """
    person = cast(User, user)
    memberships = Membership.objects.select_related("workspace__masking").order_by("pk")
    prefetch_related_objects([person], Prefetch("memberships", queryset=memberships, to_attr="memberships_read"))
    return cast("list[Membership]", person.memberships_read)  # type: ignore[attr-defined]
