"""Limits on responses to slow clients, which block the thread that produces the response.

A page fits into the buffers of the socket, an export does not: its thread waits while the client reads. A client that
reads too slowly is disconnected, and at most half of the threads wait for slow clients at any time: beyond that the
slowest client is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from harness_site.serving.asgi_types import Application, Message, Receive, Scope, Send
from harness_site.serving.client_limits import ServerLimits

#: Key in the ASGI scope of the event that is set when nobody reads the response any more.
_KEY: Final = "harness.abandoned"
#: Seconds of waiting after which a client counts as slow.
SLOW_SECONDS: Final = 1.0
#: Bytes of a response after which its client is watched for closing the connection.
_LARGE: Final = 65_536


class ResponseDeadlines:
    """ASGI middleware that disconnects clients that read too slowly."""

    def __init__(self, application: Application, *, limits: ServerLimits, threads: int) -> None:
        self._application = application
        self._limits = limits
        self._places = max(threads // 2, 1)
        self._waiting: set[_Response] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = _Response(send, self)
        watch: asyncio.Task[None] | None = None

        async def send_and_watch(message: Message) -> None:
            nonlocal watch
            await response.send(message)
            if watch is None and response.sent > _LARGE:
                watch = asyncio.create_task(response.watch(receive))

        try:
            await self._application({**scope, _KEY: response.abandoned}, receive, send_and_watch)
        finally:
            response.abandoned.set()
            if watch is not None:
                watch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch
        # If the client was disconnected, the response is incomplete and the server closes the connection.

    def deadline(self, sent: int, waited: float) -> float:
        """Return the seconds for which a client may still block its thread."""
        allowed = self._limits.get_response_deadline(sent) - waited
        return max(min(allowed, float(self._limits.write_seconds)), 0.0)

    def enter(self, response: _Response) -> None:
        """Add `response` to the slow ones, and disconnect the slowest if there are too many."""
        self._waiting.add(response)
        if len(self._waiting) > self._places:
            slowest = min(self._waiting, key=lambda candidate: candidate.rate)
            self._waiting.discard(slowest)
            slowest.cut_off()

    def leave(self, response: _Response) -> None:
        self._waiting.discard(response)


class _Response:
    def __init__(self, send: Send, owner: ResponseDeadlines) -> None:
        self._send, self._owner = send, owner
        self.abandoned = threading.Event()
        self.cut = False
        self.sent = 0
        self._waited = 0.0
        self._sending: asyncio.Future[None] | None = None

    @property
    def rate(self) -> float:
        """Bytes sent per second of waiting for the client."""
        return self.sent / (self._waited + SLOW_SECONDS)

    async def send(self, message: Message) -> None:
        """Send one message; do nothing if the client is gone, as the threads above expect."""
        if self.abandoned.is_set():
            return
        self.sent += len(message.get("body", b""))
        self._sending = asyncio.ensure_future(self._send(message))
        try:
            await self._wait(self._sending)
        except asyncio.CancelledError:
            if not self.cut:
                raise
        finally:
            self._owner.leave(self)
            self._sending = None

    async def watch(self, receive: Receive) -> None:
        """Set `abandoned` when the client closes the connection."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.abandoned.set()

    def cut_off(self) -> None:
        self.cut = True
        self.abandoned.set()
        if self._sending is not None:
            self._sending.cancel()

    async def _wait(self, sending: asyncio.Future[None]) -> None:
        clock = asyncio.get_running_loop().time
        started_at = clock()
        patience = self._owner.deadline(self.sent, self._waited)
        done, _ = await asyncio.wait({sending}, timeout=min(SLOW_SECONDS, patience))
        if not done:
            self._owner.enter(self)
            done, _ = await asyncio.wait({sending}, timeout=max(patience - SLOW_SECONDS, 0.0))
        self._waited += clock() - started_at
        if not done:
            self.cut_off()
        await sending


def stop_when_abandoned(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Wrap a WSGI application so that it stops producing a response that nobody reads."""

    def wrapped(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        abandoned: threading.Event | None = environ.get("asgi.scope", {}).get(_KEY)
        chunks = application(environ, start_response)
        try:
            for chunk in chunks:
                yield chunk
                if abandoned is not None and abandoned.is_set():
                    return
        finally:
            getattr(chunks, "close", lambda: None)()

    return wrapped
