"""OpenID Connect provider on a local port that signs in everybody as the person set by the test.

It checks what the protocol requires: a code is for one client and one redirect URI, is used once, and only with the
PKCE verifier of its request.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode

import jwt

from tests.support.processes import send_to_parent

CLIENT = "harness-test"
SECRET = "s"
_ACCESS = "the access token"


class Provider:
    """Provider with the claims `person` of the next sign-in.

    `asked` are the forms received by the token endpoint, `visited` all requested paths.
    """

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "erin", "email": "erin@example.com"}
        self.asked: list[dict[str, list[str]]] = []
        self.visited: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._create_handler_class())

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def sent_back(self, asked: dict[str, str]) -> str:
        """Return the URL to which a browser is sent back; everybody is accepted."""
        code = secrets.token_urlsafe(12)
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def answer(self, path: str, form: dict[str, list[str]], access: str) -> dict[str, Any] | None:
        """Return the JSON answer of an endpoint, or None for a refusal."""
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
            if not self._redeem_authorization_code({name: values[0] for name, values in form.items()}):
                return None
            now = int(time.time())
            claims = {"iss": self.address, "aud": CLIENT, "iat": now, "exp": now + 60, **self.person}
            # The site gets this token directly from the provider, so its signature does not matter.
            return {"access_token": _ACCESS, "token_type": "Bearer", "id_token": jwt.encode(claims, "k" * 32)}
        return self.person if path == "/userinfo" and access == f"Bearer {_ACCESS}" else None

    def _redeem_authorization_code(self, form: dict[str, str]) -> bool:
        authorization = self._codes.pop(form.get("code", ""), None)
        if authorization is None or authorization["code_challenge_method"] != "S256":
            return False
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(verifier).decode().rstrip("=")
        actual = (form.get("client_id"), form.get("redirect_uri"), challenge)
        expected = (authorization["client_id"], authorization["redirect_uri"], authorization["code_challenge"])
        return actual == expected and form.get("client_secret") == SECRET

    def _create_handler_class(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path == "/authorize":
                    provider.visited.append(path)
                    parameters = {name: values[0] for name, values in parse_qs(query).items()}
                    self.send_response(302)
                    self.send_header("Location", provider.sent_back(parameters))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self._reply({})

            def do_POST(self) -> None:
                self._reply(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))

            def _reply(self, form: dict[str, list[str]]) -> None:
                path = self.path.partition("?")[0]
                provider.visited.append(path)
                answer = provider.answer(path, form, self.headers.get("Authorization", ""))
                body = json.dumps(answer or {"error": "invalid_grant"}).encode()
                self.send_response(400 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


@contextmanager
def run_provider() -> Iterator[Provider]:
    instance = Provider()
    thread = threading.Thread(target=instance.run)
    thread.start()
    try:
        yield instance
    finally:
        instance.stop()
        thread.join()


def serve_provider_in_child() -> None:
    """Run a provider as a process of `tests.support.processes.Child`."""
    instance = Provider()
    send_to_parent("listening", instance.port)
    instance.run()
