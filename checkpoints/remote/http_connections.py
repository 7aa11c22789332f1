"""Connections of a client to one server: kept open, verified, and through the proxy that the environment names.

`httpx` reads the address, the certificates and the proxy. A request itself is one piece of text and its answer is
read by `http.client`: a client of `httpx` takes several times as long for cookies, redirects and models of URLs and
headers, which the API does not need, and sends the headers and the body separately, for which the server wakes twice.
"""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import os
import select
import socket
import time
import traceback
import urllib.request
import zlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from threading import BoundedSemaphore
from typing import Any, Final

from checkpoints.exceptions import HttpClientMissing, InvalidInput

#: Connections to the server at most, and seconds for which one without a request stays open.
MAX_CONNECTIONS: Final = 50
IDLE_SECONDS: Final = 10.0
#: Answers of a proxy that did not reach the server, unless they are problem documents.
_GATEWAY_STATUSES: Final = frozenset({502, 503, 504})
_PROBLEM: Final = "application/problem+json"


class AnswerLost(Exception):
    """Failure of a connection. `is_sent` is False if the server cannot have received the request."""

    def __init__(self, text: str, *, is_sent: bool) -> None:
        self.is_sent = is_sent
        super().__init__(text)


@dataclass(frozen=True)
class Response:
    """Answer as it was received, decompressed. Names of headers have no case."""

    status: int
    headers: HTTPMessage
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def parse_json(self) -> Any:
        """Parse the content. Raises `ValueError`."""
        return json.loads(self.content)


class HttpConnections:
    """Pool of connections to one server. Safe to use from many threads.

    Args:
        url: Address of the server; its path comes before those of requests.
        path: Path of the API, after that of the address.
        headers: Headers of every request.

    Raises:
        HttpClientMissing: `httpx` is not installed.
        InvalidInput: `url` is no address of a server, or the proxy cannot be used.
    """

    def __init__(self, url: str, path: str, headers: Mapping[str, str]) -> None:
        try:
            httpx: Any = importlib.import_module("httpx")
        except ImportError as error:
            raise HttpClientMissing(url) from error
        try:
            address = httpx.URL(url)
            server = address.raw_host.decode("ascii")
            lines = [f"Host: {address.netloc.decode('ascii')}", *_format_header_lines(headers)]
        except (UnicodeEncodeError, ValueError, httpx.InvalidURL) as error:
            raise InvalidInput(f"{url!r} with this token is no address of a server: {error}") from None
        if not server:
            raise InvalidInput(f"{url!r} names no server.")
        #: Address of the API.
        self.base_url = f"{str(address).rstrip('/')}{path}"
        is_secure = address.scheme == "https"
        base_path = address.raw_path.partition(b"?")[0].rstrip(b"/").decode("ascii") + path
        self._server = server, address.port or (443 if is_secure else 80)
        # The certificates are those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
        self._context = httpx.create_ssl_context() if is_secure else None
        self._proxy = _find_proxy(httpx, address.scheme, address.host)
        if self._proxy is not None and not is_secure:
            base_path = f"http://{address.netloc.decode('ascii')}{base_path}"
            lines += _format_header_lines(self._proxy.headers)
        self._base_target, self._header_lines = base_path, lines
        #: Pool of each process that has used this object. A forked process keeps the pool of its parent, unused:
        #: two processes that read from one connection get each other's answers, and closing it would end both.
        self._pools: dict[int, _Pool] = {}

    def close(self) -> None:
        """Close the connections of this process."""
        if (pool := self._pools.get(os.getpid())) is not None:
            pool.close()

    def _get_or_create_pool_of_this_process(self) -> _Pool:
        """Return the pool of this process, which is made at its first request."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(os.getpid(), _Pool())
        return pool

    def send_once_and_read_response(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        seconds: float,
        connect_seconds: float,
    ) -> Response:
        """Send a request once, and read its answer.

        Args:
            method: Method of HTTP.
            target: Path below the API and query, both escaped.
            headers: Headers of this request.
            body: Body, as it is sent.
            seconds: Longest wait for a part of the answer.
            connect_seconds: Longest wait for a connection.

        Raises:
            AnswerLost: No answer came.
        """
        lines = [f"{method} {self._base_target}{target} HTTP/1.1", *self._header_lines, *_format_header_lines(headers)]
        if body or method != "GET":
            lines.append(f"Content-Length: {len(body)}")
        request = "\r\n".join([*lines, "", ""]).encode("ascii") + body
        pool = self._get_or_create_pool_of_this_process()
        if not pool.places.acquire(timeout=seconds):
            raise AnswerLost(f"{MAX_CONNECTIONS} requests wait for their answers", is_sent=False)
        try:
            connection = pool.take_idle_connection() or self._connect(connect_seconds)
            try:
                response, content = _send_and_read_response(connection, method, request, seconds)
            except (OSError, HTTPException) as error:
                connection.close()
                raise AnswerLost(f"{type(error).__name__}: {error}", is_sent=True) from error
            if response.will_close:
                connection.close()
            else:
                pool.keep_idle_connection(connection)
        finally:
            pool.places.release()
        return _decompress_and_build_response(response.status, response.headers, content)

    def _connect(self, seconds: float) -> socket.socket:
        """Open a connection to the server, through the proxy if there is one. Raises `AnswerLost`."""
        host, port = self._server if self._proxy is None else self._proxy.address
        if self._context is None:
            connection = HTTPConnection(host, port, timeout=seconds)
        else:
            connection = HTTPSConnection(host, port, timeout=seconds, context=self._context)
            if self._proxy is not None:
                connection.set_tunnel(*self._server, headers=self._proxy.headers)
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            traceback.clear_frames(error.__traceback__)  # in Python 3.11.2, they keep a refused socket open
            raise AnswerLost(f"{type(error).__name__}: {error}", is_sent=False) from error
        return connection.sock


class _Pool:
    """Connections of one process. Each method is atomic, as those of a `deque` are."""

    def __init__(self) -> None:
        #: One for each request that may be on its way.
        self.places = BoundedSemaphore(MAX_CONNECTIONS)
        self._is_closed = False
        #: Connections without a request and the times since when, the newest last.
        self._idle: deque[tuple[socket.socket, float]] = deque()

    def take_idle_connection(self) -> socket.socket | None:
        """Take the connection that was used last; None if there is none that is usable."""
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < IDLE_SECONDS and not _is_closed_or_has_unread_data(connection):
                return connection
            connection.close()

    def keep_idle_connection(self, connection: socket.socket) -> None:
        """Keep a connection whose answer was read."""
        self._idle.append((connection, time.monotonic()))
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close the connections that have no request, and the others after their answers."""
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()


