"""Requests that do not wait for others: health checks and heartbeats have threads of their own."""

import asyncio
from typing import Any

import pytest

from harness_site import asgi
from harness_site.serving.asgi_types import Message, Receive, Scope, Send


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/health/", "health"),
        ("/api/v1/sessions/s/heartbeat", "heartbeat"),
        ("/harness/api/v1/sessions/s/heartbeat", "heartbeat"),
        ("/api/v1/sessions/heartbeat/versions", "others"),
        ("/sessions/1/heartbeat", "others"),
    ],
)
def test_threads_of_a_request(monkeypatch: pytest.MonkeyPatch, path: str, expected: str) -> None:
    used = []
    for name, attribute in (("health", "_health_thread"), ("heartbeat", "_heartbeats"), ("others", "_threads")):

        async def answer(scope: Scope, receive: Receive, send: Send, name: str = name) -> None:
            used.append(name)

        monkeypatch.setattr(asgi, attribute, answer)

    async def nothing(*message: Message) -> Any:
        raise AssertionError("Nothing is read and nothing is sent.")

    root = "/harness" if path.startswith("/harness") else ""
    asyncio.run(asgi._route_request_to_thread_pool({"type": "http", "path": path, "root_path": root}, nothing, nothing))
    assert used == [expected]
