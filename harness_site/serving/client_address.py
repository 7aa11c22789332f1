"""The address of the client, whatever a server in front of this application was told about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness_site.serving.types import Application, Receive, Scope, Send

#: The peers whose headers uvicorn trusts unless it is told otherwise are on this machine.
_LOOPBACK: Final = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """ASGI middleware that undoes what uvicorn took from `X-Forwarded-For` where no proxy is in front of the site.

    By default uvicorn replaces the address of a client on the same machine by one from that header, which anybody can
    write. Attempts to sign in are counted by address, so such a client would never be stopped.
    """

    application: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and scope.get("client") and scope["client"][0] in _forwarded_for(scope):
            scope = {**scope, "client": _LOOPBACK}
        await self.application(scope, receive, send)


def _forwarded_for(scope: Scope) -> str:
    """The text of the header; whatever uvicorn took as the address is a part of it."""
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
