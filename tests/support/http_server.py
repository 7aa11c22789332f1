"""Server of the site in a thread of this process, on the database of the tests."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn

from harness_site.serving.limited_http_connection import LimitedConnection


class HttpServer:
    """Server on a free port of this machine."""

    def __init__(self) -> None:
        from harness_site.asgi import direct_application

        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        http: Any = LimitedConnection
        config = uvicorn.Config(direct_application, http=http, lifespan="off", log_level="critical", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
