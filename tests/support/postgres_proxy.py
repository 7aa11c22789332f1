"""Proxy between a client and a local PostgreSQL server that loses an answer on request."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self
from urllib.parse import urlsplit, urlunsplit

CHUNK = 65536
#: First bytes of a question: a simple query, or the first message of a prepared one.
QUESTIONS = b"QPB"


class Wire:
    """Forward every connection to the server at `url`; its own `url` is the same with another port.

    `lose_answer` selects the answer to lose: the connection breaks instead. From then on the server is unreachable
    until `mend`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), int(parts.port or 0))
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        account = parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{port}"))
        self._is_lost: Callable[[bytes], bool] = _always_false
        self._answered, self._mended = True, False
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept_connections, daemon=True)
        #: Set when an answer is lost.
        self.cut = threading.Event()

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for end in self._open:
            _shut_down_and_close(end)

    def lose_answer(self, *, to: str = "", number: int = 1, answered: bool = True, mended: bool = False) -> None:
        """Lose the answer to the `number`-th question from now that contains `to`.

        The connection breaks when the server has answered, or with `answered` False when the question was sent. With
        `mended` the next connection reaches the server again.
        """
        self.cut.clear()
        text, seen = to.encode(), 0

        def is_lost(asked: bytes) -> bool:
            nonlocal seen
            seen += asked[:1] in QUESTIONS and text in asked
            return seen == number

        self._is_lost, self._answered, self._mended = is_lost, answered, mended

    def mend(self) -> None:
        """Stop losing answers, and accept all connections."""
        self._is_lost, self._mended = _always_false, True

    def _accept_connections(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                if self.cut.is_set() and not self._mended:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._open.append(server)
                losing = threading.Event()
                threading.Thread(target=self._forward_requests, args=(client, server, losing), daemon=True).start()
                threading.Thread(target=self._forward_answers, args=(server, client, losing), daemon=True).start()

    def _forward_requests(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while request := client.recv(CHUNK):
                if self._is_lost(request):
                    self._is_lost = _always_false
                    losing.set()
                server.sendall(request)
                if losing.is_set() and not self._answered:
                    self._cut_off(client)
                    return
        _shut_down_and_close(server)

    def _forward_answers(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while response := server.recv(CHUNK):
                if losing.is_set():
                    self._cut_off(client)
                    return
                client.sendall(response)
        _shut_down_and_close(client)

    def _cut_off(self, client: socket.socket) -> None:
        self.cut.set()
        _shut_down_and_close(client)


def _always_false(_request: bytes) -> bool:
    return False


def _shut_down_and_close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
