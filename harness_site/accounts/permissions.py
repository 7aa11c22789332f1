"""Role check for views: `@require_member_with_role(Role.AUDITOR)` sets `request.membership`."""

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
from harness_site.accounts import membership_queries, unmasking
from harness_site.accounts.models import Membership
from harness_site.accounts.refuse_members_without_second_factor import refuse_until_second_factor_is_set_up
from harness_site.accounts.second_factor_holders_and_requirements import find_unmet_requirement
from harness_site.core.masking import masker

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


@dataclass(frozen=True, slots=True)
class ShownExcerpts:
    """Name of a page and the keys of the sessions it displays parts of."""

    page: str
    sessions: frozenset[int]


class MemberRequest(HttpRequest):
    """Request of a member; created only by `require_member_with_role`."""

    htmx: HtmxDetails
    membership: Membership
    #: Keys of sessions whose text or arguments the response shows, set by the functions that render them.
    sessions_shown: set[int]
    #: Key of the session that the page is about, if it is about one.
    session_shown: int
    #: Workspace and key of the call of the page, also if its row cannot be read.
    call_shown: tuple[int, int]
    #: Set by pages that show parts of several sessions.
    excerpts: ShownExcerpts


View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]
MemberView: TypeAlias = Callable[Concatenate[MemberRequest, P], R]


class NotAMember(PermissionDenied):
    """Refusal of a signed-in user without a membership."""


class RoleTooSmall(PermissionDenied):
    """Refusal of a member whose role is too low."""

    def __init__(self, membership: Membership, needed: Role) -> None:
        self.membership, self.needed = membership, needed
        super().__init__(f"{membership} may not do what takes the role {needed}.")


#: Key of the chosen workspace in the user session.
WORKSPACE_KEY: Final = "workspace"


def find_membership_in_workspace_or_oldest(
    user: AbstractBaseUser | AnonymousUser, workspace_id: object = None
) -> Membership | None:
    """Return the membership that a user acts under: in the workspace `workspace_id`, else the oldest one.

    Returns None for anonymous and for inactive users.
    """
    if not user.is_authenticated or not user.is_active:
        return None
    memberships = membership_queries.list_memberships_cached_on_user(user)
    return next(
        (membership for membership in memberships if membership.workspace_id == workspace_id),
        memberships[0] if memberships else None,
    )


def find_request_membership(request: HttpRequest) -> Membership | None:
    """Return the membership that applies to a request, or None."""
    return find_membership_in_workspace_or_oldest(request.user, request.session.get(WORKSPACE_KEY))


def list_active_usernames_with_role_or_higher(workspace: Workspace, role: Role) -> list[str]:
    """List the usernames of the active members whose role includes `role`."""
    members = Membership.objects.filter(workspace=workspace, user__is_active=True).select_related("user")
    return [member.user.get_username() for member in members.order_by("user__username") if member.has_role(role)]


def require_member_with_role(at_least: Role) -> Callable[[MemberView[P, R]], View[P, R]]:
    """Restrict a view to members with at least this role. Raises `NotAMember` or `RoleTooSmall` (both 403).

    A member who lacks a second factor that the workspace requires is led to the page that sets one up instead.
    """

    def wrap_view(view: MemberView[P, R]) -> View[P, R]:
        @wraps(view)
        def check_role_and_call_view_with_masking(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
            membership = find_request_membership(request)
            if membership is None:
                raise NotAMember
            if find_unmet_requirement(membership) is not None:
                return cast(R, refuse_until_second_factor_is_set_up(request, membership))
            if not membership.has_role(at_least):
                raise RoleTooSmall(membership, at_least)
            member_request = cast(MemberRequest, request)
            member_request.membership = membership
            with masker.use_masking_rules(unmasking.get_masking_rules_unless_unmasked(request, membership)):
                return view(member_request, *args, **kwargs)

        return check_role_and_call_view_with_masking

    return wrap_view