def _is_closed_or_has_unread_data(connection: socket.socket) -> bool:
    """Return True if something has arrived, which between two requests is the end of the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _send_and_read_response(
    connection: socket.socket, method: str, request: bytes, seconds: float
) -> tuple[HTTPResponse, bytes]:
    """Send a request and read its answer. Raises `OSError`, `HTTPException`."""
    connection.settimeout(seconds)
    with suppress(ConnectionError):  # the server may have answered before it closed
        connection.sendall(request)
    with HTTPResponse(connection, method=method) as response:
        response.begin()
        return response, response.read()


def _format_header_lines(headers: Mapping[str, str]) -> list[str]:
    """Format headers as lines. Raises `ValueError` for text that would be another line, or is not ASCII."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    for line in lines:
        if not line.isascii() or not line.isprintable():
            raise ValueError("a header has characters other than those of ASCII")
    return lines


def _decompress_and_build_response(status: int, headers: HTTPMessage, content: bytes) -> Response:
    if headers.get("content-encoding") == "gzip":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise AnswerLost(f"the answer is no gzip data: {error}", is_sent=True) from error
    if status in _GATEWAY_STATUSES and headers.get("content-type") != _PROBLEM:
        raise AnswerLost(f"a proxy answered {status}", is_sent=True)
    return Response(status, headers, content)


@dataclass(frozen=True)
class _Proxy:
    """Proxy between this process and the server."""

    address: tuple[str, int]
    #: Headers for the proxy.
    headers: Mapping[str, str]


def _find_proxy(httpx: Any, scheme: str, host: str) -> _Proxy | None:
    """Find the proxy that the environment names for a server. Raises `InvalidInput`."""
    if urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    url = proxies.get(scheme) or proxies.get("all")
    if not url:
        return None
    proxy = httpx.URL(url if "://" in url else f"http://{url}")
    if proxy.scheme != "http":
        raise InvalidInput(f"The proxy of the environment has the scheme {proxy.scheme!r}; only http is possible.")
    headers = {}
    if proxy.userinfo:
        login = f"{proxy.username}:{proxy.password}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    return _Proxy((proxy.raw_host.decode("ascii"), proxy.port or 80), headers)
