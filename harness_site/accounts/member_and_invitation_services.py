"""Changes of members and invitations, each in one transaction with its audit event."""

from __future__ import annotations

from typing import Any, Final

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from checkpoints.db import clock
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts import (
    generate_and_digest_secrets,
    record_user_audit_events,
    second_factor_holders_and_requirements,
)
from harness_site.accounts.models import FactorScope, Invitation, Membership, SecondFactorRequirement
from harness_site.accounts.models.invitation import LIFETIME
from harness_site.accounts.user_sessions import end_user_sessions

_PREFIX: Final = "invite"


class MemberError(Exception):
    """Refused change of members; nothing was changed. The message is shown to the user."""


class LastAdmin(MemberError):
    def __init__(self) -> None:
        super().__init__(_("This is the only admin of the workspace. Make another member an admin first."))


class MemberGone(MemberError):
    def __init__(self, member: Membership) -> None:
        super().__init__(
            _("%(name)s is no longer a member. Another admin removed them.") % {"name": member.user.get_username()}
        )


class MemberOfOtherWorkspaces(MemberError):
    def __init__(self, member: Membership) -> None:
        super().__init__(
            _(
                "%(name)s is also a member of other workspaces, so no admin can change the account. "
                "Ask the operator of this installation to do it on the command line."
            )
            % {"name": member.user.get_username()}
        )


class OwnAccount(MemberError):
    def __init__(self) -> None:
        super().__init__(_("You cannot deactivate your own account. Ask another admin."))


class OwnFactorMissing(MemberError):
    def __init__(self) -> None:
        super().__init__(
            _("You have no second factor yourself, so this would lock you out. Set one up for your account first.")
        )


class OwnFactorRequired(MemberError):
    def __init__(self) -> None:
        super().__init__(
            _("A workspace requires a second factor of you. Replace yours under your account instead of resetting it.")
        )


class InvitationClosed(MemberError):
    def __init__(self, invitation: Invitation) -> None:
        if invitation.accepted_at:
            sentence = _("This invitation has been used. Ask for a new one.")
        elif invitation.revoked_at:
            sentence = _("This invitation was revoked. Ask for a new one.")
        else:
            sentence = _("This invitation has expired. Ask for a new one.")
        super().__init__(sentence)


def change_member_role(by: Membership, member: Membership, role: Role, *, request: HttpRequest) -> None:
    """Change the role of a member. Raises `LastAdmin`, `MemberGone`."""
    with transaction.atomic():
        previous_role = _lock_workspace_and_get_role(member)
        if previous_role == role:
            return
        if previous_role == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).update(role=role)
        name = member.user.get_username()
        record_user_audit_events.record_member_event(
            by, AuditKind.ROLE_CHANGED, request=request, member=name, before=previous_role, role=role
        )


