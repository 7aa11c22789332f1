"""E-mail preferences of the user."""

from collections.abc import Collection
from typing import Any, Final, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.forms.models import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from checkpoints.enums import Role
from harness_site.accounts import unmasking
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.membership_queries import list_memberships_cached_on_user
from harness_site.accounts.second_factor_holders_and_requirements import list_memberships_open_to_user
from harness_site.core.masking import masker
from harness_site.notifications.call_filter_form_fields import OnlyHighRiskField, ToolPatternsField
from harness_site.notifications.known_tools_and_unmatched_patterns import (
    NO_TOOLS,
    build_sentences_about_patterns,
    list_patterns_without_tool,
    load_known_tools,
)
from harness_site.notifications.models import CALL_EVENTS, FILTERED_EVENTS, Event
from harness_site.notifications.recipients import (
    get_notification_address,
    get_preferences_or_unsaved_defaults,
    has_role_for_event,
)
from harness_site.notifications.update_notification_preferences import update_notification_preferences
from harness_site.notifications.views.confirm_notification_address import _send_confirmation_link_and_redirect
from harness_site.send_email import is_mail_configured

_HELP: Final = {
    "address": _(
        "Leave it empty to use the address of your account. "
        "A new address is used after you open the link that is sent there."
    ),
    "interrupted": _("A call was interrupted, and its outcome is unknown."),
    "awaiting_approval": _("An agent asks for approval before it runs a call, or asks a question."),
    "reminder": _("A deadline is near, and the call is not decided."),
    "escalation": _("A deadline has passed. Only admins get this message, because only they can decide then."),
    "handed_over": _("A colleague hands a call over to you."),
    "mentioned": _("A colleague names you in a comment on a call, with @ before your name."),
    "tool_patterns": _(
        "Names of tools, separated by commas. * stands for any characters, as in refund_*. "
        "Leave it empty for all tools."
    ),
}


class PreferencesForm(forms.Form):
    email = forms.BooleanField(required=False)
    address = forms.EmailField(required=False, max_length=254)
    interrupted = forms.BooleanField(required=False)
    awaiting_approval = forms.BooleanField(required=False)
    reminder = forms.BooleanField(required=False)
    escalation = forms.BooleanField(required=False)
    handed_over = forms.BooleanField(required=False)
    mentioned = forms.BooleanField(required=False)
    tool_patterns = ToolPatternsField()
    only_high_risk = OnlyHighRiskField()

    def __init__(self, *args: Any, events: Collection[Event], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(
            self,
            email=_("Send me e-mail"),
            address=_("Address"),
            tool_patterns=_("Tools"),
            only_high_risk=_("Risk"),
            **{event.value: event.label for event in CALL_EVENTS},
        )
        for event in CALL_EVENTS:
            if event not in events:
                del self.fields[event.value]
        if FILTERED_EVENTS.isdisjoint(events):
            del self.fields["tool_patterns"], self.fields["only_high_risk"]
        self.fields["address"].widget.attrs["autocomplete"] = "email"
        for name, field in self.fields.items():
            field.help_text = _HELP.get(name, "")


@require_http_methods(["GET", "POST"])
def edit_notification_preferences(request: HttpRequest) -> HttpResponse:
    """Edit the preferences of any signed-in user; they belong to a user, not to a workspace."""
    user = cast(User, request.user)
    preferences = get_preferences_or_unsaved_defaults(user)
    initial = model_to_dict(preferences, fields=list(PreferencesForm.base_fields))
    initial["address"] = preferences.asked_address or preferences.address
    events = _list_events_of_user(user)
    form = PreferencesForm(request.POST if request.method == "POST" else None, initial=initial, events=events)
    if request.method == "POST" and form.is_valid():
        new_preferences = update_notification_preferences(user, form.cleaned_data, request=request)
        if not new_preferences.asked_address:
            messages.success(request, gettext("Your notification settings were saved."))
        _known, warnings = _load_known_tools_and_warnings(request, user, new_preferences.tool_patterns)
        if warnings:
            messages.warning(request, " ".join(warnings))
        if not new_preferences.asked_address:
            return redirect("harness_accounts:account")
        return _send_confirmation_link_and_redirect(request, user, new_preferences.asked_address)
    known_tools, pattern_warnings = _load_known_tools_and_warnings(request, user, preferences.tool_patterns)
    context = {
        "form": form,
        "known_tools": known_tools,
        "pattern_warnings": pattern_warnings,
        "events": events,
        "possible": is_mail_configured(),
        "goes_to": get_notification_address(user),
        "asked": preferences.asked_address,
        "link": request.GET.get("link", ""),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "notifications/preferences.html", context, status=status)


def _load_known_tools_and_warnings(
    request: HttpRequest, user: User, tool_patterns: str
) -> tuple[tuple[str, ...], list[str]]:
    """Load the tools of the workspaces in which the user may decide now, and what to say about patterns without one."""
    known, unmatched = NO_TOOLS, tool_patterns
    for member in list_memberships_open_to_user(user):
        if member.has_role(Role.APPROVER):
            with masker.use_masking_rules(unmasking.get_masking_rules_unless_unmasked(request, member)):
                known_here = load_known_tools(member.workspace_id)
                unmatched = ", ".join(list_patterns_without_tool(unmatched, known_here, [member.workspace_id]))
            known |= known_here
    patterns = unmatched.split(", ") if unmatched else []
    return known.suggestions, build_sentences_about_patterns(patterns, known)


def _list_events_of_user(user: User) -> list[Event]:
    """List the events of which the user may get messages in one of their workspaces."""
    memberships = list_memberships_cached_on_user(user)
    return [event for event in CALL_EVENTS if any(has_role_for_event(member, event) for member in memberships)]
