"""Reauthentication before sensitive actions; the submitted form is kept and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, Final
from urllib.parse import urlencode

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import (
    STATE_SESSION_KEY,
    get_reauthentication_flows,
    stash_and_reauthenticate,
)
from allauth.account.utils import get_next_redirect_url
from allauth.core.internal.httpkit import deserialize_request, serialize_request
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import Resolver404, get_script_prefix, resolve, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.accounts import encrypt_stored_secrets
from harness_site.accounts.permissions import MemberRequest, P, R
from harness_site.accounts.recent_login import has_logged_in_recently_or_cannot_reauthenticate
from harness_site.accounts.safe_redirect_targets import get_safe_redirect_path

_PURPOSE: Final = "forms"
#: View that shows secrets, which requires a reauthentication each time.
_SHOW_SECRETS: Final = "harness_accounts:reveal-secrets"
#: What a person is about to do, by the name of the view that does it.
_INTENTIONS: Final = {
    _SHOW_SECRETS: gettext_lazy("You are about to show secrets for ten minutes. This is recorded in the audit trail."),
    "harness_settings:member-role": gettext_lazy("You are about to change the role of a member."),
    "harness_settings:member-remove": gettext_lazy("You are about to remove a member from this workspace."),
    "harness_settings:member-reset-factors": gettext_lazy("You are about to reset the second factors of a member."),
    "harness_settings:member-deactivate": gettext_lazy("You are about to deactivate an account."),
    "harness_settings:member-reactivate": gettext_lazy("You are about to reactivate an account."),
    "harness_settings:factor-requirement": gettext_lazy("You are about to change who needs a second factor."),
    "harness_settings:invite": gettext_lazy("You are about to create an invitation to this workspace."),
    "harness_settings:invitation-replace": gettext_lazy("You are about to replace an invitation to this workspace."),
    "harness_settings:masking": gettext_lazy("You are about to change how secrets are masked."),
    "harness_settings:token-create": gettext_lazy("You are about to create an API token."),
    "harness_notifications:webhook-create": gettext_lazy("You are about to create a webhook."),
    "harness_notifications:webhook-edit": gettext_lazy("You are about to change a webhook."),
    "harness_notifications:webhook-delete": gettext_lazy("You are about to delete a webhook."),
    "mfa_activate_totp": gettext_lazy("You are about to set up an authenticator app."),
    "mfa_deactivate_totp": gettext_lazy("You are about to remove your authenticator app."),
    "mfa_view_recovery_codes": gettext_lazy("You are about to see your recovery codes."),
    "mfa_generate_recovery_codes": gettext_lazy("You are about to create new recovery codes."),
    "mfa_add_webauthn": gettext_lazy("You are about to add a passkey."),
    "mfa_edit_webauthn": gettext_lazy("You are about to rename a passkey."),
    "mfa_remove_webauthn": gettext_lazy("You are about to remove a passkey."),
}


@dataclass(frozen=True, slots=True)
class ReauthenticationReason:
    """Why a person is asked to reauthenticate, for how long it counts, and where somebody goes who does not want to."""

    intention: str
    validity: str
    cancel_url: str


def require_recent_login(
    view: Callable[Concatenate[MemberRequest, P], R],
) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
    """Require a recent login for POST requests: by password, code or passkey; then resume the request.

    Use it below `require_member_with_role`. Other methods are not checked. A view with a form is not decorated itself,
    but the function it calls with the valid form, so that an invalid form is refused before anybody enters a password.
    The resumed request calls the view, which validates the form again.
    """

    @wraps(view)
    def check_login_and_call_view(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if request.method == "POST" and not has_logged_in_recently_or_cannot_reauthenticate(request):
            return _store_request_and_redirect_to_reauthentication(request)
        return view(request, *args, **kwargs)

    return check_login_and_call_view


def require_reauthentication_within(
    seconds: int,
) -> Callable[[Callable[Concatenate[MemberRequest, P], R]], Callable[Concatenate[MemberRequest, P], HttpResponseBase]]:
    """Require a reauthentication in the last `seconds` for POST requests; a login does not count.

    Use it below `require_member_with_role`. Users who sign in only through another site are not asked.
    """

    def wrap_view(
        view: Callable[Concatenate[MemberRequest, P], R],
    ) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
        @wraps(view)
        def check_reauthentication_and_call_view(
            request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponseBase:
            if request.method == "POST" and not _has_reauthenticated_recently_or_cannot(request, seconds):
                return _store_request_and_redirect_to_reauthentication(request)
            return view(request, *args, **kwargs)

        return check_reauthentication_and_call_view

    return wrap_view


def resume_suspended_request(request: HttpRequest, state: Mapping[str, str]) -> HttpResponseBase:
    """Resume the suspended request after reauthentication; called by django-allauth."""
    next_url = get_next_redirect_url(request, "next")
    if next_url and next_url != state["path"]:  # a reauthentication for another page, in another tab
        return redirect(next_url)
    suspended = deserialize_request(encrypt_stored_secrets.decrypt_field(state["sealed"], purpose=_PURPOSE), request)
    match = resolve(suspended.path_info)
    response: HttpResponseBase = match.func(suspended, *match.args, **match.kwargs)
    return response


def build_reauthentication_reason(request: HttpRequest) -> ReauthenticationReason:
    """Describe why the page of the reauthentication was opened."""
    target = get_next_redirect_url(request, "next") or ""
    view_name = _find_view_name_or_empty(target)
    intention = str(_INTENTIONS.get(view_name, "")) or _(
        "The next step changes how an account or this workspace is protected, or shows secrets."
    )
    if view_name == _SHOW_SECRETS:
        validity = _("You are asked each time.")
    else:
        validity = _("You can then work for 15 minutes before you are asked again.")
    stored = request.session.get(STATE_SESSION_KEY, {}).get("state", {})
    cancel_url = stored.get("cancel_url") if target and stored.get("path") == target else None
    return ReauthenticationReason(intention, validity, cancel_url or reverse("harness_accounts:account"))


def _find_view_name_or_empty(path: str) -> str:
    """Return the name of the view of a path of this site; empty if there is none."""
    try:
        return resolve("/" + path.partition("?")[0].removeprefix(get_script_prefix())).view_name
    except Resolver404:
        return ""


def _store_request_and_redirect_to_reauthentication(request: MemberRequest) -> HttpResponseBase:
    """Store the encrypted request in the user session and redirect to reauthentication.

    The request is encrypted because a form may contain secrets that are stored nowhere else.
    """
    encrypted_request = encrypt_stored_secrets.encrypt_field(serialize_request(request), purpose=_PURPOSE)
    # A view that only accepts forms redirects to the page with its form.
    cancel_url = get_safe_redirect_path(request.POST["next"]) if request.POST.get("next") else request.path
    stash_and_reauthenticate(
        request,
        {"sealed": encrypted_request, "path": request.path, "cancel_url": cancel_url},
        f"{__name__}.{resume_suspended_request.__name__}",
    )
    method, *_ = get_adapter().get_reauthentication_methods(request.user)
    return redirect(f"{method['url']}?{urlencode({'next': request.path})}")


def _has_reauthenticated_recently_or_cannot(request: HttpRequest, seconds: int) -> bool:
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(record.get("reauthenticated") and time.time() - record["at"] < seconds for record in records)
