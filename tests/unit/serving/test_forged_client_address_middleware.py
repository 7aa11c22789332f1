"""Client address behind uvicorn's proxy middleware, which is enabled by default."""

import asyncio
from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from harness_site.serving.asgi_types import Message, Receive, Scope, Send
from harness_site.serving.forged_client_address_middleware import ClientAddressMiddleware


def address_of(client: str, *forwarded: str) -> str:
    """Return the client address that the application gets for a request with the given headers."""
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"][0])

    async def nothing(*message: Message) -> Any:
        raise AssertionError("Nothing is sent or received here.")

    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    server: Any = ProxyHeadersMiddleware(ClientAddressMiddleware(application), trusted_hosts="127.0.0.1,::1")  # type: ignore[arg-type]
    asyncio.run(server({"type": "http", "client": (client, 50000), "headers": headers}, nothing, nothing))
    return seen[0]


@pytest.mark.parametrize(
    "forwarded",
    [
        ["203.0.113.9"],
        ["203.0.113.9:4711"],
        ["203.0.113.9, 127.0.0.1"],
        ["198.51.100.1", "203.0.113.9"],
        ["2001:db8::1"],
        ["[2001:db8::1]:4711"],
        ["not an address"],
    ],
)
def test_local_client_cannot_choose_its_address(forwarded: list[str]) -> None:
    assert address_of("127.0.0.1", *forwarded) == "127.0.0.1"


def test_remote_client_has_its_own_address() -> None:
    assert address_of("203.0.113.9") == "203.0.113.9"
    assert address_of("203.0.113.9", "198.51.100.1") == "203.0.113.9"
    assert address_of("127.0.0.1") == "127.0.0.1"
