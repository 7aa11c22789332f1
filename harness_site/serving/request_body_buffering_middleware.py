"""Request bodies, read on the event loop before a request occupies a thread.

Django reads a body inside the thread that handles the request. There are few threads, so a handful of clients that send
single bytes slowly would block the site. Here only a small coroutine waits for a slow client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from checkpoints.exceptions import CheckpointsError, MalformedRequest, TooLarge
from harness_site.serving.asgi_types import Application, Message, Receive, Scope, Send
from harness_site.serving.server_limits_from_environment import ServerLimits

#: Bytes of a body that are kept in memory; larger bodies go to a temporary file.
MEMORY_BYTES: Final = 262_144
CHUNK_BYTES: Final = 65_536
#: Seconds in which a refused client may continue sending, so that it reads the response before a reset.
LINGER_SECONDS: Final = 2.0
#: Key in the ASGI scope of the file with the complete body.
BODY: Final = "harness.body"


class BodyRefused(Exception):
    """Refusal of a request body.

    Args:
        status: HTTP status of the response.
        error: Error of the library that says why, for programs.
        text: Why, for people.
    """

    def __init__(self, status: HTTPStatus, error: CheckpointsError, text: str) -> None:
        self.status, self.error, self.text = status, error, text
        super().__init__(text)


#: Function that returns the media type and the content of the answer to a refused request.
BuildRefusal = Callable[[Scope, BodyRefused], tuple[str, bytes]]


class ClientDisconnected(Exception):
    """Loss of the connection before the body was complete."""


@dataclass(frozen=True, slots=True)
class RequestBodyMiddleware:
    """ASGI middleware that passes on requests with complete bodies: 413 above the limit, 408 after the deadline.

    `is_member` returns True for a request of a signed-in member. It is called only for a body above the limit for
    anonymous clients. `build_refusal` builds the content of a refusal.
    """

    application: Application
    limits: ServerLimits
    is_member: Callable[[Scope], Awaitable[bool]]
    build_refusal: BuildRefusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_request_body(scope):
            await self.application(scope, receive, send)
            return
        with SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
            try:
                size = await self._receive_body_into_file(scope, receive, file)
            except BodyRefused as refused:
                await _send_refusal_and_close(refused, *self.build_refusal(scope, refused), receive, send)
                return
            except ClientDisconnected:
                return
            file.seek(0)
            scope = {**_copy_scope_with_content_length(scope, size), BODY: file}
            await self.application(scope, _BodyReader(file, size, receive), send)

    async def _receive_body_into_file(self, scope: Scope, receive: Receive, file: IO[bytes]) -> int:
        """Write the body to `file`; return its size. Raises `BodyRefused` or `ClientDisconnected`."""
        limit = await self._get_body_limit_or_refuse_size(scope, _get_declared_length(scope))
        clock = asyncio.get_running_loop().time
        started_at, received = clock(), 0
        while True:
            message = await _receive_message_within(
                receive, started_at + self.limits.compute_body_seconds_allowed(received) - clock()
            )
            received += len(message.get("body", b""))
            if received > limit:
                limit = await self._get_body_limit_or_refuse_size(scope, received)
            file.write(message.get("body", b""))
            if not message.get("more_body", False):
                return received

    async def _get_body_limit_or_refuse_size(self, scope: Scope, size: int) -> int:
        """Return the maximum body size of this client. Raises `BodyRefused` if `size` is above it."""
        if size <= self.limits.anonymous_body_bytes:
            return self.limits.anonymous_body_bytes
        if size > self.limits.body_bytes or not await self.is_member(scope):
            limits = self.limits
            limit = limits.body_bytes if size > limits.body_bytes else limits.anonymous_body_bytes
            error = TooLarge("The body of the request", size, limit)
            raise BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error, "The request is larger than this site takes.")
        return self.limits.body_bytes


class _BodyReader:
    """`receive` callable of a request with a complete body."""

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


async def _receive_message_within(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(max(seconds, 0.0)):  # `wait_for` would make a task for each request
            message = await receive()
    except TimeoutError:
        error = MalformedRequest("it took too long to arrive")
        raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, error, "The request took too long to arrive.") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


async def _send_refusal_and_close(
    refusal: BodyRefused, media_type: str, content: bytes, receive: Receive, send: Send
) -> None:
    """Send the refusal, and close the connection when the client stops sending or has had time to read it."""
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": True})
    if refusal.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        await _discard_body(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard_body(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass


def has_request_body(scope: Scope) -> bool:
    """Return True if the headers of a request say that a body follows."""
    return any(name in {b"content-length", b"transfer-encoding"} and value != b"0" for name, value in scope["headers"])


def _get_declared_length(scope: Scope) -> int:
    """Return the largest `Content-Length`; zero for a chunked body, which is counted while it arrives."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if not all(value.isdigit() and len(value) < 19 for value in lengths):
        error = MalformedRequest("its Content-Length is not a number")
        raise BodyRefused(HTTPStatus.BAD_REQUEST, error, "The Content-Length of the request is not a number.")
    return max(map(int, lengths), default=0)


def _copy_scope_with_content_length(scope: Scope, size: int) -> Scope:
    """Set the counted length in `scope`: Django treats a chunked body as empty."""
    framing = {b"content-length", b"transfer-encoding"}
    headers = [(name, value) for name, value in scope["headers"] if name not in framing]
    return {**scope, "headers": [*headers, (b"content-length", str(size).encode())]}
