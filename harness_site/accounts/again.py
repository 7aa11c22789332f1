"""Showing once more who one is, before something that a stranger at an open screen must not do."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.core.exceptions import ReauthenticationRequired
from django.conf import settings
from django.http import HttpRequest

from harness_site.accounts.guard import MemberRequest, P, R


def shown_lately(view: Callable[Concatenate[MemberRequest, P], R]) -> Callable[Concatenate[MemberRequest, P], R]:
    """Ask whoever signed in too long ago for the password, a code or a passkey; then what was sent goes on.

    Below `member` on a view. Reading is not asked about.
    """

    @wraps(view)
    def asked(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if request.method == "POST" and not _lately(request):
            raise ReauthenticationRequired  # django-allauth keeps the request, asks, and goes on with it
        return view(request, *args, **kwargs)

    return asked


def _lately(request: HttpRequest) -> bool:
    """A sign-in counts as well. Who has only single sign-on has nothing to show here: their provider asks them."""
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(time.time() - record["at"] < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT for record in records)
