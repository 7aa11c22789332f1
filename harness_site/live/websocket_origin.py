"""Origin check of websockets: only pages of this site, because browsers send cookies to every port of a host."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


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
