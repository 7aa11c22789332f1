"""HTTP connections with deadlines for headers and stuck writes, and a limit on their number.

uvicorn itself has a timeout between requests only. A client that sends the headers of a request a byte at a time, or
reads no bytes of a response, would keep its connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness_site.serving.server_limits_from_environment import ServerLimits
from harness_site.serving.uvicorn_access_log import AccessLog


class ResponseJoiner(h11.Connection):
    """HTTP connection that sends the headers of a response with the beginning of its body, if its length is known.

    A client that gets two packets wakes twice.
    """

    def __init__(self, max_header_bytes: int) -> None:
        super().__init__(h11.SERVER, max_header_bytes)
        self._unsent_headers: list[bytes] = []

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """Return what `send` returns, in pieces."""
        pieces = super().send_with_data_passthrough(event)
        if isinstance(event, h11.Response) and any(name == b"content-length" for name, _ in event.headers):
            self._unsent_headers = pieces or []
            return []
        if pieces is not None:
            pieces, self._unsent_headers = self._unsent_headers + pieces, []
        return pieces


class LimitedConnection(H11Protocol):
    """Connection of one client, limited by the setting `SERVER_LIMITS`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.access_log:
            self.access_logger = AccessLog(self.access_logger, self)  # type: ignore[assignment]
        self._limits: ServerLimits = settings.SERVER_LIMITS
        self.conn = ResponseJoiner(self._limits.header_bytes)
        self._headers_due: asyncio.TimerHandle | None = None
        self._write_due: asyncio.TimerHandle | None = None
        #: Time of the connection, or of its newest request.
        self.since = self.loop.time()

    @property
    def is_serving_request(self) -> bool:
        """True if the headers of a request are complete and its response is not."""
        return bool(self.cycle) and not self.cycle.response_complete

    @property
    def is_waiting_for_client(self) -> bool:
        """True if the connection only waits for its client."""
        return not self.is_serving_request or self.cycle.more_body or self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_or_stop_header_timer()
        if len(self.connections) > self._limits.connections:
            self._abort_longest_waiting_connection()

    def data_received(self, data: bytes) -> None:
        if self._completes_too_large_headers(data):
            self.send_400_response("The headers of the request are too large.")
            return
        was_serving_request = self.is_serving_request
        super().data_received(data)
        if self.is_serving_request and not was_serving_request:
            self.since = self.loop.time()
        self._start_or_stop_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due = _cancel_timer(self._headers_due)
        self._write_due = _cancel_timer(self._write_due)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_due is None:
            self._write_due = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_due = _cancel_timer(self._write_due)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # uvicorn's close waits until the written data has been sent.
        if self._write_due is None:
            self._write_due = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def _completes_too_large_headers(self, data: bytes) -> bool:
        """Return True if `data` completes headers that are too large; h11 checks only headers that arrive in parts."""
        if self.conn.their_state is not h11.IDLE:
            return False
        end = data.find(b"\r\n\r\n")
        return end >= 0 and len(self.conn.trailing_data[0]) + end > self._limits.header_bytes

    def _start_or_stop_header_timer(self) -> None:
        """Start the timer for the headers of a request while they are awaited, and stop it when they are complete."""
        websocket = self.transport.get_protocol() is not self
        if websocket or self.is_serving_request or self.transport.is_closing():
            self._headers_due = _cancel_timer(self._headers_due)
        elif self._headers_due is None:
            self._headers_due = self.loop.call_later(self._limits.header_seconds, self.transport.abort)

    def _abort_longest_waiting_connection(self) -> None:
        """Close the connection that has waited longest for its client, or this one if none waits."""
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedConnection) and connection is not self
        ]
        idle_connections = [connection for connection in others if connection.is_waiting_for_client]
        victim = min(idle_connections, key=lambda connection: connection.since, default=self)
        self.connections.discard(victim)
        victim.transport.abort()


def _cancel_timer(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
