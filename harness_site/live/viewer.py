"""Whom a websocket belongs to. Asked again while it is open: a sign-in can end, a membership can be taken away."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from harness_site.accounts.guard import membership_for
from harness_site.accounts.models import Membership


def viewer(session_key: str | None) -> Membership | None:
    """The membership of whoever holds this session key now; None when nobody may look."""
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request.user = get_user(request)
    return membership_for(request)


async def is_member(scope: dict[str, Any]) -> bool:
    """Whether an HTTP request carries the session cookie of a signed-in member."""
    cookies: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies.load(value.decode("latin-1"))
            except CookieError:
                return False
    found = cookies.get(settings.SESSION_COOKIE_NAME)
    return found is not None and await database_sync_to_async(viewer)(found.value) is not None
