"""Members and invitations of the workspace, for admins."""

from typing import Any

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from harness_site.accounts import member_services
from harness_site.accounts.models import Invitation, Membership
from harness_site.accounts.permissions import MemberRequest, require_member
from harness_site.accounts.reauthentication import require_recent_login


class InvitationForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices, initial=Role.AUDITOR, label="Role")
    note = forms.CharField(max_length=200, required=False, label="For whom")


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@require_GET
@require_member(Role.ADMIN)
def list_members(request: MemberRequest) -> HttpResponse:
    return _render_members_page(request)


@require_POST
@require_member(Role.ADMIN)
@require_recent_login
def change_member_role(request: MemberRequest, pk: int) -> HttpResponse:
    member, form = _get_member_or_404(request, pk), RoleForm(request.POST)
    if not form.is_valid():
        return _render_members_page(request, problem="There is no such role. Nothing was changed.", status=422)
    try:
        member_services.change_member_role(request.membership, member, Role(form.cleaned_data["role"]), request=request)
    except member_services.MemberError as error:
        return _render_members_page(request, problem=str(error), status=409)
    return redirect("harness_settings:members")


@require_POST
@require_member(Role.ADMIN)
@require_recent_login
def remove_member(request: MemberRequest, pk: int) -> HttpResponse:
    try:
        member_services.remove_member(request.membership, _get_member_or_404(request, pk), request=request)
    except member_services.MemberError as error:
        return _render_members_page(request, problem=str(error), status=409)
    return redirect("harness_settings:members")


@require_POST
@require_member(Role.ADMIN)
@require_recent_login
def reset_member_factors(request: MemberRequest, pk: int) -> HttpResponse:
    try:
        member_services.reset_member_factors(request.membership, _get_member_or_404(request, pk), request=request)
    except member_services.MemberError as error:
        return _render_members_page(request, problem=str(error), status=409)
    return redirect("harness_settings:members")


@require_POST
@require_member(Role.ADMIN)
@require_recent_login
def create_invitation(request: MemberRequest) -> HttpResponse:
    """Create an invitation and show its link, once."""
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _render_members_page(request, form=form, status=422)
    role, note = Role(form.cleaned_data["role"]), form.cleaned_data["note"]
    invitation, secret = member_services.create_invitation(request.membership, role, note, request=request)
    link = request.build_absolute_uri(reverse("harness_accounts:invitation", args=[secret]))
    return _render_members_page(request, link=link, invitation=invitation)


@require_POST
@require_member(Role.ADMIN)
def revoke_invitation(request: MemberRequest, pk: int) -> HttpResponse:
    invitation = get_object_or_404(Invitation, pk=_parse_primary_key(pk), workspace=request.membership.workspace)
    member_services.revoke_invitation(request.membership, invitation, request=request)
    return redirect("harness_settings:members")


def _parse_primary_key(pk: int) -> int:
    """Return 0, which matches no row, for keys beyond the database's integer range."""
    return pk if pk < 2**63 else 0


def _get_member_or_404(request: MemberRequest, pk: int) -> Membership:
    members = Membership.objects.filter(workspace=request.membership.workspace).select_related("user", "workspace")
    return get_object_or_404(members, pk=_parse_primary_key(pk))


def _render_members_page(
    request: MemberRequest, *, form: InvitationForm | None = None, status: int = 200, **extra_context: Any
) -> HttpResponse:
    workspace = request.membership.workspace
    pending_invitations = Invitation.objects.filter(workspace=workspace, accepted_at=None, revoked_at=None).order_by(
        "-pk"
    )
    context = {
        "members": Membership.objects.filter(workspace=workspace).select_related("user").order_by("user__username"),
        "invitations": [invitation for invitation in pending_invitations if invitation.open],
        "roles": Role.choices,
        "form": form or InvitationForm(),
        "tab": "members",
        **extra_context,
    }
    return render(request, "settings/members.html", context, status=status)
