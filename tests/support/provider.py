"""An OpenID Connect provider on a port of this machine: it lets everybody in as who the test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt

CLIENT = "harness-test"


class Provider:
    """`person` are the claims of whoever signs in next; `asked` are the forms that the token endpoint got."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "erin", "email": "erin@example.com"}
        self.asked: list[dict[str, list[str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, form: dict[str, list[str]]) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.address,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/token",
                "userinfo_endpoint": f"{self.address}/userinfo",
                "jwks_uri": f"{self.address}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        if path == "/token":
            self.asked.append(form)
            now = int(time.time())
            claims = {"iss": self.address, "aud": CLIENT, "iat": now, "exp": now + 60, **self.person}
            # The site got this token from the provider itself, so nothing depends on its signature.
            return {"access_token": "a", "token_type": "Bearer", "id_token": jwt.encode(claims, "k" * 32)}
        return self.person

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                self._reply(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))

            def _reply(self, form: dict[str, list[str]]) -> None:
                body = json.dumps(provider.answer(self.path.partition("?")[0], form)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing to tell."""

        return Handler


@contextmanager
def provider() -> Iterator[Provider]:
    running = Provider()
    serving = threading.Thread(target=running.run)
    serving.start()
    try:
        yield running
    finally:
        running.stop()
        serving.join()
