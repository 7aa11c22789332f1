"""Request bodies, read on the event loop before a request takes a thread.

Django reads a body inside the thread that answers the request. There are few of those, so a handful of clients that
send a byte now and then would stop the site. Here nothing but a small coroutine waits for a slow client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from harness_site.serving.limits import ServerLimits
from harness_site.serving.types import Application, Message, Receive, Scope, Send

#: Bytes of a body that are kept in memory; the rest goes to a temporary file.
MEMORY_BYTES: Final = 262_144
CHUNK_BYTES: Final = 65_536
#: Seconds a refused client may go on sending, so that it reads the answer instead of a reset connection.
LINGER_SECONDS: Final = 2.0


class BodyRefused(Exception):
    """A request body that is not taken; `status` is the status of the answer."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class ClientDisconnected(Exception):
    """The client closed the connection before its body was complete."""


@dataclass(frozen=True, slots=True)
class RequestBodies:
    """ASGI middleware that hands requests on with complete bodies: 413 above the limit, 408 after the deadline.

    `is_member` tells whether a request comes from a signed-in member. It is asked only about a body that is larger than
    those of strangers may be.
    """

    application: Application
    limits: ServerLimits
    is_member: Callable[[Scope], Awaitable[bool]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _has_body(scope):
            await self.application(scope, receive, send)
            return
        with SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
            try:
                size = await self._read(scope, receive, file)
            except BodyRefused as refused:
                await _refuse(refused, receive, send)
                return
            except ClientDisconnected:
                return
            file.seek(0)
            await self.application(_with_length(scope, size), _BodyReader(file, size, receive), send)

    async def _read(self, scope: Scope, receive: Receive, file: IO[bytes]) -> int:
        """Write the body to `file`; returns its size. Raises `BodyRefused` or `ClientDisconnected`."""
        limit = await self._limit(scope, _declared_length(scope))
        clock = asyncio.get_running_loop().time
        began, received = clock(), 0
        while True:
            message = await _receive_within(receive, began + self.limits.body_deadline(received) - clock())
            received += len(message.get("body", b""))
            if received > limit:
                limit = await self._limit(scope, received)
            file.write(message.get("body", b""))
            if not message.get("more_body", False):
                return received

    async def _limit(self, scope: Scope, size: int) -> int:
        """The largest body this client may send. Raises `BodyRefused` where `size` is above it."""
        if size <= self.limits.anonymous_body_bytes:
            return self.limits.anonymous_body_bytes
        if size > self.limits.body_bytes or not await self.is_member(scope):
            raise BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is larger than this site takes.")
        return self.limits.body_bytes


class _BodyReader:
    """`receive` of a request whose body is complete."""

    def __init__(self, file: IO[bytes], size: int, receive: Receive) -> None:
        self._file, self._left, self._receive = file, size, receive
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        chunk = self._file.read(CHUNK_BYTES)
        self._left -= len(chunk)
        self._complete = self._left <= 0
        return {"type": "http.request", "body": chunk, "more_body": not self._complete}


async def _receive_within(receive: Receive, seconds: float) -> Message:
    try:
        message = await asyncio.wait_for(receive(), max(seconds, 0.0))
    except TimeoutError:
        raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, "The request took too long to arrive.") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


async def _refuse(refused: BodyRefused, receive: Receive, send: Send) -> None:
    """Answer, and close the connection once the client has stopped sending or has had time to read the answer."""
    text = refused.text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": int(refused.status), "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    if refused.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass


def _has_body(scope: Scope) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} and value != b"0" for name, value in scope["headers"])


def _declared_length(scope: Scope) -> int:
    """The largest `Content-Length`; zero for a chunked body, which is counted as it comes."""
    declared = [value for name, value in scope["headers"] if name == b"content-length"]
    if not all(value.isdigit() and len(value) < 19 for value in declared):
        raise BodyRefused(HTTPStatus.BAD_REQUEST, "The Content-Length of the request is not a number.")
    return max(map(int, declared), default=0)


def _with_length(scope: Scope, size: int) -> Scope:
    """`scope` with the length that was counted: Django takes a chunked body for an empty one."""
    framing = {b"content-length", b"transfer-encoding"}
    kept = [(name, value) for name, value in scope["headers"] if name not in framing]
    return {**scope, "headers": [*kept, (b"content-length", str(size).encode())]}
