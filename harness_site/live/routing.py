"""The websocket of the pages, for the ASGI application of this site or of the project that includes it."""

from typing import Any

from channels.routing import URLRouter
from channels.sessions import CookieMiddleware
from django.urls import get_script_prefix, path, reverse

from harness_site.live.consumer import LiveConsumer
from harness_site.live.origin import SameOrigin


def websocket_application() -> Any:
    """Return the ASGI application for websockets; its address lies below that of the site's pages.

    Call it when the apps are loaded.
    """
    site = reverse("home").removeprefix(get_script_prefix())
    consumer: Any = LiveConsumer.as_asgi()
    routes: Any = [path(f"{site}ws/live/", consumer)]
    return SameOrigin(CookieMiddleware(URLRouter(routes)))
