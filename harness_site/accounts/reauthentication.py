"""Reauthentication before sensitive actions; the submitted form is kept and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, Final
from urllib.parse import urlencode

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows, stash_and_reauthenticate
from allauth.account.utils import get_next_redirect_url
from allauth.core.internal.httpkit import deserialize_request, serialize_request
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import resolve

from harness_site.accounts import field_encryption
from harness_site.accounts.login_age import has_logged_in_recently_or_cannot_reauthenticate
from harness_site.accounts.permissions import MemberRequest, P, R

_PURPOSE: Final = "forms"


def require_recent_login(
    view: Callable[Concatenate[MemberRequest, P], R],
) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
    """Require a recent login for POST requests: by password, code or passkey; then resume the request.

    Use it below `require_member`. Other methods are not checked.
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

    Use it below `require_member`. Users who sign in only through another site are not asked.
    """

    def wrap_view(
        view: Callable[Concatenate[MemberRequest, P], R],
    ) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
        @wraps(view)
        def check_login_and_call_view(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method == "POST" and not _has_reauthenticated_recently_or_cannot(request, seconds):
                return _store_request_and_redirect_to_reauthentication(request)
            return view(request, *args, **kwargs)

        return check_login_and_call_view

    return wrap_view


def resume_suspended_request(request: HttpRequest, state: Mapping[str, str]) -> HttpResponseBase:
    """Resume the suspended request after reauthentication; called by django-allauth."""
    next_url = get_next_redirect_url(request, "next")
    if next_url and next_url != state["path"]:  # a reauthentication for another page, in another tab
        return redirect(next_url)
    suspended = deserialize_request(field_encryption.decrypt_field(state["sealed"], purpose=_PURPOSE), request)
    match = resolve(suspended.path_info)
    response: HttpResponseBase = match.func(suspended, *match.args, **match.kwargs)
    return response


def _store_request_and_redirect_to_reauthentication(request: MemberRequest) -> HttpResponseBase:
    """Store the encrypted request in the user session and redirect to reauthentication.

    The request is encrypted because a form may contain secrets that are stored nowhere else.
    """
    encrypted_request = field_encryption.encrypt_field(serialize_request(request), purpose=_PURPOSE)
    stash_and_reauthenticate(
        request, {"sealed": encrypted_request, "path": request.path}, f"{__name__}.{resume_suspended_request.__name__}"
    )
    method, *_ = get_adapter().get_reauthentication_methods(request.user)
    return redirect(f"{method['url']}?{urlencode({'next': request.path})}")


def _has_reauthenticated_recently_or_cannot(request: HttpRequest, seconds: int) -> bool:
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(record.get("reauthenticated") and time.time() - record["at"] < seconds for record in records)