def remove_member(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Delete a membership; the account remains. Raises `LastAdmin`, `MemberGone`."""
    with transaction.atomic():
        role = _lock_workspace_and_get_role(member)
        if role == Role.ADMIN:
            _require_another_admin(member)
        Membership.objects.filter(pk=member.pk).delete()
        name = member.user.get_username()
        record_user_audit_events.record_member_event(
            by, AuditKind.MEMBER_REMOVED, request=request, member=name, role=role
        )


def reset_member_factors_and_end_sessions(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Remove all second factors of a member who has lost theirs, and end all their user sessions.

    Where the workspace requires a second factor, the member sets up another one at the next sign-in.

    Raises:
        MemberOfOtherWorkspaces: An admin of one workspace must not weaken the sign-in to another one.
        OwnFactorRequired: Nobody removes their own factors while the workspace requires one of them.
    """
    _require_no_other_workspace(by, member)
    if (
        by.user_id == member.user_id
        and second_factor_holders_and_requirements.find_requirement_of_member(by) is not None
    ):
        raise OwnFactorRequired
    with transaction.atomic():
        removed_count = Authenticator.objects.filter(user=member.user).delete()[0]
        ended_count = end_user_sessions(member.user)
        details = {"member": member.user.get_username(), "factors": removed_count, "ended": ended_count}
        record_user_audit_events.record_member_event(by, AuditKind.FACTOR_REMOVED, request=request, **details)


def deactivate_member_and_end_sessions(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Deactivate the account of a member and end its user sessions. The membership remains.

    Raises `OwnAccount`, `LastAdmin`, `MemberGone`, and `MemberOfOtherWorkspaces`.
    """
    if by.user_id == member.user_id:
        raise OwnAccount
    _require_no_other_workspace(by, member)
    with transaction.atomic():
        if _lock_workspace_and_get_role(member) == Role.ADMIN:
            _require_another_admin(member)
        if User.objects.filter(pk=member.user_id, is_active=True).update(is_active=False):
            name, ended_count = member.user.get_username(), end_user_sessions(member.user)
            record_user_audit_events.record_member_event(
                by, AuditKind.MEMBER_DEACTIVATED, request=request, member=name, ended=ended_count
            )


def reactivate_member(by: Membership, member: Membership, *, request: HttpRequest) -> None:
    """Let a deactivated member sign in again. Raises `MemberOfOtherWorkspaces`."""
    _require_no_other_workspace(by, member)
    with transaction.atomic():
        if User.objects.filter(pk=member.user_id, is_active=False).update(is_active=True):
            name = member.user.get_username()
            record_user_audit_events.record_member_event(by, AuditKind.MEMBER_REACTIVATED, request=request, member=name)


def change_factor_requirement(by: Membership, scope: FactorScope, *, request: HttpRequest) -> int:
    """Change of which members the workspace requires a second factor; return how many of these have none.

    Raises:
        OwnFactorMissing: `by` has none, so the change would lock them out.
    """
    if scope != FactorScope.NOBODY and second_factor_holders_and_requirements.lacks_second_factor(by.user):
        raise OwnFactorMissing
    with transaction.atomic():
        Workspace.objects.select_for_update(no_key=True).get(pk=by.workspace_id)
        stored = SecondFactorRequirement.objects.filter(workspace=by.workspace_id)
        previous_scope = stored.values_list("scope", flat=True).first() or FactorScope.NOBODY
        members = second_factor_holders_and_requirements.query_members_with_factors(by.workspace_id)
        lacking_count = second_factor_holders_and_requirements.count_members_without_factor(members)[scope]
        if scope == previous_scope:
            return lacking_count
        if scope == FactorScope.NOBODY:
            stored.delete()
        else:
            values = {"scope": scope, "required_by": by.user.get_username(), "required_at": clock.now()}
            SecondFactorRequirement.objects.update_or_create(workspace=by.workspace, defaults=values)
        details: dict[str, Any] = {
            "required_before": previous_scope,
            "required_of": scope,
            "without_factor": lacking_count,
        }
        record_user_audit_events.record_member_event(by, AuditKind.FACTOR_RULE_CHANGED, request=request, **details)
        return lacking_count


def create_invitation_with_secret(
    by: Membership, role: Role, note: str, *, request: HttpRequest
) -> tuple[Invitation, str]:
    """Create an invitation and return it with its secret, which is not stored."""
    secret = generate_and_digest_secrets.generate_secret(_PREFIX)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            workspace=by.workspace,
            role=role,
            note=note,
            digest=generate_and_digest_secrets.compute_secret_digest(secret),
            invited_by=by.user.get_username(),
            expires_at=clock.now() + LIFETIME,
        )
        record_user_audit_events.record_member_event(
            by, AuditKind.INVITED, request=request, invitation=invitation.pk, role=role
        )
    return invitation, secret


def store_invitation_address(invitation: Invitation, address: str) -> None:
    """Note that the link was sent to `address` and shown to nobody: whoever opens it owns the address."""
    Invitation.objects.filter(pk=invitation.pk).update(email=address)


def replace_invitation_with_secret(
    by: Membership, invitation: Invitation, *, request: HttpRequest
) -> tuple[Invitation, str]:
    """Revoke an open invitation and create one with the same role and note; return it with its secret.

    Raises:
        InvitationClosed: The invitation was accepted or revoked meanwhile.
    """
    with transaction.atomic():
        if not revoke_invitation(by, invitation, request=request):
            invitation.refresh_from_db()
            raise InvitationClosed(invitation)
        return create_invitation_with_secret(by, Role(invitation.role), invitation.note, request=request)


def revoke_invitation(by: Membership, invitation: Invitation, *, request: HttpRequest) -> bool:
    """Revoke an invitation and return True; do nothing and return False if it was accepted or revoked already."""
    with transaction.atomic():
        open_invitations = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if not open_invitations.update(revoked_at=clock.now()):
            return False
        record_user_audit_events.record_member_event(
            by, AuditKind.INVITATION_REVOKED, request=request, invitation=invitation.pk
        )
        return True


def find_open_or_closed_invitation_by_secret(secret: str) -> Invitation | None:
    """Return the invitation with this secret, open or closed, or None."""
    return (
        Invitation.objects.filter(digest=generate_and_digest_secrets.compute_secret_digest(secret))
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
        _copy_invitation_address_to_user(user, invitation)
        member, is_new = Membership.objects.get_or_create(
            user=user, workspace=invitation.workspace, defaults={"role": role}
        )
        previous_role = None if is_new else member.role
        if not member.has_role(role):
            member.role = role
            member.save(update_fields=["role"])
        kind = AuditKind.MEMBER_ADDED if is_new else AuditKind.ROLE_CHANGED
        record_user_audit_events.record_member_event(
            member, kind, request=request, role=member.role, before=previous_role, invitation=invitation.pk
        )
        return member


def _copy_invitation_address_to_user(user: User, invitation: Invitation) -> None:
    if invitation.email and not user.email:
        user.email = invitation.email
        user.save(update_fields=["email"])


def _require_no_other_workspace(by: Membership, member: Membership) -> None:
    if Membership.objects.filter(user=member.user).exclude(workspace=by.workspace).exists():
        raise MemberOfOtherWorkspaces(member)


def _lock_workspace_and_get_role(member: Membership) -> str:
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
