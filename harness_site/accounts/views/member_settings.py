"""Members and invitations of the workspace, for admins."""

from collections.abc import Callable
from typing import Any, Concatenate, Final

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from checkpoints.models.translated_enum_choices import build_choices, translate_label
from harness_site.accounts import member_and_invitation_services
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.invitation_mail import send_invitation_email
from harness_site.accounts.load_member_last_activity import load_last_activity_by_user
from harness_site.accounts.models import FactorScope, Invitation, Membership, SecondFactorRequirement
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.reauthentication import require_recent_login
from harness_site.accounts.second_factor_holders_and_requirements import (
    count_members_without_factor,
    covers_member,
    lacks_second_factor,
    query_members_with_factors,
    signs_in_without_second_factor,
    uses_single_sign_on_alone,
)
from harness_site.accounts.secrets_shown_once import pop_secret_for_page, store_secret_for_next_page
from harness_site.core.post_only_views import require_post_or_redirect
from harness_site.mail_and_connection_error_sentences import describe_connection_error, log_mail_error
from harness_site.send_email import MAIL_ERRORS, is_mail_configured
from harness_site.site_address import build_absolute_url

#: Key in the user session of a link that the members page shows once.
_LINK_KEY: Final = "invitation_link"
#: Number of members from which the list has a filter, and the longest text of the filter.
_FILTERED_FROM: Final = 10
_LONGEST_NAME: Final = 200
#: Changes of a member: the service, and the confirmation after it.
Change = Callable[Concatenate[Membership, Membership, ...], None]


class InvitationForm(forms.Form):
    """Form of an invitation. It has an address, which is required unless the form asks for a link without one, only if
    a mail server is set up."""

    email = forms.EmailField(required=False, max_length=254, label=gettext_lazy("E-mail"))
    role = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("Choose a role")),
            (Role.AUDITOR, gettext_lazy("Auditor: reads everything")),
            (Role.APPROVER, gettext_lazy("Approver: reads and decides")),
            (Role.ADMIN, gettext_lazy("Admin: reads, decides and manages")),
        ],
        label=gettext_lazy("Role"),
    )
    note = forms.CharField(max_length=200, required=False, label=gettext_lazy("Note for admins (optional)"))
    without_address = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self)
        self.fields["role"].error_messages["required"] = _("Choose a role.")
        self.fields["note"].widget.attrs |= {"autocomplete": "off"}
        if is_mail_configured():
            self.fields["email"].widget.attrs |= {"placeholder": "name@example.org", "autocomplete": "off"}
        else:
            del self.fields["email"], self.fields["without_address"]

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = self.cleaned_data
        if data.get("without_address"):
            self.errors.pop("email", None)
            data["email"] = ""
        elif "without_address" in data and data.get("email") == "":
            self.add_error("email", _("Enter the address, or create a link without an address."))
        return data


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=build_choices(Role))


class FactorRequirementForm(forms.Form):
    scope = forms.ChoiceField(choices=FactorScope.choices)


@require_GET
@require_member_with_role(Role.ADMIN)
def list_members(request: MemberRequest) -> HttpResponse:
    """List the members and the pending invitations; show the link of an invitation that was just created, once."""
    new_link = pop_secret_for_page(request, _LINK_KEY)
    if new_link is None:
        return _render_members_page(request)
    invitation = Invitation.objects.filter(pk=new_link["invitation"], workspace=request.membership.workspace).first()
    return _render_members_page(request, new_link=new_link, invitation=invitation)


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def change_member_role(request: MemberRequest, pk: int) -> HttpResponse:
    member, form = _get_member_or_404(request, pk), RoleForm(request.POST)
    if not form.is_valid():
        problem = _("This role does not exist. Nothing was changed.")
        return _render_members_page(request, problem=problem, status=422)
    role = Role(form.cleaned_data["role"])
    try:
        member_and_invitation_services.change_member_role(request.membership, member, role, request=request)
    except member_and_invitation_services.MemberError as error:
        return _render_members_page(request, problem=str(error), status=409)
    values = {"name": member.user.get_username(), "role": translate_label(role)}
    return _redirect_with_success_message(request, _("The role of %(name)s is now: %(role)s.") % values)


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def remove_member(request: MemberRequest, pk: int) -> HttpResponseBase:
    confirmation = _("%(name)s is no longer a member of this workspace.")
    return _change_member_and_redirect(request, pk, member_and_invitation_services.remove_member, confirmation)


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def reset_member_factors(request: MemberRequest, pk: int) -> HttpResponseBase:
    confirmation = _("The second factors of %(name)s were removed, and their sessions ended.")
    return _change_member_and_redirect(
        request, pk, member_and_invitation_services.reset_member_factors_and_end_sessions, confirmation
    )


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def deactivate_member(request: MemberRequest, pk: int) -> HttpResponseBase:
    confirmation = _("%(name)s is deactivated and signed out. Past decisions stay recorded.")
    return _change_member_and_redirect(
        request, pk, member_and_invitation_services.deactivate_member_and_end_sessions, confirmation
    )


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def reactivate_member(request: MemberRequest, pk: int) -> HttpResponseBase:
    return _change_member_and_redirect(
        request, pk, member_and_invitation_services.reactivate_member, _("%(name)s can sign in again.")
    )


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def change_factor_requirement(request: MemberRequest) -> HttpResponse:
    """Change of which members a second factor is required, and say how many of these have none."""
    form = FactorRequirementForm(request.POST)
    if not form.is_valid():
        problem = _("This choice does not exist. Nothing was changed.")
        return _render_members_page(request, problem=problem, status=422)
    scope = FactorScope(form.cleaned_data["scope"])
    try:
        lacking_count = member_and_invitation_services.change_factor_requirement(
            request.membership, scope, request=request
        )
    except member_and_invitation_services.OwnFactorMissing as error:
        return _render_members_page(request, problem=str(error), status=409)
    return _redirect_with_success_message(request, _describe_changed_requirement(scope, lacking_count))


