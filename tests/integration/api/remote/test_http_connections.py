"""Connections of the HTTP client: kept open, verified, and through a proxy."""

from __future__ import annotations

import gzip
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkpoints.exceptions import InvalidInput
from checkpoints.remote.http_connections import AnswerLost, HttpConnections, Response
from tests.support.certificate_authority import Authority
from tests.support.processes import wait_until


class ScriptedServer:
    """Server that answers each request with the next of its answers, and closes the connection where one is empty."""

    def __init__(self, answers: list[bytes], certificate: Path | None = None) -> None:
        self._answers, self._context = answers, None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        #: Heads of the requests, each with the number of its connection.
        self.received: list[tuple[int, str]] = []
        #: Number of connections that have ended.
        self.closed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with self._context.wrap_socket(connection, server_side=True) if self._context else connection as wrapped:
                while data := _read_request(wrapped):
                    self.received.append((number, data))
                    answer = self._answers.pop(0)
                    if not answer:
                        return
                    wrapped.sendall(answer)
        except OSError:  # the client does not trust the certificate, or has left
            connection.close()
        self.closed += 1


def _read_request(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (chunk := connection.recv(65_536)):
            return ""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while sizes and len(body) < int(sizes[0]):
        body += connection.recv(65_536)
    return (head + b"\r\n\r\n" + body).decode()


def build_answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


StartServer = Callable[..., ScriptedServer]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    started: list[ScriptedServer] = []

    def start(*answers: bytes, certificate: Path | None = None) -> ScriptedServer:
        started.append(ScriptedServer(list(answers), certificate))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(autouse=True)
def _environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def send(connections: HttpConnections, method: str = "GET", target: str = "/x", body: bytes = b"") -> Response:
    return connections.send_once_and_read_response(
        method, target, {"Idempotency-Key": "k"}, body, seconds=10, connect_seconds=10
    )


def test_connection_is_used_again(start_server: StartServer) -> None:
    server = start_server(build_answer(b'{"a":1}', ETag='"7"'), build_answer(b"{}"))
    connections = HttpConnections(f"http://127.0.0.1:{server.port}/root/", "/api/v1", {"Authorization": "Bearer x"})
    first = send(connections, target="/x?y=%20")
    assert (first.status, first.headers["etag"], first.parse_json()) == (200, '"7"', {"a": 1})
    send(connections, "POST", body=b'{"b":2}')
    connections.close()
    assert [number for number, _ in server.received] == [1, 1]
    lines = [request.split("\r\n") for _, request in server.received]
    assert [line[0] for line in lines] == ["GET /root/api/v1/x?y=%20 HTTP/1.1", "POST /root/api/v1/x HTTP/1.1"]
    assert lines[0][1:4] == [f"Host: 127.0.0.1:{server.port}", "Authorization: Bearer x", "Idempotency-Key: k"]
    assert (lines[1][4:], connections.base_url) == (
        ["Content-Length: 7", "", '{"b":2}'],
        f"http://127.0.0.1:{server.port}/root/api/v1",
    )


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_headers_and_body_are_sent_together(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    server, sent, sendall = start_server(*[build_answer(b"{}")] * 2), [], socket.socket.sendall

    def record(connection: socket.socket, data: bytes) -> None:
        sent.append(data)
        sendall(connection, data)

    monkeypatch.setattr(socket.socket, "sendall", record)
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    for _ in range(2):
        assert send(connections, "POST", body=b"x" * size).status == 200
    connections.close()
    requests = [data for data in sent if not data.startswith(b"HTTP/1.1 ")]
    assert len(requests) == 2
    assert all(data.startswith(b"POST /x HTTP/1.1\r\n") and data.endswith(b"x" * size) for data in requests)


def test_another_process_opens_connections_of_its_own(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(*[build_answer(b"{}")] * 3)
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    send(connections)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        send(connections)
        connections.close()
    send(connections)
    connections.close()
    assert [number for number, _ in server.received] == [1, 2, 1]


def test_connection_that_the_server_has_closed_is_replaced(start_server: StartServer) -> None:
    closing = build_answer(b"{}", Connection="close")
    server = start_server(closing, build_answer(b"{}"))
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    assert [send(connections).status, send(connections).status] == [200, 200]
    assert [number for number, _ in server.received] == [1, 2]
    connections.close()


def test_compressed_answer_is_read(start_server: StartServer) -> None:
    packed = {"Content-Encoding": "gzip"}
    server = start_server(build_answer(gzip.compress(b"[1]"), **packed), build_answer(b"no gzip", **packed))
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    assert send(connections).parse_json() == [1]
    with pytest.raises(AnswerLost) as lost:
        send(connections)
    assert lost.value.is_sent
    connections.close()


def test_lost_answers_say_whether_the_request_was_sent(start_server: StartServer) -> None:
    server = start_server(b"", build_answer(b"no", "502 Bad Gateway"), build_answer(b"no", "503 Service Unavailable"))
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    for text in ("RemoteDisconnected", "a proxy answered 502", "a proxy answered 503"):
        with pytest.raises(AnswerLost, match=text) as lost:
            send(connections, "POST", body=b"{}")
        assert lost.value.is_sent
    server.close()
    connections.close()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    refused = HttpConnections(f"http://127.0.0.1:{port}", "", {})
    with pytest.raises(AnswerLost, match="ConnectionRefusedError") as lost:
        send(refused, "POST", body=b"{}")
    assert not lost.value.is_sent


def test_slow_answer_is_lost(start_server: StartServer) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    connections = HttpConnections(f"http://127.0.0.1:{silent.getsockname()[1]}", "", {})
    with pytest.raises(AnswerLost, match="TimeoutError"):
        connections.send_once_and_read_response("GET", "/x", {}, b"", seconds=0.05, connect_seconds=10)
    silent.close()


def test_problem_with_503_is_an_answer(start_server: StartServer) -> None:
    problem = {"Content-Type": "application/problem+json", "Retry-After": "1"}
    server = start_server(build_answer(b"{}", "503 Service Unavailable", **problem))
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    response = send(connections)
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    connections.close()


@pytest.mark.parametrize("trusted", [True, False])
def test_certificate_is_verified(
    trusted: bool, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority")
    server = start_server(build_answer(b"{}"), certificate=authority.certificate("localhost"))
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
    else:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    connections = HttpConnections(f"https://localhost:{server.port}", "", {})
    if trusted:
        assert send(connections).status == 200
    else:
        with pytest.raises(AnswerLost, match="CERTIFICATE_VERIFY_FAILED") as lost:
            send(connections)
        assert not lost.value.is_sent
    connections.close()


def test_proxy_of_the_environment_is_used(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = start_server(build_answer(b"[1]"), build_answer(b"no", "403 Forbidden"))
    monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{proxy.port}")
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    connections = HttpConnections("http://harness.example", "/api/v1", {})
    assert send(connections).parse_json() == [1]
    connections.close()
    tunnel = HttpConnections("https://harness.example", "/api/v1", {})
    with pytest.raises(AnswerLost, match="Tunnel connection failed: 403 Forbidden") as lost:
        send(tunnel)
    assert not lost.value.is_sent
    wait_until(lambda: proxy.closed == 2)  # also while something keeps the error
    requests = [request for _, request in proxy.received]
    assert requests[0].startswith("GET http://harness.example/api/v1/x HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=" in requests[0]
    assert requests[1].startswith("CONNECT harness.example:443 HTTP/1.")  # its version depends on that of Python


def test_tunnel_of_a_proxy_ends_at_the_server(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority")
    server = start_server(build_answer(b"[1]"), certificate=authority.certificate("localhost"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"user:secret@127.0.0.1:{proxy.getsockname()[1]}")
        heads: list[str] = []
        threading.Thread(target=_serve_tunnel, args=(proxy, server.port, heads), daemon=True).start()
        connections = HttpConnections(f"https://localhost:{server.port}", "/api/v1", {})
        assert send(connections).parse_json() == [1]
        connections.close()
    assert heads[0].startswith(f"CONNECT localhost:{server.port} HTTP/1.")
    assert "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=" in heads[0]
    assert [request.splitlines()[0] for _, request in server.received] == ["GET /api/v1/x HTTP/1.1"]
    assert "Proxy-Authorization" not in server.received[0][1]


def _serve_tunnel(proxy: socket.socket, port: int, heads: list[str]) -> None:
    client, _ = proxy.accept()
    heads.append(_read_request(client))
    server = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    threading.Thread(target=_copy, args=(server, client), daemon=True).start()
    _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(65_536):
        target.sendall(data)


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:9", "https://127.0.0.1:9"])
def test_proxy_of_another_kind_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", url)
    with pytest.raises(InvalidInput, match="only http is possible"):
        HttpConnections("https://harness.example", "", {})


def test_closed_client_keeps_no_connection(start_server: StartServer) -> None:
    server = start_server(*[build_answer(b"{}")] * 2)
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    send(connections)
    connections.close()
    send(connections)
    assert [number for number, _ in server.received] == [1, 2]
    wait_until(lambda: server.closed == 2)


def test_host_that_the_environment_excludes_is_asked_directly(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(build_answer(b"[1]"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    connections = HttpConnections(f"http://127.0.0.1:{server.port}", "", {})
    assert send(connections).parse_json() == [1]
    connections.close()


@pytest.mark.parametrize("url", ["https://", "agent.db", "https://[::1"])
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        HttpConnections(url, "/api/v1", {})


@pytest.mark.parametrize("token", ["t\r\nHost: elsewhere", "tökén"])
def test_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="with this token"):
        HttpConnections("http://127.0.0.1", "/api/v1", {"Authorization": f"Bearer {token}"})
