"""Showing once more who one is, before something that a stranger at an open screen must not do."""

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
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import resolve

from harness_site.accounts import encryption
from harness_site.accounts.guard import MemberRequest, P, R

_PURPOSE: Final = "forms"


def shown_lately(
    view: Callable[Concatenate[MemberRequest, P], R],
) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
    """Ask whoever signed in too long ago for the password, a code or a passkey; then what was sent goes on.

    Below `member` on a view. Reading is not asked about.
    """

    @wraps(view)
    def asked(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if request.method == "POST" and not _lately(request):
            return _suspended(request)
        return view(request, *args, **kwargs)

    return asked


def proved_within(
    seconds: int,
) -> Callable[[Callable[Concatenate[MemberRequest, P], R]], Callable[Concatenate[MemberRequest, P], HttpResponseBase]]:
    """As `shown_lately`, with a proof of the last `seconds`; a sign-in is none.

    Below `member` on a view. Who can prove nothing here, because another site signs them in, is not asked.
    """

    def decorate(
        view: Callable[Concatenate[MemberRequest, P], R],
    ) -> Callable[Concatenate[MemberRequest, P], HttpResponseBase]:
        @wraps(view)
        def asked(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method == "POST" and not _proved(request, seconds):
                return _suspended(request)
            return view(request, *args, **kwargs)

        return asked

    return decorate


def go_on(request: HttpRequest, state: Mapping[str, str]) -> HttpResponseBase:
    """What was sent, after its author has shown who they are; django-allauth calls this."""
    wanted = get_next_redirect_url(request, "next")
    if wanted and wanted != state["path"]:  # asked about something else, in another tab
        return redirect(wanted)
    suspended = deserialize_request(encryption.decrypt(state["sealed"], purpose=_PURPOSE), request)
    found = resolve(suspended.path_info)
    response: HttpResponseBase = found.func(suspended, *found.args, **found.kwargs)
    return response


def _suspended(request: MemberRequest) -> HttpResponseBase:
    """What was sent waits in the sign-in, sealed: a form may hold what is stored nowhere else in plain words."""
    sealed = encryption.encrypt(serialize_request(request), purpose=_PURPOSE)
    stash_and_reauthenticate(request, {"sealed": sealed, "path": request.path}, f"{__name__}.{go_on.__name__}")
    way, *_ = get_adapter().get_reauthentication_methods(request.user)
    return redirect(f"{way['url']}?{urlencode({'next': request.path})}")


def _proved(request: HttpRequest, seconds: int) -> bool:
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(record.get("reauthenticated") and time.time() - record["at"] < seconds for record in records)


def _lately(request: HttpRequest) -> bool:
    """A sign-in counts as well. Who has only single sign-on has nothing to show here: their provider asks them."""
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(time.time() - record["at"] < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT for record in records)
