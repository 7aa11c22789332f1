"""The ASGI application: websockets go to Channels, everything else to Django's WSGI handler. `manage.py serve` runs it.

Django's WSGI handler in a few threads answers several times as many requests as its ASGI handler would.
"""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
_wsgi: Any = get_wsgi_application()

# What follows needs the apps to be loaded.
from a2wsgi import WSGIMiddleware  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from harness_site.live.feed import lifespan  # noqa: E402
from harness_site.live.routing import websocket_application  # noqa: E402
from harness_site.live.viewer import is_member  # noqa: E402
from harness_site.serving.client_address import ClientAddress  # noqa: E402
from harness_site.serving.request_bodies import RequestBodies  # noqa: E402
from harness_site.serving.responses import ResponseDeadlines, until_abandoned  # noqa: E402

THREADS = 8

_threads: Any = WSGIMiddleware(until_abandoned(_wsgi), workers=THREADS)
_pages = ResponseDeadlines(
    RequestBodies(_threads, settings.SERVER_LIMITS, is_member), limits=settings.SERVER_LIMITS, threads=THREADS
)
_all: Any = ProtocolTypeRouter(
    {
        "http": _pages,
        "websocket": websocket_application(),
        "lifespan": lifespan,
    }
)

application = _all if settings.BEHIND_PROXY else ClientAddress(_all)
