"""Client address, protected against forged `X-Forwarded-For` headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness_site.serving.asgi_types import Application, Receive, Scope, Send

#: Address of this machine: uvicorn by default trusts headers of local peers only.
_LOOPBACK: Final = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class ClientAddressMiddleware:
    """ASGI middleware that undoes uvicorn's use of `X-Forwarded-For` if no proxy is in front of the site.

    By default uvicorn replaces the address of a local client by one from that header, which anybody can write. Login
    attempts are counted by address, so such a client would never be throttled.
    """

    application: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "lifespan"
            and scope.get("client")
            and scope["client"][0] in _get_forwarded_for_header(scope)
        ):
            scope = {**scope, "client": _LOOPBACK}
        await self.application(scope, receive, send)


def _get_forwarded_for_header(scope: Scope) -> str:
    """Return the text of the header, which contains whatever uvicorn took as the address."""
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
