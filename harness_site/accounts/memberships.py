"""The memberships of one person, the oldest first."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import QuerySet

from checkpoints.prepared import Prepared
from harness_site.accounts.models import Membership

#: Where a person who was read by their memberships has them: for one request, which reads its person anew.
_READ: Final = "memberships_read"


@Prepared
def _of(user: int) -> QuerySet[Membership]:
    return Membership.objects.select_related("workspace__masking", "user").filter(user=user).order_by("pk")


def person(pk: int) -> User | None:
    """A user with their memberships, in one query; None for who has none."""
    theirs = _of(pk)
    if not theirs:
        return None
    user = theirs[0].user
    setattr(user, _READ, theirs)
    return user


def of(user: AbstractBaseUser) -> list[Membership]:
    """With workspace, its masking, and the user; no query for a user that `person` has read."""
    read: list[Membership] | None = getattr(user, _READ, None)
    return _of(user.pk) if read is None else read
