"""Websocket routing, for the ASGI application of this site or of a project that includes it."""

from typing import Any

from channels.routing import URLRouter
from channels.sessions import CookieMiddleware
from django.urls import get_script_prefix, path, reverse

from harness_site.live.consumers import LiveConsumer
from harness_site.live.websocket_access import SameOriginMiddleware


def build_websocket_application() -> Any:
    """Return the ASGI application for websockets; its URL lies below that of the site's pages.

    Call it after the apps are loaded.
    """
    site = reverse("harness:home").removeprefix(get_script_prefix())
    consumer: Any = LiveConsumer.as_asgi()
    routes: Any = [path(f"{site}ws/live/", consumer)]
    return SameOriginMiddleware(CookieMiddleware(URLRouter(routes)))
