"""ASGI application: websockets go to Channels, HTTP requests to Django's WSGI handler in threads.

`manage.py serve` runs it. The WSGI handler in a few threads answers several times as many requests as Django's ASGI
handler.
"""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
_wsgi: Any = get_wsgi_application()

# The following imports need loaded apps.
from a2wsgi import WSGIMiddleware  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from harness_site.live.change_feed import handle_lifespan  # noqa: E402
from harness_site.live.routing import websocket_application  # noqa: E402
from harness_site.live.websocket_user import is_member_request  # noqa: E402
from harness_site.serving.client_address import ClientAddressMiddleware  # noqa: E402
from harness_site.serving.request_bodies import RequestBodyMiddleware  # noqa: E402
from harness_site.serving.slow_responses import ResponseDeadlines, stop_when_abandoned  # noqa: E402

THREADS = 8

_threads: Any = WSGIMiddleware(stop_when_abandoned(_wsgi), workers=THREADS)
_pages = ResponseDeadlines(
    RequestBodyMiddleware(_threads, settings.SERVER_LIMITS, is_member_request),
    limits=settings.SERVER_LIMITS,
    threads=THREADS,
)
_all: Any = ProtocolTypeRouter(
    {
        "http": _pages,
        "websocket": websocket_application(),
        "lifespan": handle_lifespan,
    }
)

#: For a server that takes no address from a header, as `manage.py serve`: what a client writes there changes nothing.
direct_application = _all
application = _all if settings.BEHIND_PROXY else ClientAddressMiddleware(_all)
