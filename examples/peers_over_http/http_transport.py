"""HTTP between the agents: small JSON messages, each of which may be lost, duplicated or delayed."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

PORTS = {"desk": 8101, "stock": 8102, "courier": 8103}
TIMEOUT_SECONDS = 10.0  # maximum duration of a message

Message = dict[str, Any]
Handler = Callable[[Message], Message]


class HttpTransport:
    """HTTP client and server of one agent.

    `key` is a secret shared by all agents: an answer carries a token derived from it and the call's id, so that nobody
    else can answer, and no token has to be stored.
    """

    def __init__(self, agent: str, ports: Mapping[str, int], key: str) -> None:
        self.agent = agent
        self._ports = ports
        self._key = key.encode()

    def derive_answer_token(self, call_id: str) -> str:
        return hmac.new(self._key, call_id.encode(), hashlib.sha256).hexdigest()

    def knows_agent(self, agent: str) -> bool:
        """Return True if the address of that agent is known."""
        return agent in self._ports

    def send_message(self, agent: str, path: str, message: Message) -> Message:
        """Post a message and return the answer. Raises `OSError` if the other agent did not accept it."""
        request = Request(
            f"http://127.0.0.1:{self._ports[agent]}{path}",
            data=json.dumps({**message, "from": self.agent}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - the address is ours
                answer: Message = json.load(response)
        except (HTTPException, ValueError) as error:  # the agent died while it answered
            raise ConnectionError(f"{agent} gave half an answer") from error
        return answer

    def start_server(self, handlers: Mapping[str, Handler]) -> ThreadingHTTPServer:
        """Handle messages from now on, each path by its handler, on background threads."""
        server = ThreadingHTTPServer(("127.0.0.1", self._ports[self.agent]), _create_handler_class(handlers))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def _create_handler_class(handlers: Mapping[str, Handler]) -> type[BaseHTTPRequestHandler]:
    class MessageHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = HTTPStatus.OK, handlers[self.path](message)
            except Exception as error:  # not accepted: the sender tries again
                status, answer = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return MessageHandler
