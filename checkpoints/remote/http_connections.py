"""Connections of a client to one server: kept open, verified, and through the proxy that the environment names.

`httpcore` is what sends the requests of `httpx`. A client of `httpx` takes twice the time of a request for cookies,
redirects and models of URLs and headers, which the API does not need.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import urllib.request
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from checkpoints.exceptions import DriverMissing, InvalidInput

#: Connections to the server at most, and seconds for which one without a request stays open.
MAX_CONNECTIONS: Final = 50
IDLE_SECONDS: Final = 10.0
#: Bytes of a request that are sent together: its headers, and its body if it is not larger.
_SENT_TOGETHER: Final = 65_536
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
    """Answer as it was received, decompressed. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
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
        DriverMissing: `httpx` is not installed.
        InvalidInput: `url` is no address of a server.
    """

    def __init__(self, url: str, path: str, headers: Mapping[str, str]) -> None:
        try:
            httpx: Any = importlib.import_module("httpx")
        except ImportError as error:
            raise DriverMissing(url, "httpx is not installed; pip install 'harness-checkpoints[remote]'") from error
        self._httpcore: Any = importlib.import_module("httpcore")
        try:
            address = httpx.URL(url)
            fixed = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        except (UnicodeEncodeError, httpx.InvalidURL) as error:
            raise InvalidInput(f"{url!r} with this token is no address of a server: {error}") from None
        if not address.host:
            raise InvalidInput(f"{url!r} names no server.")
        #: Address of the API.
        self.base_url = f"{str(address).rstrip('/')}{path}"
        self._origin = {"scheme": address.raw_scheme, "host": address.raw_host, "port": address.port}
        self._base_path = address.raw_path.partition(b"?")[0].rstrip(b"/") + path.encode("ascii")
        self._headers = [(b"Host", address.netloc), *fixed]
        core = self._httpcore
        self._failures = (
            core.TimeoutException,
            core.NetworkError,
            core.ProtocolError,
            core.ProxyError,
            core.UnsupportedProtocol,
        )
        self._failures_before_sending = (core.ConnectError, core.ConnectTimeout, core.PoolTimeout)
        context = httpx.create_ssl_context()  # as `SSL_CERT_FILE` and `SSL_CERT_DIR` say
        self._pool_options = {
            "ssl_context": context,
            "proxy": _build_httpcore_proxy(httpx, core, _find_proxy(address.scheme, address.host), context),
            "max_connections": MAX_CONNECTIONS,
            "max_keepalive_connections": MAX_CONNECTIONS,
            "keepalive_expiry": IDLE_SECONDS,
            "network_backend": _RequestBackend(core.SyncBackend(), core.WriteError),
        }
        #: Pool of each process that has used this object. A forked process keeps the pool of its parent, unused:
        #: two processes that read from one connection get each other's answers, and closing it would end both.
        self._pools: dict[int, Any] = {}

    def close(self) -> None:
        """Close the connections of this process."""
        if (pool := self._pools.get(os.getpid())) is not None:
            pool.close()

    def _get_pool(self) -> Any:
        """Return the pool of this process, which is made at its first request."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(os.getpid(), self._httpcore.ConnectionPool(**self._pool_options))
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
        all_headers = [*self._headers, *((name.encode(), value.encode()) for name, value in headers.items())]
        if body or method != "GET":
            all_headers.append((b"Content-Length", b"%d" % len(body)))
        request = self._httpcore.Request(
            method,
            self._httpcore.URL(**self._origin, target=self._base_path + target.encode("ascii")),
            headers=all_headers,
            content=body,
            extensions={
                "timeout": {"connect": connect_seconds, "pool": seconds, "read": seconds, "write": seconds},
            },
        )
        try:
            received = self._get_pool().handle_request(request)
            try:
                content = received.read()
            finally:
                received.close()
        except self._failures as error:
            is_sent = not isinstance(error, self._failures_before_sending)
            raise AnswerLost(f"{type(error).__name__}: {error}", is_sent=is_sent) from error
        return _read_response(received.status, received.headers, content)


class _RequestBackend:
    """Network backend of `httpcore` whose connections send the headers of a request together with its body."""

    def __init__(self, backend: Any, write_error: type[Exception]) -> None:
        self._backend, self._write_error = backend, write_error

    def connect_tcp(self, *args: Any, **kwargs: Any) -> _RequestStream:
        return _RequestStream(self._backend.connect_tcp(*args, **kwargs), self._write_error)


class _RequestStream:
    """Network stream of `httpcore` that sends what was written when the answer is read.

    `httpcore` writes the headers and the body separately, and a server that gets two packets wakes twice.
    """

    def __init__(self, stream: Any, write_error: type[Exception]) -> None:
        self._stream, self._write_error = stream, write_error
        self._unsent = b""
        self._write_seconds: float | None = None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer
        self._write_seconds = timeout
        if len(self._unsent) > _SENT_TOGETHER:
            self._send()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._unsent:
            with suppress(self._write_error):  # the server may have answered before it closed, as `httpcore` expects
                self._send()
        answer: bytes = self._stream.read(max_bytes, timeout)
        return answer

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        self._stream.write(unsent, self._write_seconds)

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **kwargs: Any) -> _RequestStream:
        return _RequestStream(self._stream.start_tls(*args, **kwargs), self._write_error)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _read_response(status: int, raw_headers: list[tuple[bytes, bytes]], content: bytes) -> Response:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw_headers}
    if headers.get("content-encoding") == "gzip":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise AnswerLost(f"the answer is no gzip data: {error}", is_sent=True) from error
    if status in _GATEWAY_STATUSES and headers.get("content-type") != _PROBLEM:
        raise AnswerLost(f"a proxy answered {status}", is_sent=True)
    return Response(status, headers, content)


def _find_proxy(scheme: str, host: str) -> str | None:
    """Find the proxy that the environment names for a server."""
    if urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all")


def _build_httpcore_proxy(httpx: Any, httpcore: Any, url: str | None, context: Any) -> Any:
    if url is None:
        return None
    proxy = httpx.Proxy(url)
    return httpcore.Proxy(
        httpcore.URL(proxy.url.raw_scheme + b"://" + proxy.url.netloc),
        auth=proxy.raw_auth,
        ssl_context=context if proxy.url.scheme == "https" else None,
    )
