"""One worker of a web application that is not Harness: a Django project of its own, served by a plain process.

Each request of `/turn/<session id>` is one turn of an agent. The worker holds a session only while it answers.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.urls import path

from checkpoints.database_url import database_from_url
from checkpoints.django_configuration import build_library_settings
from tests.support.processes import append_line, send_to_parent, wait_for_parent
from tests.support.sleep_recorder import record_sleeps


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


@cache
def _tools():  # type: ignore[no-untyped-def]
    """The checkpointer and the tools of this worker, made when they are first used: Django is set up then."""
    from checkpoints import SyncCheckpointer, ToolRegistry

    registry = ToolRegistry()

    @registry.tool(side_effects={"mutate"})
    def note(effects: str, line: str) -> str:
        append_line(effects, line)
        return "noted"

    return SyncCheckpointer(), registry


def turn(request: HttpRequest, session_id: str) -> JsonResponse:
    checkpointer, registry = _tools()
    with checkpointer.session(session_id, "A conversation in a web application", registry=registry) as session:
        number = session.version + 1
        line = f"{session_id} {number}"
        said = session.dispatch("note", {"effects": request.GET["effects"], "line": line}, f"call_{number}").content
        version = session.append([{"role": "assistant", "content": f"turn {number}: {said}"}])
    return JsonResponse({"version": version, "pid": os.getpid()})


urlpatterns = [path("turn/<str:session_id>", turn)]


def _end_when_told(over: threading.Event) -> None:
    wait_for_parent()
    over.set()


def serve(url: str) -> int:
    """Answer requests, one at a time, until the parent says so. Returns how often that slept."""
    import django
    from django.core.handlers.wsgi import WSGIHandler

    options = build_library_settings(database_from_url(url))
    settings.configure(**options, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="a key of the project")
    django.setup()
    with make_server("127.0.0.1", 0, WSGIHandler(), handler_class=_Quiet) as server, record_sleeps() as slept:
        server.timeout = 0.5
        send_to_parent("listens", server.server_port)
        over = threading.Event()
        threading.Thread(target=_end_when_told, args=(over,), daemon=True).start()
        while not over.is_set():
            server.handle_request()
    return len(slept)
