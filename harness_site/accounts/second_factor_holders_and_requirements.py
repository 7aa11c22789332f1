"""Second factors of users: who has one, and of whom a workspace requires one.

Who signs in only through another site is asked for factors there, so no workspace requires one of them here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Exists, OuterRef, QuerySet

from harness_site.accounts import membership_queries
from harness_site.accounts.models import FactorScope, Membership, SecondFactorRequirement

#: Recovery codes are no factor: they replace one that is lost.
FACTOR_TYPES: Final = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(user: AbstractBaseUser) -> bool:
    return bool(Authenticator.objects.filter(user=user.pk, type__in=FACTOR_TYPES).exists())


def signs_in_through_another_site_only(user: AbstractBaseUser) -> bool:
    return not user.has_usable_password() and bool(SocialAccount.objects.filter(user=user.pk).exists())


def lacks_second_factor(user: AbstractBaseUser) -> bool:
    """Return whether a password alone, or a sign-in link, is enough to sign in as `user`."""
    return not has_second_factor(user) and not signs_in_through_another_site_only(user)


def query_members_with_factors(workspace: int) -> QuerySet[Membership]:
    """Query the members with `has_second_factor` and `has_single_sign_on`, the deactivated ones last."""
    factors = Authenticator.objects.filter(user=OuterRef("user"), type__in=FACTOR_TYPES)
    return (
        Membership.objects.filter(workspace=workspace)
        .select_related("user")
        .annotate(
            has_second_factor=Exists(factors),
            has_single_sign_on=Exists(SocialAccount.objects.filter(user=OuterRef("user"))),
        )
        .order_by("-user__is_active", "user__username")
    )


def signs_in_without_second_factor(member: Membership) -> bool:
    """Return whether a password alone is enough to sign in as this member of `query_members_with_factors`."""
    has_factor: bool = member.has_second_factor  # type: ignore[attr-defined]
    return member.user.is_active and not has_factor and not uses_single_sign_on_alone(member)


def uses_single_sign_on_alone(member: Membership) -> bool:
    has_single_sign_on: bool = member.has_single_sign_on  # type: ignore[attr-defined]
    return has_single_sign_on and not member.user.has_usable_password()


def count_members_without_factor(members: Iterable[Membership]) -> dict[FactorScope, int]:
    """Count, for each scope, the members who have no factor and of whom it requires one.

    `members` are those of `query_members_with_factors`.
    """
    lacking = [member for member in members if signs_in_without_second_factor(member)]
    return {scope: sum(covers_member(scope, member) for member in lacking) for scope in FactorScope}


def find_requirement_of_member(member: Membership) -> SecondFactorRequirement | None:
    """Return the requirement of the workspace of `member` if it is about their role, also one that they meet."""
    requirement: SecondFactorRequirement | None = getattr(member.workspace, "second_factor_requirement", None)
    return requirement if requirement is not None and covers_member(requirement.scope, member) else None


def covers_member(scope: str, member: Membership) -> bool:
    """Return whether a requirement with this scope is about the role of `member`; one with an unknown scope is."""
    if scope not in FactorScope.values:
        return True
    lowest_role = FactorScope(scope).lowest_role
    return lowest_role is not None and member.has_role(lowest_role)


def find_unmet_requirement(member: Membership) -> SecondFactorRequirement | None:
    """Return the requirement that keeps `member` out of their workspace until they have a second factor, or None.

    Asks the database only if there is a requirement, and once for each user object: every request has its own.
    """
    requirement = find_requirement_of_member(member)
    if requirement is None:
        return None
    is_lacking: bool | None = getattr(member.user, "lacks_second_factor_read", None)
    if is_lacking is None:
        is_lacking = lacks_second_factor(member.user)
        member.user.lacks_second_factor_read = is_lacking  # type: ignore[attr-defined]
    return requirement if is_lacking else None


def list_memberships_open_to_user(user: AbstractBaseUser) -> list[Membership]:
    """List the memberships of `user` in workspaces whose requirement they meet."""
    memberships = membership_queries.list_memberships_cached_on_user(user)
    return [member for member in memberships if find_unmet_requirement(member) is None]


def list_memberships_that_require_factor(user: AbstractBaseUser) -> list[Membership]:
    """List the memberships of `user` in workspaces that require a second factor of them."""
    memberships = membership_queries.list_memberships_cached_on_user(user)
    return [member for member in memberships if find_requirement_of_member(member) is not None]


def is_last_required_factor(authenticator: Authenticator) -> bool:
    """Return whether a user would lack a second factor that a workspace requires, without this authenticator."""
    if authenticator.type not in FACTOR_TYPES:
        return False
    others = Authenticator.objects.filter(user=authenticator.user, type__in=FACTOR_TYPES).exclude(pk=authenticator.pk)
    return (
        not others.exists()
        and bool(list_memberships_that_require_factor(authenticator.user))
        and not signs_in_through_another_site_only(authenticator.user)
    )
