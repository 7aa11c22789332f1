"""Connections of the HTTP server: a deadline for headers, a deadline for stuck writes, and room for new clients.

uvicorn itself has a timeout between requests only. A client that sends the headers of a request a byte at a time, or
takes no bytes of a response, would keep its connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness_site.serving.limits import ServerLimits


class LimitedConnection(H11Protocol):
    """One client. The limits are those of the setting `SERVER_LIMITS`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits: ServerLimits = settings.SERVER_LIMITS
        self._headers_due: asyncio.TimerHandle | None = None
        self._write_due: asyncio.TimerHandle | None = None
        #: Since when it has been open, or busy with its newest request.
        self.since = self.loop.time()

    @property
    def in_request(self) -> bool:
        """Whether the headers of a request are complete and its response is not."""
        return bool(self.cycle) and not self.cycle.response_complete

    @property
    def dispensable(self) -> bool:
        """Whether the connection does nothing but wait for its client."""
        return not self.in_request or self.cycle.more_body or self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self._has_large_headers(data):
            self.send_400_response("The headers of the request are too large.")
            return
        answering = self.in_request
        super().data_received(data)
        if self.in_request and not answering:
            self.since = self.loop.time()
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due = _cancel(self._headers_due)
        self._write_due = _cancel(self._write_due)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_due is None:
            self._write_due = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_due = _cancel(self._write_due)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # Closing waits until what was written has been taken.
        if self._write_due is None:
            self._write_due = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def _has_large_headers(self, data: bytes) -> bool:
        """Whether `data` ends headers that are too large. h11 refuses those alone that do not arrive at once."""
        if self.conn.their_state is not h11.IDLE:
            return False
        end = data.find(b"\r\n\r\n")
        return end >= 0 and len(self.conn.trailing_data[0]) + end > self._limits.header_bytes

    def _expect_headers(self) -> None:
        """Start the time for the headers of a request where some are awaited, and stop it where they are complete."""
        websocket = self.transport.get_protocol() is not self
        if websocket or self.in_request or self.transport.is_closing():
            self._headers_due = _cancel(self._headers_due)
        elif self._headers_due is None:
            self._headers_due = self.loop.call_later(self._limits.header_seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has waited for its client for the longest time, or this one if none waits."""
        others = [one for one in self.connections if isinstance(one, LimitedConnection) and one is not self]
        waiting = [one for one in others if one.dispensable]
        closed = min(waiting, key=lambda one: one.since, default=self)
        self.connections.discard(closed)
        closed.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