def _describe_changed_requirement(scope: FactorScope, lacking_count: int) -> str:
    if scope == FactorScope.NOBODY:
        return _("Members no longer need a second factor.")
    if lacking_count == 0:
        return _("The second factor is required. Everybody of whom it is required has one.")
    return ngettext(
        "The second factor is required. %(number)d member has none, and sets one up on the next page that they open.",
        "The second factor is required. %(number)d members have none, and set one up on the next page that they open.",
        lacking_count,
    ) % {"number": lacking_count}


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
def create_invitation_and_send_link(request: MemberRequest) -> HttpResponseBase:
    """Create an invitation and send its link, or show the link once if it is not to be sent or cannot be."""
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _render_members_page(request, form=form, status=422)
    return _create_invitation_and_send_or_show_link(request, form)


@require_recent_login
def _create_invitation_and_send_or_show_link(request: MemberRequest, form: InvitationForm) -> HttpResponse:
    role, address = Role(form.cleaned_data["role"]), form.cleaned_data.get("email", "")
    note = form.cleaned_data["note"] or address[:200]
    invitation, secret = member_and_invitation_services.create_invitation_with_secret(
        request.membership, role, note, request=request
    )
    return _send_or_show_link(request, invitation, secret, address)


@require_post_or_redirect("harness_settings:members")
@require_member_with_role(Role.ADMIN)
@require_recent_login
def replace_invitation_and_send_link(request: MemberRequest, pk: int) -> HttpResponse:
    """Replace a pending invitation by one with a new link, which is sent or shown like the first one."""
    previous = _get_invitation_or_404(request, pk)
    try:
        invitation, secret = member_and_invitation_services.replace_invitation_with_secret(
            request.membership, previous, request=request
        )
    except member_and_invitation_services.InvitationClosed as error:
        return _render_members_page(request, problem=str(error), status=409)
    return _send_or_show_link(request, invitation, secret, previous.email if is_mail_configured() else "")


@require_POST
@require_member_with_role(Role.ADMIN)
def revoke_invitation(request: MemberRequest, pk: int) -> HttpResponse:
    invitation = _get_invitation_or_404(request, pk)
    member_and_invitation_services.revoke_invitation(request.membership, invitation, request=request)
    return _redirect_with_success_message(request, _("The invitation was revoked. Its link no longer works."))


def _send_or_show_link(request: MemberRequest, invitation: Invitation, secret: str, address: str) -> HttpResponse:
    """Send the link to `address`. Without an address, or if the mail server refuses, show it on the next page."""
    link = build_absolute_url(reverse("harness_accounts:invitation", args=[secret]), request)
    problem = ""
    if address:
        try:
            send_invitation_email(invitation, address, link)
        except MAIL_ERRORS as error:
            log_mail_error("An invitation", error)
            problem = describe_connection_error(error)
        else:
            member_and_invitation_services.store_invitation_address(invitation, address)
            return _redirect_with_success_message(
                request, _("The invitation was sent to %(address)s.") % {"address": address}
            )
    values = {"invitation": str(invitation.pk), "link": link, "address": address, "mail_problem": problem}
    store_secret_for_next_page(request, _LINK_KEY, values)
    return redirect("harness_settings:members")


def _change_member_and_redirect(request: MemberRequest, pk: int, change: Change, confirmation: str) -> HttpResponse:
    member = _get_member_or_404(request, pk)
    try:
        change(request.membership, member, request=request)
    except member_and_invitation_services.MemberError as error:
        return _render_members_page(request, problem=str(error), status=409)
    return _redirect_with_success_message(request, confirmation % {"name": member.user.get_username()})


