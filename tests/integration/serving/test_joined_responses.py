"""Packets of a response: its headers are sent with its body, unless the body is a stream."""

from __future__ import annotations

import h11
import pytest

from harness_site.serving.limited_http_connection import ResponseJoiner


@pytest.fixture
def connection() -> ResponseJoiner:
    joiner = ResponseJoiner(1_024)
    joiner.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert isinstance(joiner.next_event(), h11.Request)
    joiner.next_event()
    return joiner


def test_headers_are_sent_with_a_body_of_known_length(connection: ResponseJoiner) -> None:
    assert connection.send(h11.Response(status_code=200, headers=[("Content-Length", "4")])) == b""
    first = connection.send(h11.Data(data=b"ok"))
    assert first.startswith(b"HTTP/1.1 200 ")
    assert first.endswith(b"\r\n\r\nok")
    assert (connection.send(h11.Data(data=b"ay")), connection.send(h11.EndOfMessage())) == (b"ay", b"")


def test_headers_of_a_response_without_a_body_are_sent(connection: ResponseJoiner) -> None:
    connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
    assert connection.send(h11.EndOfMessage()).startswith(b"HTTP/1.1 404 ")


def test_headers_of_a_stream_do_not_wait(connection: ResponseJoiner) -> None:
    head = connection.send(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")]))
    assert head.startswith(b"HTTP/1.1 200 ")
    assert connection.send(h11.Data(data=b"ok")) == b"2\r\nok\r\n"
