"""Webhooks of the workspace, for admins."""

from collections.abc import Collection
from typing import Any, Final, Self

from django import forms
from django.contrib import messages
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from checkpoints.enums import Role
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.reauthentication import require_recent_login
from harness_site.accounts.secrets_shown_once import pop_secret_for_page, store_secret_for_next_page
from harness_site.core.post_only_views import require_post_or_redirect
from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.notifications import create_change_or_pause_webhooks, safe_http
from harness_site.notifications.call_filter_form_fields import OnlyHighRiskField, ToolPatternsField
from harness_site.notifications.delivery_log_and_retry import (
    load_first_delivery_log_page,
    query_webhooks_with_last_attempt,
)
from harness_site.notifications.known_tools_and_unmatched_patterns import (
    KnownTools,
    build_sentences_about_patterns,
    list_patterns_without_tool,
    load_known_tools,
)
from harness_site.notifications.models import CALL_EVENTS, Delivery, Event, Webhook, WebhookFormat
from harness_site.notifications.send_due_deliveries import send_webhook_test_message
from harness_site.notifications.tools_without_recipients import find_filter_gap

#: Key in the user session of a webhook whose secret the webhooks page shows once.
_SHOWN_ONCE_KEY: Final = "new_webhook"
_EVENTS = [(event.value, event.label) for event in CALL_EVENTS]