def _redirect_with_success_message(request: MemberRequest, sentence: str) -> HttpResponse:
    messages.success(request, sentence)
    return redirect("harness_settings:members")


def _replace_out_of_range_key_by_zero(pk: int) -> int:
    """Return 0, which matches no row, for keys beyond the database's integer range."""
    return pk if pk < 2**63 else 0


def _get_invitation_or_404(request: MemberRequest, pk: int) -> Invitation:
    invitations = Invitation.objects.filter(workspace=request.membership.workspace)
    return get_object_or_404(invitations, pk=_replace_out_of_range_key_by_zero(pk))


def _get_member_or_404(request: MemberRequest, pk: int) -> Membership:
    members = Membership.objects.filter(workspace=request.membership.workspace).select_related("user", "workspace")
    return get_object_or_404(members, pk=_replace_out_of_range_key_by_zero(pk))


#: Parts of the list of members that the page offers, by the value of its parameter `show`.
_PARTS: Final[dict[str, tuple[str | Promise, Callable[[Membership], bool]]]] = {
    "admins": (gettext_lazy("Admins"), lambda member: member.role == Role.ADMIN),
    "approvers": (gettext_lazy("Approvers"), lambda member: member.role == Role.APPROVER),
    "auditors": (gettext_lazy("Auditors"), lambda member: member.role == Role.AUDITOR),
    "no-factor": (gettext_lazy("Without second factor"), signs_in_without_second_factor),
    "deactivated": (gettext_lazy("Deactivated"), lambda member: not member.user.is_active),
}


def _build_filtered_members_context(request: MemberRequest, members: list[Membership]) -> dict[str, Any]:
    """Build the context of the list of members with its filter, which a short list does not have."""
    show, words = request.GET.get("show", ""), request.GET.get("find", "").strip()[:_LONGEST_NAME]
    shown = [member for member in members if _PARTS[show][1](member)] if show in _PARTS else members
    if words:
        names = words.casefold()
        shown = [
            member
            for member in shown
            if names in member.user.get_username().casefold() or names in member.user.email.casefold()
        ]
    numbers = {part: sum(map(belongs, members)) for part, (_label, belongs) in _PARTS.items()}
    return {
        "members": shown,
        "number_of_members": len(members),
        "has_filter": len(members) >= _FILTERED_FROM or bool(show or words),
        "find": words,
        "show": show,
        "parts": [
            (part, _("%(part)s (%(number)s)") % {"part": label, "number": numbers[part]})
            for part, (label, _belongs) in _PARTS.items()
            if numbers[part] or part == show
        ],
    }


def _build_scope_options(members: list[Membership]) -> list[tuple[str, str]]:
    """Build the choices of whom a second factor is required, with the number of members who have none."""
    numbers = count_members_without_factor(members)
    return [
        (
            scope.value,
            _("%(scope)s (%(number)s without one)") % {"scope": scope.label, "number": numbers[scope]}
            if scope.lowest_role
            else str(scope.label),
        )
        for scope in FactorScope
    ]


def _render_members_page(
    request: MemberRequest, *, form: InvitationForm | None = None, status: int = 200, **extra_context: Any
) -> HttpResponse:
    workspace = request.membership.workspace
    pending_invitations = Invitation.objects.filter(workspace=workspace, accepted_at=None, revoked_at=None).order_by(
        "-pk"
    )
    members = list(query_members_with_factors(workspace.pk))
    requirement = SecondFactorRequirement.objects.filter(workspace=workspace).first()
    scope = FactorScope.NOBODY if requirement is None else requirement.scope
    covered = {member.pk for member in members if covers_member(scope, member)}
    admins = [member.pk for member in members if member.role == Role.ADMIN and member.user.is_active]
    context = {
        **_build_filtered_members_context(request, members),
        "last_seen": load_last_activity_by_user(workspace.pk, members),
        "single_sign_on_only": {member.pk for member in members if uses_single_sign_on_alone(member)},
        "requirement": requirement,
        "scopes": _build_scope_options(members),
        "chosen_scope": scope,
        "lacks_own_factor": lacks_second_factor(request.membership.user),
        "must_keep": covered,
        "must_set_up": covered & {member.pk for member in members if signs_in_without_second_factor(member)},
        "may_reset_own": request.membership.pk not in covered,
        "only_admin_pk": admins[0] if len(admins) == 1 else None,
        "invitations": [invitation for invitation in pending_invitations if invitation.is_open],
        "roles": build_choices(Role),
        "form": form or InvitationForm(),
        "can_mail": is_mail_configured(),
        "tab": "members",
        **extra_context,
    }
    return render(request, "settings/members.html", context, status=status)
