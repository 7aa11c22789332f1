"""Changes of members and invitations, each in one transaction with its audit event."""

from __future__ import annotations

from typing import Final

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest

from checkpoints.db import clock
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts import audit_events, one_time_secrets
from harness_site.accounts.models import Invitation, Membership
from harness_site.accounts.models.invitation import LIFETIME
from harness_site.accounts.user_sessions import end_user_sessions

_PREFIX: Final = "invite"


class MemberError(Exception):
    """Refused change of members; nothing was changed. The message is shown to the user."""


class LastAdmin(MemberError):
    def __init__(self) -> None:
        super().__init__("This is the only admin of the workspace. Make somebody else an admin first.")


class MemberGone(MemberError):
    def __init__(self, member: Membership) -> None:
        super().__init__(f"{member.user.get_username()} is no longer a member: somebody was faster.")


class MemberOfOtherWorkspaces(MemberError):
    def __init__(self, member: Membership) -> None:
        super().__init__(
            f"{member.user.get_username()} is a member of other workspaces as well. Ask who runs this installation: "
            "`manage.py reset_factors` does it."
        )


class InvitationClosed(MemberError):
    def __init__(self, invitation: Invitation) -> None:
        state = "has been used" if invitation.accepted_at else "was revoked" if invitation.revoked_at else "has expired"
        super().__init__(f"This invitation {state}. Ask for a new one.")


def change_member_role(by: Membership, member: Membership, role: Role, *, request: HttpRequest) -> None:
    """Change the role of a member. Raises `LastAdmin`, `MemberGone`."""
    with transaction.atomic():
        previous_role = _get_role_with_lock(member)
        if previous_role == role:
            return
        if previous_role == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).update(role=role)
        name = member.user.get_username()
        audit_events.record_member_event(
            by, AuditKind.ROLE_CHANGED, request=request, member=name, before=previous_role, role=role
        )


def remove_member(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Delete a membership; the account remains. Raises `LastAdmin`, `MemberGone`."""
    with transaction.atomic():
        role = _get_role_with_lock(member)
        if role == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).delete()
        name = member.user.get_username()
        audit_events.record_member_event(by, AuditKind.MEMBER_REMOVED, request=request, member=name, role=role)


def reset_member_factors(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Remove all second factors of a member who has lost theirs, and end all their user sessions.

    Raises:
        MemberOfOtherWorkspaces: An admin of one workspace must not weaken the sign-in to another one.
    """
    if Membership.objects.filter(user=member.user).exclude(workspace=by.workspace).exists():
        raise MemberOfOtherWorkspaces(member)
    with transaction.atomic():
        removed_count = Authenticator.objects.filter(user=member.user).delete()[0]
        ended_count = end_user_sessions(member.user)
        details = {"member": member.user.get_username(), "factors": removed_count, "ended": ended_count}
        audit_events.record_member_event(by, AuditKind.FACTOR_REMOVED, request=request, **details)


def create_invitation(by: Membership, role: Role, note: str, *, request: HttpRequest) -> tuple[Invitation, str]:
    """Create an invitation and return it with its secret, which is not stored."""
    secret = one_time_secrets.generate_secret(_PREFIX)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            workspace=by.workspace,
            role=role,
            note=note,
            digest=one_time_secrets.compute_secret_digest(secret),
            invited_by=by.user.get_username(),
            expires_at=clock.now() + LIFETIME,
        )
        audit_events.record_member_event(by, AuditKind.INVITED, request=request, invitation=invitation.pk, role=role)
    return invitation, secret


def revoke_invitation(by: Membership, invitation: Invitation, *, request: HttpRequest) -> None:
    """Revoke an invitation; do nothing if it is closed already."""
    with transaction.atomic():
        open_invitations = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if open_invitations.update(revoked_at=clock.now()):
            audit_events.record_member_event(
                by, AuditKind.INVITATION_REVOKED, request=request, invitation=invitation.pk
            )


def find_invitation(secret: str) -> Invitation | None:
    """Return the invitation with this secret, open or closed, or None."""
    return (
        Invitation.objects.filter(digest=one_time_secrets.compute_secret_digest(secret))
        .select_related("workspace")
        .first()
    )


def accept_invitation(invitation: Invitation, user: User, *, request: HttpRequest) -> Membership:
    """Make `user` a member; an existing member keeps the higher role. Raises `InvitationClosed`."""
    with transaction.atomic():
        open_invitations = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if not open_invitations.filter(expires_at__gt=clock.now()).update(accepted_at=clock.now(), accepted_by=user):
            invitation.refresh_from_db()
            raise InvitationClosed(invitation)
        role = Role(invitation.role)
        member, is_new = Membership.objects.get_or_create(
            user=user, workspace=invitation.workspace, defaults={"role": role}
        )
        previous_role = None if is_new else member.role
        if not member.has_role(role):
            member.role = role
            member.save(update_fields=["role"])
        kind = AuditKind.MEMBER_ADDED if is_new else AuditKind.ROLE_CHANGED
        audit_events.record_member_event(
            member, kind, request=request, role=member.role, before=previous_role, invitation=invitation.pk
        )
        return member


def _get_role_with_lock(member: Membership) -> str:
    """Return the current role of a member and lock the workspace, so that two admins cannot leave at once."""
    Workspace.objects.select_for_update(no_key=True).get(pk=member.workspace_id)
    role = Membership.objects.filter(pk=member.pk).values_list("role", flat=True).first()
    if role is None:
        raise MemberGone(member)
    return role


def _require_another_admin(member: Membership) -> None:
    admins = Membership.objects.filter(workspace=member.workspace_id, role=Role.ADMIN, user__is_active=True)
    if not admins.exclude(pk=member.pk).exists():
        raise LastAdmin
