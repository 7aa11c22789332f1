"""First steps, connecting agents, the system page and its test message, for admins."""

from typing import Final

from django import forms
from django.db import connection
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from checkpoints.enums import AuditKind, Role
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.views.member_settings import InvitationForm
from harness_site.compose_email_with_link import compose_link_email
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.post_only_views import require_post_or_redirect
from harness_site.env import IS_CHECKOUT
from harness_site.installation.agent_connection_examples import CONNECTION_GROUPS, get_connection_or_first
from harness_site.installation.failed_test_mail_in_user_session import (
    forget_failed_mail_test,
    remember_failed_mail_test,
)
from harness_site.installation.first_steps import (
    find_newest_session_key,
    find_oldest_session,
    find_session_of_program_or_any_newer,
    list_first_steps,
)
from harness_site.installation.installation_checks import Level, run_installation_checks
from harness_site.mail_and_connection_error_sentences import describe_connection_error, log_mail_error
from harness_site.notifications.recipients import get_notification_address
from harness_site.send_email import MAIL_ERRORS, is_mail_configured, send_email_through_server
from harness_site.site_address import build_absolute_url

#: Key of the login session with the address of a test message that the mail server has just accepted.
_ACCEPTED_FOR: Final = "test_message_accepted_for"
#: Levels of the parts that the system page lists in full, the most urgent first.
_OPEN_LEVELS: Final = (Level.PROBLEM, Level.ATTENTION, Level.OFF)


class TestMailForm(forms.Form):
    """Form with the address of a test message."""

    address = forms.EmailField(max_length=254, label=gettext_lazy("Send a test message to"))

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        set_field_labels_styles_and_errors(self)
        self.fields["address"].widget.attrs["autocomplete"] = "email"


@require_GET
@require_member_with_role(Role.ADMIN)
def show_first_steps(request: MemberRequest) -> HttpResponse:
    steps = list_first_steps(request)
    context = {
        "steps": steps,
        "next_step": next((step for step in steps if not step.done), None),
        "done_count": sum(step.done for step in steps),
        "form": InvitationForm(),
        "can_mail": is_mail_configured(),
        "tab": "first-steps",
        "has_session": find_oldest_session(request.membership.workspace) is not None,
        **_build_connect_context(request),
    }
    return render(request, "installation/first_steps.html", context)


@require_GET
@require_member_with_role(Role.ADMIN)
def show_connect_page(request: MemberRequest) -> HttpResponse:
    return render(request, "installation/connect.html", {"tab": "connect", **_build_connect_context(request)})


@require_GET
@require_member_with_role(Role.ADMIN)
def show_system_page(request: MemberRequest) -> HttpResponse:
    return _render_system_page(request)


@require_post_or_redirect("harness_installation:system")
@require_member_with_role(Role.ADMIN)
def send_test_mail(request: MemberRequest) -> HttpResponse:
    """Send a test message through the configured server, and say what the server answered."""
    form = TestMailForm(request.POST)
    if not form.is_valid():
        return _render_system_page(request, form=form, status=422)
    address = form.cleaned_data["address"]
    link = build_absolute_url(reverse("harness:home"), request)
    email = compose_link_email(
        to=address,
        subject=_("Test message"),
        introduction=_("This is a test message. Mail from Harness works."),
        label=_("Open Harness"),
        link=link,
        explanation=_("You do not have to do anything."),
    )
    try:
        send_email_through_server(email, link)
    except MAIL_ERRORS as error:
        log_mail_error("The test message", error)
        reason = describe_connection_error(error)
        remember_failed_mail_test(request, reason)
        return _render_system_page(request, form=form, mail_problem=reason, status=409)
    forget_failed_mail_test(request)
    record_user_audit_events.record_member_event(request.membership, AuditKind.MAIL_TESTED, request=request)
    request.session[_ACCEPTED_FOR] = address
    return redirect(f"{reverse('harness_installation:system')}#test-message")


def _build_connect_context(request: MemberRequest) -> dict[str, object]:
    workspace = request.membership.workspace
    way = get_connection_or_first(request.GET.get("how", ""))
    newer_than = parse_number_parameter_or_none(request, "after")
    blocks = way.build_blocks()
    uses_pip = any("pip install" in block.text for block in blocks)
    return {
        "connection_groups": CONNECTION_GROUPS,
        "way": way,
        "blocks": blocks,
        "uses_pip": uses_pip,
        "names_package_of_index": uses_pip and not IS_CHECKOUT,
        "is_sqlite": connection.vendor == "sqlite",
        "arrived": find_session_of_program_or_any_newer(workspace, way.session_id, way.agent, newer_than),
        "newest_key": find_newest_session_key(workspace) if newer_than is None else newer_than,
    }


def _render_system_page(
    request: MemberRequest, *, form: TestMailForm | None = None, mail_problem: str = "", status: int = 200
) -> HttpResponse:
    statuses = run_installation_checks(request, request.membership.workspace)
    context = {
        "open_statuses": [one for level in _OPEN_LEVELS for one in statuses if one.level is level],
        "has_hint": any(one.hint for one in statuses),
        "ok_statuses": [one for one in statuses if one.level is Level.OK],
        "problem_count": sum(one.level in (Level.PROBLEM, Level.ATTENTION) for one in statuses),
        "unset_count": sum(one.level is Level.OFF for one in statuses),
        "form": form or TestMailForm(initial={"address": get_notification_address(request.membership.user)}),
        "can_mail": is_mail_configured(),
        "mail_problem": mail_problem,
        "accepted_for": request.session.pop(_ACCEPTED_FOR, ""),
        "tab": "system",
    }
    return render(request, "installation/system.html", context, status=status)
