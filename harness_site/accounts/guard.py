"""Who may open a page: `@member(Role.AUDITOR)` stands on every view and gives it `request.membership`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django_htmx.middleware import HtmxDetails

from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts import memberships, secrecy
from harness_site.accounts.models import Membership
from harness_site.rendering import masking

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The name of a page, and the keys of the sessions it shows parts of."""

    page: str
    sessions: frozenset[int]


class MemberRequest(HttpRequest):
    """A request of somebody who is a member; only `member` makes one."""

    htmx: HtmxDetails
    membership: Membership
    #: The keys of sessions whose text or arguments the answer shows, noted by the function that renders them.
    sessions_shown: set[int]
    #: Set by a page that shows parts of what was said in many sessions.
    excerpts: Excerpts


View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]
MemberView: TypeAlias = Callable[Concatenate[MemberRequest, P], R]


class NotAMember(PermissionDenied):
    """Signed in, but in no workspace."""


class RoleTooSmall(PermissionDenied):
    """A member whose role does not cover what was asked for."""

    def __init__(self, membership: Membership, needed: Role) -> None:
        self.membership, self.needed = membership, needed
        super().__init__(f"{membership} may not do what takes the role {needed}.")


#: Where a sign-in remembers the workspace its person has chosen.
WORKSPACE_KEY: Final = "workspace"


def membership_of(user: AbstractBaseUser | AnonymousUser, chosen: object = None) -> Membership | None:
    """The membership a user acts under: that of the workspace `chosen`, else the oldest one.

    None for anonymous and for inactive users.
    """
    if not user.is_authenticated or not user.is_active:
        return None
    theirs = memberships.of(user)
    return next((one for one in theirs if one.workspace_id == chosen), theirs[0] if theirs else None)


def membership_for(request: HttpRequest) -> Membership | None:
    """The membership whose rights a request has."""
    return membership_of(request.user, request.session.get(WORKSPACE_KEY))


def able(workspace: Workspace, role: Role) -> list[str]:
    """The names of the members who may do what `role` may."""
    members = Membership.objects.filter(workspace=workspace, user__is_active=True).select_related("user")
    return [one.user.get_username() for one in members.order_by("user__username") if one.may(role)]


def member(at_least: Role) -> Callable[[MemberView[P, R]], View[P, R]]:
    """Let only members with this role or a greater one in. Raises `NotAMember` or `RoleTooSmall` (both 403)."""

    def decorate(view: MemberView[P, R]) -> View[P, R]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
            found = membership_for(request)
            if found is None:
                raise NotAMember
            if not found.may(at_least):
                raise RoleTooSmall(found, at_least)
            theirs = cast(MemberRequest, request)
            theirs.membership = found
            with masking.reading(secrecy.rules_for(request, found)):
                return view(theirs, *args, **kwargs)

        return guarded

    return decorate
