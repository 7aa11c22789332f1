"""Who may open a websocket: pages of this site alone. A browser sends the cookie from every port of the machine."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


class SameOrigin:
    """Lets a handshake through whose page came from the host and port it asks, or from one of the trusted origins."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in {b"origin", b"host"}}
        ours = is_ours(headers.get(b"origin", ""), headers.get(b"host", ""))
        return await (self._application if ours else WebsocketDenier())(scope, receive, send)


def is_ours(origin: str, host: str) -> bool:
    """Whether `origin` is that of the site as `host` names it."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    page = urlsplit(origin)
    return page.scheme in {"http", "https"} and page.netloc.lower() == host.lower()
