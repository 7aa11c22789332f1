"""Websocket routing, for the ASGI application of this site or of a project that includes it."""

from typing import Any

from channels.routing import URLRouter
from channels.sessions import CookieMiddleware
from django.urls import get_script_prefix, path

from harness_site.core.cached_urls import list_language_paths_of_page
from harness_site.live.consumers import LiveConsumer
from harness_site.live.websocket_access import SameOriginMiddleware


def build_websocket_application() -> Any:
    """Return the ASGI application for websockets; its URL lies below that of the site's pages, in every language.

    Call it after the apps are loaded.
    """
    sites = [home.removeprefix(get_script_prefix()) for home in list_language_paths_of_page("harness:home")]
    consumer: Any = LiveConsumer.as_asgi()
    routes: Any = [path(f"{site}ws/live/", consumer) for site in sites]
    return SameOriginMiddleware(CookieMiddleware(URLRouter(routes)))