class WebhookForm(forms.Form):
    """Form of a new webhook, or of the present one in `webhook`, whose address is kept if none is entered."""

    name = forms.CharField(max_length=100, label=_("Name"))
    address = forms.CharField(max_length=2000, label=_("Address"))
    format = forms.ChoiceField(choices=WebhookFormat.choices, label=_("Format"))
    events = forms.MultipleChoiceField(
        choices=_EVENTS,
        label=_("Events"),
        widget=forms.CheckboxSelectMultiple,
        initial=[value for value, _ in _EVENTS],
    )
    tool_patterns = ToolPatternsField(label=_("Tools"))
    only_high_risk = OnlyHighRiskField(label=_("Risk"))

    def __init__(self, *args: Any, webhook: Webhook | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.webhook = webhook
        self.fields["address"].required = webhook is None
        set_field_labels_styles_and_errors(self)
        self.fields["address"].widget.attrs |= {"placeholder": "https://", "spellcheck": "false", "autocomplete": "off"}
        if webhook is not None:
            place = {"placeholder": f"https://{webhook.host}/…", "aria-describedby": "id_address_helptext"}
            self.fields["address"].widget.attrs |= place
        self.fields["events"].widget.attrs.pop("class")
        self.fields["tool_patterns"].widget.attrs["placeholder"] = "refund_*, send_mail"

    @classmethod
    def build_for_webhook(cls, webhook: Webhook) -> Self:
        """Build the form with what is stored, but without the address, which may grant access."""
        initial = model_to_dict(webhook, fields=["name", "format", "tool_patterns", "only_high_risk"])
        return cls(initial=initial | {"events": webhook.events.split(",")}, webhook=webhook)

    def build_webhook_values(self) -> dict[str, Any]:
        """Build the values of the webhook, by the names of the arguments of `create_change_or_pause_webhooks`."""
        names = ("name", "address", "events", "tool_patterns", "only_high_risk")
        values = {name: self.cleaned_data[name] for name in names}
        return {**values, "format": WebhookFormat(self.cleaned_data["format"])}

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        try:
            if address or self.webhook is None:
                safe_http.require_public_url(address)
        except safe_http.AddressRefused as error:
            raise forms.ValidationError(str(error)) from error
        return address


@require_GET
@require_member_with_role(Role.ADMIN)
def list_webhooks(request: MemberRequest) -> HttpResponse:
    """List the webhooks; show the secret of a webhook that was just created, once."""
    return _render_webhooks_page(request, new_webhook=pop_secret_for_page(request, _SHOWN_ONCE_KEY))


@require_post_or_redirect("harness_notifications:webhooks")
@require_member_with_role(Role.ADMIN)
def create_webhook(request: MemberRequest) -> HttpResponseBase:
    """Create a webhook. The next page shows its secret, once."""
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return _render_webhooks_page(request, form=form, status=422)
    return _create_webhook_from_form(request, form)


@require_recent_login
def _create_webhook_from_form(request: MemberRequest, form: WebhookForm) -> HttpResponse:
    data = form.cleaned_data
    _webhook, secret = create_change_or_pause_webhooks.create_webhook_with_secret(
        request.membership, **form.build_webhook_values(), request=request
    )
    _warn_about_patterns_without_tool(request, data["tool_patterns"])
    store_secret_for_next_page(request, _SHOWN_ONCE_KEY, {"name": data["name"], "secret": secret})
    return redirect("harness_notifications:webhooks")


@require_http_methods(["GET", "POST"])
@require_member_with_role(Role.ADMIN)
def edit_webhook(request: MemberRequest, pk: int) -> HttpResponseBase:
    """Edit a webhook; its secret and its log stay."""
    webhook = _get_webhook_or_404(request, pk)
    is_post = request.method == "POST"
    form = WebhookForm(request.POST, webhook=webhook) if is_post else WebhookForm.build_for_webhook(webhook)
    if is_post and form.is_valid():
        return _update_webhook_from_form(request, webhook, form)
    known_tools = load_known_tools(webhook.workspace_id)
    context = {
        "webhook": webhook,
        "form": form,
        "known_tools": known_tools.suggestions,
        "pattern_warnings": _build_pattern_warnings(webhook.tool_patterns, known_tools, webhook.workspace_id),
        "tab": "webhooks",
    }
    return render(request, "notifications/edit_webhook.html", context, status=422 if is_post else 200)


@require_recent_login
def _update_webhook_from_form(request: MemberRequest, webhook: Webhook, form: WebhookForm) -> HttpResponse:
    changed_fields = create_change_or_pause_webhooks.update_webhook(
        request.membership, webhook, **form.build_webhook_values(), request=request
    )
    messages.success(request, _describe_webhook_changes(changed_fields, is_paused=webhook.paused_at is not None))
    _warn_about_patterns_without_tool(request, form.cleaned_data["tool_patterns"])
    return redirect("harness_notifications:webhooks")


def _warn_about_patterns_without_tool(request: MemberRequest, tool_patterns: str) -> None:
    workspace = request.membership.workspace_id
    if tool_patterns and (warnings := _build_pattern_warnings(tool_patterns, load_known_tools(workspace), workspace)):
        messages.warning(request, " ".join(warnings))


def _build_pattern_warnings(tool_patterns: str, known: KnownTools, workspace: int) -> list[str]:
    return build_sentences_about_patterns(list_patterns_without_tool(tool_patterns, known, [workspace]), known)


def _describe_webhook_changes(changed_fields: Collection[str], *, is_paused: bool) -> str:
    if not changed_fields:
        return gettext("Nothing was changed.")
    if is_paused:
        return gettext("The webhook was changed. It is still paused.")
    if "address" in changed_fields:
        return gettext("The webhook was changed. Send a test message to check the new address.")
    return gettext("The webhook was changed.")


@require_POST
@require_member_with_role(Role.ADMIN)
def send_webhook_test(request: MemberRequest, pk: int) -> HttpResponse:
    """Send a test message at once, and say whether it was delivered."""
    webhook = _get_webhook_or_404(request, pk)
    if send_webhook_test_message(webhook, by=request.membership, request=request).sent:
        messages.success(request, gettext("The test message was delivered."))
    else:
        test = Delivery.objects.filter(webhook=webhook, notice__event=Event.TEST).latest("pk")
        reason = StoredSentence(test.problem, test.problem_values)
        messages.warning(request, gettext("The test message was not delivered. %(reason)s") % {"reason": reason})
    return redirect(f"{reverse('harness_notifications:webhooks')}#log")


@require_POST
@require_member_with_role(Role.ADMIN)
def pause_webhook(request: MemberRequest, pk: int) -> HttpResponse:
    create_change_or_pause_webhooks.pause_webhook(request.membership, _get_webhook_or_404(request, pk), request=request)
    messages.success(request, gettext("The webhook is paused. Its messages wait."))
    return redirect("harness_notifications:webhooks")


@require_POST
@require_member_with_role(Role.ADMIN)
def resume_webhook(request: MemberRequest, pk: int) -> HttpResponse:
    create_change_or_pause_webhooks.resume_webhook(
        request.membership, _get_webhook_or_404(request, pk), request=request
    )
    messages.success(request, gettext("The webhook is on again. Waiting messages are sent."))
    return redirect("harness_notifications:webhooks")


@require_POST
@require_member_with_role(Role.ADMIN)
@require_recent_login
def delete_webhook(request: MemberRequest, pk: int) -> HttpResponse:
    create_change_or_pause_webhooks.delete_webhook(
        request.membership, _get_webhook_or_404(request, pk), request=request
    )
    messages.success(request, gettext("The webhook and its log were deleted."))
    return redirect("harness_notifications:webhooks")


def _get_webhook_or_404(request: MemberRequest, pk: int) -> Webhook:
    webhooks = query_webhooks_with_last_attempt(request.membership.workspace_id)
    return get_object_or_404(webhooks, pk=pk if pk < 2**63 else 0)


def _render_webhooks_page(
    request: MemberRequest, *, form: WebhookForm | None = None, status: int = 200, **extra_context: Any
) -> HttpResponse:
    workspace = request.membership.workspace
    context = {
        "webhooks": query_webhooks_with_last_attempt(workspace.pk),
        "log": load_first_delivery_log_page(workspace.pk),
        "form": form or WebhookForm(),
        "known_tools": load_known_tools(workspace.pk).suggestions,
        "filter_gap": find_filter_gap(workspace.pk),
        "tab": "webhooks",
        **extra_context,
    }
    return render(request, "notifications/webhooks.html", context, status=status)
