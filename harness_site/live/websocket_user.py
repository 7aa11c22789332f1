"""Membership behind a websocket, checked repeatedly because sessions and memberships can end."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import get_request_membership


def find_viewer_membership(session_key: str | None) -> Membership | None:
    """Return the current membership of a session key's user; None if there is none."""
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request.user = get_user(request)
    return get_request_membership(request)


async def is_member_request(scope: dict[str, Any]) -> bool:
    """Return True if an HTTP request carries the session cookie of a signed-in member."""
    cookies: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies.load(value.decode("latin-1"))
            except CookieError:
                return False
    cookie = cookies.get(settings.SESSION_COOKIE_NAME)
    return cookie is not None and await database_sync_to_async(find_viewer_membership)(cookie.value) is not None
