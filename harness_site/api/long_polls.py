"""Long polls on the event loop: a request that waits occupies a thread only while it looks."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qs

from harness_site.api.json_responses import WAITING
from harness_site.serving.asgi_types import Application, Message, Receive, Scope, Send

#: Longest wait of one request, in seconds.
LONGEST: Final = 30.0
#: Seconds between two looks: the first, and the longest.
_FIRST: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
_HEADER: Final = WAITING.lower().encode()


class LongPolls:
    """ASGI middleware that asks again while the answer says that it waits, up to the `wait` seconds of the query."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = _read_wait(scope)
        if not seconds:
            await self._application(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        until, pause = clock() + seconds, _FIRST
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while True:
                answer = _HeldAnswer()
                await self._application(scope, _receive_nothing, answer.keep)
                left = until - clock()
                if not answer.is_waiting or left <= 0 or gone.done():
                    await answer.send_to(send)
                    return
                await asyncio.wait({gone}, timeout=min(pause, left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)
        finally:
            gone.cancel()


def _read_wait(scope: Scope) -> float:
    """Return the seconds that a GET of the API asks to wait at most; 0 for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET" or "/api/v1/" not in scope["path"]:
        return 0.0
    given = parse_qs(scope["query_string"].decode("latin-1")).get("wait", ["0"])[0]
    return min(float(given), LONGEST) if given.isascii() and given.isdecimal() else 0.0


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _HeldAnswer:
    """Answer that is held back until it is known whether it is the last one."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def keep(self, message: Message) -> None:
        self._messages.append(message)

    @property
    def is_waiting(self) -> bool:
        return any(name.lower() == _HEADER for name, _ in self._messages[0].get("headers", []))

    async def send_to(self, send: Send) -> None:
        for message in self._messages:
            await send(message)
