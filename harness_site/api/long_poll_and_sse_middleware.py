"""Long polls and streams of one answer on the event loop: a request that waits has a thread only while it looks."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from checkpoints.server_or_database_url import API_PATH
from harness_site.api.json_responses import WAITING
from harness_site.serving.asgi_types import Application, Message, Receive, Scope, Send

#: Longest wait of one request, in seconds.
LONGEST: Final = 30.0
#: Seconds between two looks: the first, and the longest.
_FIRST: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
_HEADER: Final = WAITING.lower().encode()


#: Routes whose waiting answers can be streamed: the gate of a session, and a call.
_STREAMED: Final = re.compile(rf"{API_PATH}/sessions/[^/]+/(gate|calls/[^/]+)$")
#: Seconds between two looks of a stream, and between two comments that keep its connection open.
_STREAM_PAUSE: Final = 1.0
_COMMENT_SECONDS: Final = 15.0
#: Streams that one process serves at the same time.
MAX_STREAMS: Final = 200


class LongPolls:
    """ASGI middleware that asks again while the answer says that it waits, up to the `wait` seconds of the query.

    A client that accepts server-sent events gets each answer that differs from the one before, until one waits no more.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _is_event_stream_requested(scope) and self._streams < MAX_STREAMS:
            self._streams += 1
            try:
                await self._stream_answers(scope, receive, send)
            finally:
                self._streams -= 1
            return
        seconds = _parse_wait_seconds(scope)
        if not seconds:
            await self._application(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        until, pause = clock() + seconds, _FIRST
        disconnect_task = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while True:
                answer = _HeldAnswer()
                await self._application(scope, _receive_empty_body, answer.buffer_asgi_message)
                left = until - clock()
                if not answer.may_still_change or left <= 0 or disconnect_task.done():
                    await answer.send_messages(send)
                    return
                try:
                    await asyncio.wait({disconnect_task}, timeout=min(pause, left))
                except asyncio.CancelledError:
                    # The server stops. Its own answer would be a failure, after which an agent does not ask again.
                    await answer.send_messages(send)
                    return
                pause = min(pause * 1.5, _LONGEST_PAUSE)
        finally:
            disconnect_task.cancel()

    async def _stream_answers(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the answers; an error that comes first is answered as it is."""
        plain = {**scope, "headers": [pair for pair in scope["headers"] if pair[0].lower() != b"accept-encoding"]}
        disconnect_task = asyncio.ensure_future(_wait_for_disconnect(receive))
        answer = await self._request_current_answer(plain)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            disconnect_task.cancel()
            await answer.send_messages(send)
            return
        await send({"type": "http.response.start", "status": int(HTTPStatus.OK), "headers": _STREAM_HEADERS})
        body, silent = answer.body, 0.0
        text = _format_answer_as_sse_event(answer)
        try:
            while answer.may_still_change and not disconnect_task.done():
                if text or silent >= _COMMENT_SECONDS:
                    await send({"type": "http.response.body", "body": text or b": \n\n", "more_body": True})
                    silent = 0.0
                await asyncio.wait({disconnect_task}, timeout=_STREAM_PAUSE)
                silent += _STREAM_PAUSE
                answer = await self._request_current_answer(plain)
                text = b"" if answer.body == body else _format_answer_as_sse_event(answer)
                body = answer.body
        finally:
            disconnect_task.cancel()
        if not disconnect_task.done():
            await send({"type": "http.response.body", "body": _format_answer_as_sse_event(answer), "more_body": False})

    async def _request_current_answer(self, scope: Scope) -> _HeldAnswer:
        answer = _HeldAnswer()
        await self._application(scope, _receive_empty_body, answer.buffer_asgi_message)
        return answer


_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def _format_answer_as_sse_event(answer: _HeldAnswer) -> bytes:
    """Format an answer as an event: `waiting`, `answer` or `problem`."""
    name = (
        b"waiting" if answer.may_still_change else b"answer" if answer.status < HTTPStatus.BAD_REQUEST else b"problem"
    )
    return b"event: %s\ndata: %s\n\n" % (name, answer.body)


def _is_event_stream_requested(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET" or not _STREAMED.search(scope["path"]):
        return False
    return any(name.lower() == b"accept" and b"text/event-stream" in value for name, value in scope["headers"])


def _parse_wait_seconds(scope: Scope) -> float:
    """Return the seconds that a GET of the API asks to wait at most; 0 for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET" or f"{API_PATH}/" not in scope["path"]:
        return 0.0
    given = parse_qs(scope["query_string"].decode("latin-1")).get("wait", ["0"])[0]
    return min(float(given), LONGEST) if given.isascii() and given.isdecimal() else 0.0


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _HeldAnswer:
    """Answer that is held back until it is known whether it is the last one."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def buffer_asgi_message(self, message: Message) -> None:
        self._messages.append(message)

    @property
    def may_still_change(self) -> bool:
        return any(name.lower() == _HEADER for name, _ in self._messages[0].get("headers", []))

    @property
    def status(self) -> int:
        return int(self._messages[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._messages[1:])

    async def send_messages(self, send: Send) -> None:
        for message in self._messages:
            await send(message)
