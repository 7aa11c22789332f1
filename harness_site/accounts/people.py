"""Who is a member, and as what. Each change is one transaction that the audit trail is part of."""

from __future__ import annotations

from typing import Final

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest

from checkpoints import clock
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts import secrets, trail
from harness_site.accounts.models import Invitation, Membership
from harness_site.accounts.models.invitation import LIFETIME
from harness_site.accounts.signing import end_sign_ins

_PREFIX: Final = "invite"


class PeopleError(Exception):
    """Nothing was changed. The message is a sentence for who asked."""


class LastAdmin(PeopleError):
    def __init__(self) -> None:
        super().__init__("This is the only admin of the workspace. Make somebody else an admin first.")


class Gone(PeopleError):
    def __init__(self, member: Membership) -> None:
        super().__init__(f"{member.user.get_username()} is no longer a member: somebody was faster.")


class ElsewhereToo(PeopleError):
    def __init__(self, member: Membership) -> None:
        super().__init__(
            f"{member.user.get_username()} is a member of other workspaces as well. Ask who runs this installation: "
            "`manage.py reset_factors` does it."
        )


class InvitationClosed(PeopleError):
    def __init__(self, invitation: Invitation) -> None:
        what = "has been used" if invitation.accepted_at else "was revoked" if invitation.revoked_at else "has expired"
        super().__init__(f"This invitation {what}. Ask for a new one.")


def change_role(by: Membership, member: Membership, role: Role, *, request: HttpRequest) -> None:
    """Give a member another role. Raises `LastAdmin`, `Gone`."""
    with transaction.atomic():
        before = _locked(member)
        if before == role:
            return
        if before == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).update(role=role)
        name = member.user.get_username()
        trail.record(by, AuditKind.ROLE_CHANGED, request=request, member=name, before=before, role=role)


def remove(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """End a membership; the account stays. Raises `LastAdmin`, `Gone`."""
    with transaction.atomic():
        role = _locked(member)
        if role == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).delete()
        name = member.user.get_username()
        trail.record(by, AuditKind.MEMBER_REMOVED, request=request, member=name, role=role)


def reset_factors(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Take every second factor from somebody who has lost theirs, and end all their sign-ins.

    Raises `ElsewhereToo`: an admin of one workspace must not weaken the door to another one.
    """
    if Membership.objects.filter(user=member.user).exclude(workspace=by.workspace).exists():
        raise ElsewhereToo(member)
    with transaction.atomic():
        removed = Authenticator.objects.filter(user=member.user).delete()[0]
        ended = end_sign_ins(member.user)
        details = {"member": member.user.get_username(), "factors": removed, "ended": ended}
        trail.record(by, AuditKind.FACTOR_REMOVED, request=request, **details)


def invite(by: Membership, role: Role, note: str, *, request: HttpRequest) -> tuple[Invitation, str]:
    """A new invitation, and its secret, which is known only now."""
    secret = secrets.made(_PREFIX)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            workspace=by.workspace,
            role=role,
            note=note,
            digest=secrets.digest(secret),
            invited_by=by.user.get_username(),
            expires_at=clock.now() + LIFETIME,
        )
        trail.record(by, AuditKind.INVITED, request=request, invitation=invitation.pk, role=role)
    return invitation, secret


def revoke_invitation(by: Membership, invitation: Invitation, *, request: HttpRequest) -> None:
    """Close an invitation; one that is closed already stays as it is."""
    with transaction.atomic():
        open_ = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if open_.update(revoked_at=clock.now()):
            trail.record(by, AuditKind.INVITATION_REVOKED, request=request, invitation=invitation.pk)


def invitation_of(secret: str) -> Invitation | None:
    """The invitation with this secret, open or not."""
    return Invitation.objects.filter(digest=secrets.digest(secret)).select_related("workspace").first()


def accept(invitation: Invitation, user: User, *, request: HttpRequest) -> Membership:
    """Make `user` a member; whoever is one keeps the greater role. Raises `InvitationClosed`."""
    with transaction.atomic():
        open_ = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if not open_.filter(expires_at__gt=clock.now()).update(accepted_at=clock.now(), accepted_by=user):
            invitation.refresh_from_db()
            raise InvitationClosed(invitation)
        role = Role(invitation.role)
        member, fresh = Membership.objects.get_or_create(
            user=user, workspace=invitation.workspace, defaults={"role": role}
        )
        before = None if fresh else member.role
        if not member.may(role):
            member.role = role
            member.save(update_fields=["role"])
        kind = AuditKind.MEMBER_ADDED if fresh else AuditKind.ROLE_CHANGED
        trail.record(member, kind, request=request, role=member.role, before=before, invitation=invitation.pk)
        return member


def _locked(member: Membership) -> str:
    """The role a member has now. Changes of one workspace wait for each other, so that two admins cannot both leave."""
    Workspace.objects.select_for_update(no_key=True).get(pk=member.workspace_id)
    role = Membership.objects.filter(pk=member.pk).values_list("role", flat=True).first()
    if role is None:
        raise Gone(member)
    return role


def _require_another_admin(member: Membership) -> None:
    admins = Membership.objects.filter(workspace=member.workspace_id, role=Role.ADMIN, user__is_active=True)
    if not admins.exclude(pk=member.pk).exists():
        raise LastAdmin
