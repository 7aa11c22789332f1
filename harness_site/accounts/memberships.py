"""The memberships of one person, the oldest first."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import Prefetch, prefetch_related_objects

from harness_site.accounts.models import Membership


def of(user: AbstractBaseUser) -> list[Membership]:
    """Return the memberships of `user` with workspace, its masking, and the user.

    One query for each user object: every request has its own, so that a change counts from the next request on.
    """
    person = cast(User, user)
    theirs = Membership.objects.select_related("workspace__masking").order_by("pk")
    prefetch_related_objects([person], Prefetch("memberships", queryset=theirs, to_attr="memberships_read"))
    return cast("list[Membership]", person.memberships_read)  # type: ignore[attr-defined]
