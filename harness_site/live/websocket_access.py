"""Access to websockets: only from pages of this site, and only for members.

The origin is checked because browsers send cookies to every port of a host. The membership is checked repeatedly
because sessions and memberships can end.
"""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host

from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_request_membership
from harness_site.accounts.second_factor_holders_and_requirements import find_unmet_requirement


class SameOriginMiddleware:
    """Middleware that accepts handshakes from pages of the requested host and port, or of a trusted origin."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in {b"origin", b"host"}}
        is_allowed = is_same_origin(headers.get(b"origin", ""), headers.get(b"host", ""))
        return await (self._application if is_allowed else WebsocketDenier())(scope, receive, send)


def is_same_origin(origin: str, host: str) -> bool:
    """Return True if `origin` is that of the site as `host` names it, or a trusted one."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    page = urlsplit(origin)
    return page.scheme in {"http", "https"} and page.netloc.lower() == host.lower()


def find_viewer_membership(session_key: str | None) -> Membership | None:
    """Return the current membership of a session key's user.

    Returns None if there is none, or if they lack a second factor that their workspace requires.
    """
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request.user = get_user(request)
    membership = find_request_membership(request)
    return None if membership is None or find_unmet_requirement(membership) is not None else membership


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
