"""`uvicorn harness_site.asgi:application`: websockets go to Channels, everything else to Django's WSGI handler.

Django's WSGI handler in a few threads answers several times as many requests as its ASGI handler would.
"""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
_wsgi: Any = get_wsgi_application()

# What follows needs the apps to be loaded.
from a2wsgi import WSGIMiddleware  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.sessions import CookieMiddleware  # noqa: E402
from django.urls import path  # noqa: E402

from harness_site.garbage import look_seldom  # noqa: E402
from harness_site.live.consumer import LiveConsumer  # noqa: E402
from harness_site.live.feed import lifespan  # noqa: E402
from harness_site.live.origin import SameOrigin  # noqa: E402

_live: Any = LiveConsumer.as_asgi()
_routes: Any = [path("ws/live/", _live)]

application = ProtocolTypeRouter(
    {
        "http": WSGIMiddleware(_wsgi, workers=8),
        "websocket": SameOrigin(CookieMiddleware(URLRouter(_routes))),
        "lifespan": lifespan,
    }
)
look_seldom()
