"""A wire between a client and a server on this machine that loses an answer when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit, urlunsplit

CHUNK = 65536


class Wire:
    """Forward every connection to the server at `url`; its own `url` is the same address with another port.

    After `lose_answer_to(text)`, the next answer to something that contains `text` is swallowed, and the connection
    broken: when the server has answered, or as soon as it was asked. Until `mend`, nobody reaches the server any more.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), int(parts.port or 0))
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        account = parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{port}"))
        self._lose: bytes | None = None
        self._answered = True
        self._cut = False
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listening.close()
        self._break()

    @property
    def cut(self) -> bool:
        """Whether an answer was lost and the wire is not mended yet."""
        return self._cut

    def lose_answer_to(self, text: str, *, answered: bool = True) -> None:
        self._lose, self._answered = text.encode(), answered

    def mend(self) -> None:
        self._cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                if self._cut:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._open += [client, server]
                losing = threading.Event()
                threading.Thread(target=self._questions, args=(client, server, losing), daemon=True).start()
                threading.Thread(target=self._answers, args=(server, client, losing), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while asked := client.recv(CHUNK):
                if self._lose is not None and self._lose in asked:
                    self._lose = None
                    losing.set()
                server.sendall(asked)
                if losing.is_set() and not self._answered:
                    self._cut_off(client)
                    return
        _shut(server)

    def _answers(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while answered := server.recv(CHUNK):
                if losing.is_set():
                    self._cut_off(client)
                    return
                client.sendall(answered)
        _shut(client)

    def _cut_off(self, client: socket.socket) -> None:
        self._cut = True
        _shut(client)

    def _break(self) -> None:
        while self._open:
            _shut(self._open.pop())


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
