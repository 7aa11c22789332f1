"""Slow clients at the ASGI level, with a WSGI application in threads."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from harness_site.serving.asgi_to_wsgi_bridge import RequestThreads
from harness_site.serving.asgi_types import Message
from harness_site.serving.server_limits_from_environment import ServerLimits
from harness_site.serving.slow_client_response_limits import ResponseDeadlines, wrap_wsgi_to_stop_on_disconnect

PATIENCE = 30.0
PIECE = b"x" * 70_000


class Export:
    """WSGI application with an endless response."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        try:
            while True:
                yield PIECE
        finally:
            self.closed.set()


class Reader:
    """Client that reads `pieces` pieces and then stops, or closes the connection if `leaves`."""

    def __init__(self, pieces: int, *, leaves: bool = False) -> None:
        self.pieces, self.leaves = pieces, leaves
        self.left = asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.pieces -= 1
            if self.pieces < 0 and self.leaves:
                self.left.set()
            elif self.pieces < 0:
                await asyncio.Event().wait()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}


def request() -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "http_version": "1.1",
        "headers": [],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 50000),
    }


def deadlines(export: Export, *, write_seconds: int, threads: int = 2) -> ResponseDeadlines:
    application = RequestThreads(wrap_wsgi_to_stop_on_disconnect(export), threads=threads)
    return ResponseDeadlines(application, limits=ServerLimits(write_seconds=write_seconds), threads=threads)


def test_thread_is_freed_when_the_client_stops_reading() -> None:
    async def read() -> None:
        export, reader = Export(), Reader(3)
        application = deadlines(export, write_seconds=1)
        await asyncio.wait_for(application(request(), reader.receive, reader.send), PATIENCE)
        assert export.closed.is_set()

    asyncio.run(read())


def test_thread_is_freed_when_the_client_disconnects() -> None:
    async def read() -> None:
        export, reader = Export(), Reader(3, leaves=True)
        application = deadlines(export, write_seconds=10_000)
        await asyncio.wait_for(application(request(), reader.receive, reader.send), PATIENCE)
        assert export.closed.is_set()

    asyncio.run(read())


def test_half_of_the_threads_are_kept_for_the_fastest_readers() -> None:
    async def read() -> None:
        application = deadlines(Export(), write_seconds=10_000, threads=4)
        readers = [Reader(pieces) for pieces in (9, 1, 9, 1)]
        reading = [asyncio.create_task(application(request(), one.receive, one.send)) for one in readers]
        slowest = {reading[1], reading[3]}
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*slowest)
        assert not any(one.done() for one in set(reading) - slowest)
        for reader in readers:
            reader.left.set()  # ends the threads
        for waiting in set(reading) - slowest:
            waiting.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    asyncio.run(read())


class Page:
    """WSGI application whose answer is complete in one piece."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "4")])
        return [b"page"]


def test_answer_in_one_piece_has_no_deadline() -> None:
    """It occupies no thread while its client reads; the connection ends a client that reads nothing."""

    async def read() -> None:
        sent: list[Message] = []

        async def send_slowly(message: Message) -> None:
            await asyncio.sleep(0.01)
            sent.append(message)

        application = RequestThreads(wrap_wsgi_to_stop_on_disconnect(Page()), threads=1)
        limited = ResponseDeadlines(application, limits=ServerLimits(write_seconds=0), threads=1)
        await asyncio.wait_for(limited(request(), Reader(0).receive, send_slowly), PATIENCE)
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]

    asyncio.run(read())
