import asyncio
import logging
from typing import Any

import pytest
import uvicorn
from pytest_django.fixtures import Settings
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES
from uvicorn.server import ServerState

from harness_site.serving.limited_http_connection import LimitedConnection


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def request(path: str, forwarded: str) -> None:
    connection = LimitedConnection(uvicorn.Config(answer, log_config=None), ServerState(), {})
    server = await asyncio.get_running_loop().create_server(lambda: connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{forwarded}\r\n".encode())
    assert STATUS_PHRASES[200] in await reader.read()
    writer.close()
    server.close()


@pytest.mark.parametrize("is_behind_proxy", [True, False])
def test_log_names_the_client_and_no_static_files(
    settings: Settings, caplog: pytest.LogCaptureFixture, is_behind_proxy: bool
) -> None:
    settings.BEHIND_PROXY = is_behind_proxy
    caplog.set_level(logging.INFO, "uvicorn.access")
    forwarded = "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n"
    for path, headers in ((f"{settings.STATIC_URL}css/page.css", ""), ("/review/?tab=decided", forwarded), ("/", "")):
        asyncio.run(request(path, headers))
    clients, lines = zip(*(message.split(" - ") for message in caplog.messages), strict=True)
    assert lines == ('"GET /review/?tab=decided HTTP/1.1" 200', '"GET / HTTP/1.1" 200')
    assert (clients[0] == "203.0.113.9") is is_behind_proxy
    assert clients[1].startswith("127.0.0.1:")
