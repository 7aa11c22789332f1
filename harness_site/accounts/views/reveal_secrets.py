"""Views to display secrets for a limited time, and to mask them again."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from checkpoints.enums import AuditKind, Role
from harness_site.accounts import load_masking_rules, record_user_audit_events, unmasking
from harness_site.accounts.permissions import MemberRequest, RoleTooSmall, require_member_with_role
from harness_site.accounts.reauthentication import require_reauthentication_within
from harness_site.accounts.safe_redirect_targets import get_safe_redirect_path

#: A reauthentication counts for one request and the time it takes to return to it.
_PROOF_SECONDS: Final = 60


@require_POST
@require_member_with_role(Role.AUDITOR)
def start_showing_secrets(request: MemberRequest) -> HttpResponseBase:
    """Display secrets for ten minutes to a permitted member who has just reauthenticated; record it."""
    required_role = Role(load_masking_rules.load_masking_settings_or_defaults(request.membership.workspace).reveal_role)
    if not request.membership.has_role(required_role):
        raise RoleTooSmall(request.membership, required_role)
    return _reauthenticate_and_show_secrets(request)


@require_reauthentication_within(_PROOF_SECONDS)
def _reauthenticate_and_show_secrets(request: MemberRequest) -> HttpResponse:
    unmasking.start_unmasking(request, request.membership)
    minutes = int(unmasking.SHOWN_FOR.total_seconds() // 60)
    previous_page = _get_posted_return_path(request)
    record_user_audit_events.record_member_event(
        request.membership, AuditKind.UNMASKED, request=request, minutes=minutes, page=previous_page.partition("?")[0]
    )
    return redirect(previous_page)


@require_POST
@require_member_with_role(Role.AUDITOR)
def stop_showing_secrets(request: MemberRequest) -> HttpResponse:
    unmasking.stop_unmasking(request)
    return redirect(_get_posted_return_path(request))


def _get_posted_return_path(request: HttpRequest) -> str:
    """Return the page to go back to."""
    return get_safe_redirect_path(request.POST.get("next", ""))
