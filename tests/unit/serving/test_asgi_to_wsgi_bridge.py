"""Requests answered in threads, spoken to in ASGI."""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest

from harness_site.serving.asgi_to_wsgi_bridge import RequestThreads, build_wsgi_environ
from harness_site.serving.asgi_types import Message
from harness_site.serving.request_body_buffering_middleware import BODY


def request(**changes: Any) -> dict[str, Any]:
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/app/page\u00e9",
        "root_path": "/app",
        "query_string": b"a=1",
        "http_version": "1.1",
        "headers": [(b"host", b"example.org"), (b"content-length", b"4"), (b"accept", b"a"), (b"Accept", b"b")],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 50000),
    }
    return {**scope, **changes}


class Application:
    """WSGI application that answers with pieces, and keeps what it was asked."""

    def __init__(self, pieces: list[bytes], length: int | None = None) -> None:
        self.pieces, self.length = pieces, length
        self.environ: dict[str, Any] = {}
        self.body, self.is_closed = b"", False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        self.environ, self.body = environ, environ["wsgi.input"].read()
        length = [] if self.length is None else [("Content-Length", str(self.length))]
        start_response("201 Created", [*length, ("Set-Cookie", " a=1")])
        return self._produce()

    def _produce(self) -> Iterator[bytes]:
        try:
            yield from self.pieces
        finally:
            self.is_closed = True


def send(application: Application, scope: dict[str, Any], *arriving: bytes) -> list[Message]:
    sent: list[Message] = []
    left = list(arriving)

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def keep(message: Message) -> None:
        sent.append(message)

    asyncio.run(RequestThreads(application, threads=1)(scope, receive, keep))
    return sent


@pytest.mark.parametrize(("pieces", "length"), [([b"body"], 4), ([b"bo", b"dy"], 4), ([b"bo", b"", b"dy"], None)])
def test_answers_whole_and_in_pieces(pieces: list[bytes], length: int | None) -> None:
    application = Application(pieces, length)
    start, *bodies = send(application, request(), b"da", b"ta")
    assert (start["status"], application.body, application.is_closed) == (201, b"data", True)
    assert start["headers"][-1] == (b"set-cookie", b"a=1")
    assert b"".join(message["body"] for message in bodies) == b"body"
    assert [message["more_body"] for message in bodies] == [True] * (len(bodies) - 1) + [False]


def test_body_that_stands_in_a_file_is_read_from_there() -> None:
    application = Application([b""], 0)
    send(application, request(**{BODY: io.BytesIO(b"file")}))
    assert application.body == b"file"


def test_error_of_the_application_is_raised() -> None:
    def fail(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        raise ValueError("no answer")

    async def nothing(*message: Message) -> Message:
        return {"type": "http.request"}

    with pytest.raises(ValueError, match="no answer"):
        asyncio.run(RequestThreads(fail, threads=1)(request(headers=[]), nothing, nothing))  # type: ignore[arg-type]


def test_environment_of_a_request() -> None:
    environ = build_wsgi_environ(request(), io.BytesIO())
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", "/page\u00e9".encode().decode("latin-1"))
    assert (environ["CONTENT_LENGTH"], environ["HTTP_HOST"], environ["HTTP_ACCEPT"]) == ("4", "example.org", "a,b")
    assert (environ["REMOTE_ADDR"], environ["SERVER_PORT"]) == ("127.0.0.1", "80")


def test_header_with_an_underscore_is_not_taken_for_one_with_a_hyphen() -> None:
    headers = [(b"x_forwarded_for", b"203.0.113.9"), (b"x-forwarded-for", b"198.51.100.1")]
    environ = build_wsgi_environ(request(headers=headers), io.BytesIO())
    assert environ["HTTP_X_FORWARDED_FOR"] == "198.51.100.1"
