"""ASGI application: websockets go to Channels, HTTP requests to Django's WSGI handler in threads.

`manage.py serve` runs it. The WSGI handler in a few threads answers several times as many requests as Django's ASGI
handler. Long polls and event streams wait on the event loop, and hold a thread only while they read the
database.
"""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
_wsgi: Any = get_wsgi_application()

# The following imports need loaded apps.
from channels.db import database_sync_to_async  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from checkpoints.server_or_database_url import API_PATH  # noqa: E402
from harness_site.api.heartbeat_request_batching import Heartbeats  # noqa: E402
from harness_site.api.large_body_token_check import has_valid_token  # noqa: E402
from harness_site.api.long_poll_and_sse_middleware import LongPolls  # noqa: E402
from harness_site.api.refused_body_response import build_refused_body_response  # noqa: E402
from harness_site.api.workspace_event_stream import EventStreams  # noqa: E402
from harness_site.installation.database_readiness import probe  # noqa: E402
from harness_site.live.routing import build_websocket_application  # noqa: E402
from harness_site.live.server_lifespan import handle_lifespan  # noqa: E402
from harness_site.live.websocket_access import is_member_request  # noqa: E402
from harness_site.mcp_server.streamable_http_endpoint import McpEndpoint  # noqa: E402
from harness_site.serving.asgi_to_wsgi_bridge import RequestThreads  # noqa: E402
from harness_site.serving.asgi_types import Application, Receive, Scope, Send  # noqa: E402
from harness_site.serving.forged_client_address_middleware import ClientAddressMiddleware  # noqa: E402
from harness_site.serving.garbage_collection import (  # noqa: E402
    collect_garbage_after_response,
    freeze_loaded_objects,
)
from harness_site.serving.request_body_buffering_middleware import RequestBodyMiddleware  # noqa: E402
from harness_site.serving.slow_client_response_limits import ResponseDeadlines, wrap_wsgi_to_stop_on_disconnect  # noqa: E402

THREADS = 8
LIVENESS_PATH = "/health/live"

_threads = RequestThreads(wrap_wsgi_to_stop_on_disconnect(_wsgi), threads=THREADS)
#: A thread of its own for the health checks, which must not wait for pages that take long.
_health_thread = RequestThreads(_wsgi, threads=1)
#: A thread for the check that does not ask the database, and must not wait for one that is away.
_live_thread = RequestThreads(_wsgi, threads=1)
#: A thread for those heartbeats of agents that are not answered together.
_heartbeats = Heartbeats(RequestThreads(_wsgi, threads=1))


async def is_authenticated_request(scope: Scope) -> bool:
    """Return True for a request of a signed-in member, or with a valid token of the API."""
    return await has_valid_token(scope) or await is_member_request(scope)


async def _always_report_unauthenticated(scope: Scope) -> bool:
    return False


def _get_path_below_root(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


async def _route_request_to_thread_pool(scope: Scope, receive: Receive, send: Send) -> None:
    path = _get_path_below_root(scope)
    application: Application = _threads
    if path == LIVENESS_PATH:
        application = _live_thread
    elif path.startswith("/health/"):
        application = _health_thread
    elif path.startswith(f"{API_PATH}/") and path.endswith("/heartbeat"):
        application = _heartbeats
    await application(scope, receive, send)


_pages = ResponseDeadlines(
    RequestBodyMiddleware(
        McpEndpoint(EventStreams(LongPolls(_route_request_to_thread_pool))),
        settings.SERVER_LIMITS,
        is_authenticated_request,
        build_refused_body_response,
    ),
    limits=settings.SERVER_LIMITS,
    threads=THREADS,
)
#: Before the tables exist, nobody is known, and only Django's middleware answers.
_refusals = ResponseDeadlines(
    RequestBodyMiddleware(
        _route_request_to_thread_pool,
        settings.SERVER_LIMITS,
        _always_report_unauthenticated,
        build_refused_body_response,
    ),
    limits=settings.SERVER_LIMITS,
    threads=THREADS,
)
_router: Any = ProtocolTypeRouter(
    {
        "http": _pages,
        "websocket": build_websocket_application(),
        "lifespan": handle_lifespan,
    }
)


async def _serve_site_if_database_ready(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the site; until the database has its tables, refuse what would read them."""
    is_lifespan = scope["type"] == "lifespan"
    if scope["type"] == "http" and _get_path_below_root(scope) == LIVENESS_PATH:
        await _refusals(scope, receive, send)  # it says that this process answers, whatever the database does
    elif is_lifespan or probe.are_tables_known_complete or await database_sync_to_async(probe.find_problem)() is None:
        await _router(scope, receive, send)
    elif scope["type"] == "http":
        await _refusals(scope, receive, send)
    else:
        await send({"type": "websocket.close"})
    collect_garbage_after_response()


#: For a server that takes no address from a header, as `manage.py serve`: what a client writes there changes nothing.
direct_application = _serve_site_if_database_ready
application = (
    _serve_site_if_database_ready if settings.BEHIND_PROXY else ClientAddressMiddleware(_serve_site_if_database_ready)
)
freeze_loaded_objects()
