"""Browser's end of the site's websocket, connected directly over ASGI."""

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

#: Seconds to wait for an answer, on a busy machine as well.
PATIENCE = 20


class Browser:
    """Client of an ASGI application; `connect` returns True if the connection was accepted."""

    def __init__(self, application: Any, path: str, *, query: str = "", headers: dict[str, str]) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [],
        }
        communicator: Any = ApplicationCommunicator  # untyped
        self._wire = communicator(application, scope)

    async def connect(self) -> bool:
        await self._wire.send_input({"type": "websocket.connect"})
        answer: dict[str, Any] = await self._wire.receive_output(timeout=PATIENCE)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, text: str) -> None:
        await self._wire.send_input({"type": "websocket.receive", "text": text})

    async def hears(self) -> Any:
        """Return the next message, or the code with which the socket was closed."""
        answer: dict[str, Any] = await self._wire.receive_output(timeout=PATIENCE)
        return answer["code"] if answer["type"] == "websocket.close" else json.loads(answer["text"])

    async def hears_nothing(self) -> bool:
        return bool(await self._wire.receive_nothing())

    async def leave(self) -> None:
        await self._wire.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._wire.wait()
