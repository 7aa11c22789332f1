"""Who is a member of the workspace, and who is invited. For admins."""

from typing import Any

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from harness_site.accounts import people
from harness_site.accounts.again import shown_lately
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.models import Invitation, Membership


class InvitationForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices, initial=Role.AUDITOR, label="Role")
    note = forms.CharField(max_length=200, required=False, label="For whom")


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@require_GET
@member(Role.ADMIN)
def members(request: MemberRequest) -> HttpResponse:
    return _show(request)


@require_POST
@member(Role.ADMIN)
@shown_lately
def change_role(request: MemberRequest, pk: int) -> HttpResponse:
    found, form = _find(request, pk), RoleForm(request.POST)
    if not form.is_valid():
        return _show(request, problem="There is no such role. Nothing was changed.", status=422)
    try:
        people.change_role(request.membership, found, Role(form.cleaned_data["role"]), request=request)
    except people.PeopleError as error:
        return _show(request, problem=str(error), status=409)
    return redirect("members")


@require_POST
@member(Role.ADMIN)
@shown_lately
def remove(request: MemberRequest, pk: int) -> HttpResponse:
    try:
        people.remove(request.membership, _find(request, pk), request=request)
    except people.PeopleError as error:
        return _show(request, problem=str(error), status=409)
    return redirect("members")


@require_POST
@member(Role.ADMIN)
@shown_lately
def reset_factors(request: MemberRequest, pk: int) -> HttpResponse:
    try:
        people.reset_factors(request.membership, _find(request, pk), request=request)
    except people.PeopleError as error:
        return _show(request, problem=str(error), status=409)
    return redirect("members")


@require_POST
@member(Role.ADMIN)
@shown_lately
def invite(request: MemberRequest) -> HttpResponse:
    """The answer is the one page that shows the link."""
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _show(request, form=form, status=422)
    role, note = Role(form.cleaned_data["role"]), form.cleaned_data["note"]
    invitation, secret = people.invite(request.membership, role, note, request=request)
    link = request.build_absolute_uri(reverse("invitation", args=[secret]))
    return _show(request, link=link, invitation=invitation)


@require_POST
@member(Role.ADMIN)
def revoke(request: MemberRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Invitation, pk=_key(pk), workspace=request.membership.workspace)
    people.revoke_invitation(request.membership, found, request=request)
    return redirect("members")


def _key(pk: int) -> int:
    """Keys beyond what a database can look for name nothing."""
    return pk if pk < 2**63 else 0


def _find(request: MemberRequest, pk: int) -> Membership:
    theirs = Membership.objects.filter(workspace=request.membership.workspace).select_related("user", "workspace")
    return get_object_or_404(theirs, pk=_key(pk))


def _show(
    request: MemberRequest, *, form: InvitationForm | None = None, status: int = 200, **more: Any
) -> HttpResponse:
    workspace = request.membership.workspace
    open_ = Invitation.objects.filter(workspace=workspace, accepted_at=None, revoked_at=None).order_by("-pk")
    context = {
        "members": Membership.objects.filter(workspace=workspace).select_related("user").order_by("user__username"),
        "invitations": [one for one in open_ if one.open],
        "roles": Role.choices,
        "form": form or InvitationForm(),
        "tab": "members",
        **more,
    }
    return render(request, "settings/members.html", context, status=status)
