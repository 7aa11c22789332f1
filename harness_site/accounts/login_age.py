"""Age of the current login."""

from __future__ import annotations

import time

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from django.conf import settings
from django.http import HttpRequest


def has_recent_login(request: HttpRequest) -> bool:
    """Return True after a recent login or reauthentication, and for users with single sign-on only."""
    if not get_reauthentication_flows(request.user):
        return True
    records = get_authentication_records(request, request.user)
    return any(time.time() - record["at"] < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT for record in records)
