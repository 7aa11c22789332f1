"""Limits on responses to slow clients, which block the thread that produces the response.

An answer that is complete in one piece has left its thread. A longer one does not fit into the buffers of the socket:
its thread waits while the client reads. A client that reads too slowly is disconnected, and at most half of the threads
wait for slow clients at any time: beyond that the slowest client is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from harness_site.serving.asgi_types import Application, Message, Receive, Scope, Send
from harness_site.serving.server_limits_from_environment import ServerLimits

#: Key in the ASGI scope of the event that is set when nobody reads the response any more.
_KEY: Final = "harness.abandoned"
#: Seconds of waiting after which a client counts as slow.
SLOW_SECONDS: Final = 1.0
#: Bytes of a response after which its client is watched for closing the connection.
_WATCH_DISCONNECT_BYTES: Final = 65_536


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
            await response.send_message(message)
            if watch is None and response.sent > _WATCH_DISCONNECT_BYTES:
                watch = asyncio.create_task(response.wait_for_disconnect(receive))

        try:
            await self._application({**scope, _KEY: response.disconnected}, receive, send_and_watch)
        finally:
            response.disconnected.set()
            if watch is not None:
                watch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch
        # If the client was disconnected, the response is incomplete and the server closes the connection.

    def compute_remaining_seconds(self, sent: int, waited: float) -> float:
        """Return the seconds for which a client may still block its thread."""
        allowed = self._limits.compute_response_seconds_allowed(sent) - waited
        return max(min(allowed, float(self._limits.write_seconds)), 0.0)

    def add_slow_response_and_disconnect_slowest(self, response: _Response) -> None:
        """Add `response` to the slow ones, and disconnect the slowest if there are too many."""
        self._waiting.add(response)
        if len(self._waiting) > self._places:
            slowest = min(self._waiting, key=lambda candidate: candidate.measured_bytes_per_second)
            self._waiting.discard(slowest)
            slowest.disconnect_client()

    def remove_slow_response(self, response: _Response) -> None:
        self._waiting.discard(response)


class _Response:
    def __init__(self, send: Send, owner: ResponseDeadlines) -> None:
        self._send, self._owner = send, owner
        self.disconnected = threading.Event()
        self.sent = 0
        self._waited = 0.0
        #: Headers that wait for the first piece of the body, which says whether it is the only one.
        self._start: Message | None = None
        #: Time until which the message that is being sent may wait for the client.
        self._deadline: asyncio.Timeout | None = None

    @property
    def measured_bytes_per_second(self) -> float:
        """Bytes sent per second of waiting for the client."""
        return self.sent / (self._waited + SLOW_SECONDS)

    async def send_message(self, message: Message) -> None:
        """Send one message; do nothing if the client is gone, as the threads above expect."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None and not message.get("more_body", False):
            await self._send(start)
            await self._send(message)
            return
        if start is not None:
            await self._send_within_deadline(start)
        await self._send_within_deadline(message)

    async def _send_within_deadline(self, message: Message) -> None:
        if self.disconnected.is_set():
            return
        self.sent += len(message.get("body", b""))
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        becomes_slow = loop.call_later(SLOW_SECONDS, self._owner.add_slow_response_and_disconnect_slowest, self)
        try:
            async with asyncio.timeout(
                self._owner.compute_remaining_seconds(self.sent, self._waited)
            ) as self._deadline:
                await self._send(message)
        except TimeoutError:
            self.disconnected.set()
        finally:
            becomes_slow.cancel()
            self._owner.remove_slow_response(self)
            self._deadline = None
            self._waited += loop.time() - started_at

    async def wait_for_disconnect(self, receive: Receive) -> None:
        """Set `disconnected` when the client closes the connection."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected.set()

    def disconnect_client(self) -> None:
        """End the response, also while a message is being sent."""
        self.disconnected.set()
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())


def wrap_wsgi_to_stop_on_disconnect(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Wrap a WSGI application so that it stops producing a response that nobody reads."""

    def stop_on_disconnect(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        disconnected: threading.Event | None = environ.get("asgi.scope", {}).get(_KEY)
        chunks = application(environ, start_response)
        try:
            for chunk in chunks:
                yield chunk
                if disconnected is not None and disconnected.is_set():
                    return
        finally:
            getattr(chunks, "close", lambda: None)()

    return stop_on_disconnect
