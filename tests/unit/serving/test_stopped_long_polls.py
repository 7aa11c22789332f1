"""A long poll that the stop of its server ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness_site.api.json_responses import WAITING
from harness_site.api.long_poll_and_sse_middleware import LongPolls


def test_long_poll_of_a_server_that_stops_has_the_answer_of_one_that_has_waited() -> None:
    looked = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(WAITING.lower().encode(), b"1")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})
        looked.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def poll_and_stop() -> None:
        scope = {"type": "http", "method": "GET", "path": "/api/v1/events", "query_string": b"wait=20", "headers": []}
        polling = asyncio.ensure_future(LongPolls(application)(scope, receive, send))
        await looked.wait()
        await asyncio.sleep(0.01)
        polling.cancel("Task cancelled, timeout graceful shutdown exceeded")
        await polling

    try:
        asyncio.run(poll_and_stop())
    except asyncio.CancelledError:
        pytest.fail("The client would get the status 500 of uvicorn.")
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 202
