"""Predicates about a login that is recent enough to need no further one."""

from __future__ import annotations

import time

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from django.conf import settings
from django.http import HttpRequest


def has_recent_link_login(request: HttpRequest) -> bool:
    """Return True after a recent login by a link, whose user may have forgotten the password."""
    records = get_authentication_records(request, request.user)
    return any(record["method"] == "link" and _does_login_still_count(record["at"]) for record in records)


def has_logged_in_recently_or_cannot_reauthenticate(request: HttpRequest) -> bool:
    """Return True after a recent login or reauthentication, and for users with single sign-on only."""
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(_does_login_still_count(record["at"]) for record in records)


def _does_login_still_count(moment: float) -> bool:
    """Return whether a time in seconds since 1970 is within the time for which a login counts."""
    return time.time() - moment < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT
