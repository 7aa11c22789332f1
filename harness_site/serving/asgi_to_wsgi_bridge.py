"""Django's WSGI handler behind an ASGI server: each request is answered in one of a few threads.

An answer that is complete in one piece, as nearly all are, goes from the thread to the event loop once; a streamed one
goes piece by piece, and its thread waits while the client reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import IO, Any, Final

from harness_site.serving.asgi_types import Message, Receive, Scope, Send
from harness_site.serving.newest_idle_thread_executor import NewestIdleThreadExecutor
from harness_site.serving.request_body_buffering_middleware import BODY, has_request_body

_HEADER_KEYS: Final = {"content-length": "CONTENT_LENGTH", "content-type": "CONTENT_TYPE"}


class RequestThreads:
    """ASGI application that answers requests with a WSGI application, in at most `threads` threads."""

    def __init__(self, application: Callable[..., Iterable[bytes]], *, threads: int) -> None:
        self._application = application
        self._executor = NewestIdleThreadExecutor(threads, name="request")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        environ = build_wsgi_environ(scope, await _get_or_receive_body(scope, receive))

        def send_from_thread(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(_await_asgi_send(send, message), loop).result()

        answer = partial(
            contextvars.copy_context().run, self._run_wsgi_application_and_get_unsent, environ, send_from_thread
        )
        for message in await loop.run_in_executor(self._executor, answer):
            await send(message)

    def _run_wsgi_application_and_get_unsent(
        self, environ: dict[str, Any], send: Callable[[Message], None]
    ) -> list[Message]:
        """Answer a request. Returns the messages that are not sent yet: all of them, or the end of a stream."""
        start: Message = {"type": "http.response.start"}

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
            # Django's cookies begin with a space, which HTTP does not allow.
            start["status"] = int(status.partition(" ")[0])
            start["headers"] = [
                (name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers
            ]

        pieces = self._application(environ, start_response)
        try:
            rest = iter(pieces)
            first = next(rest, b"")
            if (b"content-length", str(len(first)).encode()) in start["headers"]:
                return [start, _build_body_message(first, more=False)]
            send(start)
            for piece in chain([first], rest):
                send(_build_body_message(piece, more=True))
            return [_build_body_message(b"", more=False)]
        finally:
            getattr(pieces, "close", lambda: None)()


def build_wsgi_environ(scope: Scope, body: IO[bytes]) -> dict[str, Any]:
    """Build the WSGI environment of a request.

    Headers whose names have an underscore are left out, as others with a hyphen have the same name there.
    """
    root = scope.get("root_path", "").encode().decode("latin-1")
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "asgi.scope": scope,
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root,
        "PATH_INFO": scope["path"].encode().decode("latin-1").removeprefix(root),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if scope.get("client"):
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = scope["client"][0], str(scope["client"][1])
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if "_" not in name:
            key = _HEADER_KEYS.get(name) or f"HTTP_{name.upper().replace('-', '_')}"
            environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


async def _get_or_receive_body(scope: Scope, receive: Receive) -> IO[bytes]:
    """Return the body: the file in which it stands already, or else what arrives."""
    if BODY in scope:
        file: IO[bytes] = scope[BODY]
        return file
    body, more = io.BytesIO(), has_request_body(scope)
    while more:
        message = await receive()
        body.write(message.get("body", b""))
        more = message.get("more_body", False)
    body.seek(0)
    return body


def _build_body_message(piece: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def _await_asgi_send(send: Send, message: Message) -> None:
    await send(message)
