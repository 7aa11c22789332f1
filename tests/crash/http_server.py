"""A site that is killed in the middle of a write of its HTTP API, and a new process that takes its place at once."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Never

from tests.support.processes import die, send_to_parent

#: Places of a write at which the server can die.
PLACES: Final = ("before its key is noted", "before it is done", "before its answer is stored", "before it is answered")
_PR_SET_PDEATHSIG: Final = 1
_PAUSE_SECONDS: Final = 0.01


def serve_through_kills(url: str, plan: str, migrate: bool = False) -> Never:
    """Serve a database. `plan` is the file that names the write and the place of the next kill.

    The socket stays open while a process takes the place of the one that was killed, so that connections wait.
    """
    os.environ["HARNESS_DATABASE_URL"] = url
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    os.environ.setdefault("HARNESS_SECRET_KEY", "a key of tests: 0123456789 abcdefghijklmnopqrstuvwxyz")
    os.environ["HARNESS_ADDRESS"] = "http://127.0.0.1:8000"
    import django

    django.setup()
    tokens = _migrate_and_create_tokens() if migrate else {}
    from harness_site import asgi as asgi  # every process that is forked has it

    listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    # asyncio does it for sockets that it has created; without it an answer in two parts waits for an acknowledgement
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send_to_parent("listens", {"address": f"http://127.0.0.1:{listening.getsockname()[1]}", **tokens})
    while True:
        if (pid := os.fork()) == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _serve(listening, Path(plan))
        os.waitpid(pid, 0)


def _migrate_and_create_tokens() -> dict[str, str]:
    from django.core.management import call_command
    from django.db import connection

    from checkpoints.db import clock
    from harness_site.accounts.models import ApiToken, TokenRole
    from tests.support.api_client import make_token

    call_command("migrate", verbosity=0, interactive=False)
    tokens = {
        "token": make_token(TokenRole.AGENT, name="agent"),
        "approver": make_token(TokenRole.APPROVER, name="alice"),
    }
    ApiToken.objects.update(last_used_at=clock.now())  # so a write checks the token and notes its key itself
    connection.close()
    close_pool: Callable[[], None] = getattr(connection, "close_pool", lambda: None)
    close_pool()
    return tokens


def _serve(listening: socket.socket, plan: Path) -> Never:
    import uvicorn

    from harness_site.api import idempotent_writes, json_request_bodies
    from harness_site.asgi import direct_application
    from harness_site.serving.limited_http_connection import LimitedConnection

    read_body, serve_once = json_request_bodies.read_decompressed_body, idempotent_writes.serve_write_once
    serve_storing = idempotent_writes.serve_write_that_stores_key

    def read_body_until_killed(request: Any) -> bytes:
        _follow_plan(plan, f"{request.method} {request.get_full_path()}", PLACES[0])
        return read_body(request)

    def follow_plan_around(serve: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
        def serve_planned(repeated: Any) -> Any:
            _follow_plan(plan, name, PLACES[1])
            response = serve(repeated)
            _follow_plan(plan, name, PLACES[2])
            return response

        return serve_planned

    def serve_until_killed(token: Any, write: Any, new_row: Any, serve: Callable[[Any], Any]) -> Any:
        name = f"{write.method} {write.path}"
        response = serve_once(token, write, new_row, follow_plan_around(serve, name))
        _follow_plan(plan, name, PLACES[3])
        return response

    def serve_storing_until_killed(token: Any, write: Any, serve: Callable[[Any], Any]) -> Any:
        name = f"{write.method} {write.path}"
        response = serve_storing(token, write, follow_plan_around(serve, name))
        if response is not None:
            _follow_plan(plan, name, PLACES[3])
        return response

    json_request_bodies.read_decompressed_body = read_body_until_killed
    idempotent_writes.serve_write_once = serve_until_killed
    idempotent_writes.serve_write_that_stores_key = serve_storing_until_killed
    http: Any = LimitedConnection
    config = uvicorn.Config(direct_application, http=http, lifespan="off", log_level="critical", ws="none")
    uvicorn.Server(config).run(sockets=[listening])
    os._exit(0)


def _follow_plan(plan: Path, write: str, place: str) -> None:
    """Die if the plan names this place; or wait there while the test kills the database."""
    try:
        planned = json.loads(plan.read_text())
    except FileNotFoundError:
        return
    if not re.search(planned["write"], write) or planned["place"] != place:
        return
    plan.unlink()
    if planned["victim"] == "server":
        die()
    reached, killed = plan.with_name("reached"), plan.with_name("killed")
    reached.touch()
    while not killed.exists():
        time.sleep(_PAUSE_SECONDS)
    killed.unlink()
