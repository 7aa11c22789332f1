"""Process that children are forked from: `python -W error -m tests.support.process_launcher SOCKET [FUNCTION]`.

It loads Python, Django and the library once, so that a child starts in milliseconds. Orders come over the socket whose
number is the argument, together with the files for the child's input, output and error output, and a socket for reports
about the child: first the process id, then each status from `waitpid`. This process has no thread and opens no
database, so a fork of it is as good as a new process. A function may be named that loads
more.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from tests.support.launched_process import STATUS
from tests.support.processes import import_function, run_as_child

ORDER_BYTES = 65_536
#: Modules that each child would otherwise import when it opens its database.
EARLY = (
    "checkpoints.async_client",
    "checkpoints.sync_client",
    "checkpoints.database_backend.database_client_backend",
    "django.core.management.commands.migrate",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "psycopg_pool",
)


class Launcher:
    """Launcher of children that reports their status changes."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._told: dict[int, socket.socket] = {}
        #: Receives a byte when a child has changed its state.
        self._changed, self._changes = socket.socketpair()
        self._changes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._changes.fileno(), warn_on_full_buffer=False)

    def serve(self) -> dict[str, Any] | None:
        """Serve orders until the socket is closed. In a child, return its order."""
        while True:
            ready, _, _ = select.select([self._orders, self._changed], [], [])
            if self._changed in ready:
                self._changed.recv(ORDER_BYTES)
                self._report_status_changes()
            if self._orders in ready:
                order, files = self._receive_order()
                if not order or self._fork(order, files):
                    return order or None

    def _receive_order(self) -> tuple[dict[str, Any], list[int]]:
        """Receive the next order and its files; an empty one at the end."""
        line, files, _, _ = socket.recv_fds(self._orders, ORDER_BYTES, 4)
        while line and not line.endswith(b"\n"):
            line += self._orders.recv(ORDER_BYTES)
        return json.loads(line or "{}"), files

    def _fork(self, order: dict[str, Any], files: list[int]) -> bool:
        """Fork a child; return True in the child."""
        if not order["fresh"]:
            _import_function_and_freeze(order["function"], order["modules"])
        pid = os.fork()
        if pid == 0:
            self._become_child(files)
            return True
        *child_files, report_socket = files
        for file in child_files:
            os.close(file)
        self._told[pid] = socket.socket(fileno=report_socket)
        self._told[pid].send(STATUS.pack(pid))
        return False

    def _become_child(self, files: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (self._orders, self._changed, self._changes, *self._told.values()):
            other.close()
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        for file in files:
            os.close(file)

    def _report_status_changes(self) -> None:
        while self._told:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return
            with suppress(BrokenPipeError):  # the test has closed its end
                self._told[pid].send(STATUS.pack(status))
            if not os.WIFSTOPPED(status):
                self._told.pop(pid).close()


def _import_function_and_freeze(function: str, modules: Sequence[str]) -> None:
    import_function(function)
    for module in modules:
        import_module(module)
    _preload_modules()
    gc.freeze()  # pages shared with the children stay shared: their garbage collection does not write to them


@cache
def _preload_modules() -> None:
    from checkpoints.django_configuration import ensure_django_configured

    ensure_django_configured()
    for module in EARLY:
        import_module(module)


def main(orders: int, *loaders: str) -> None:
    for loader in loaders:
        import_function(loader)()
    order = Launcher(socket.socket(fileno=orders)).serve()
    if order is None:
        return
    name, arguments = order["function"], order["arguments"]
    for former in [known for known in os.environ if known.startswith("HARNESS_")]:
        del os.environ[former]
    os.environ.update(order["settings"])
    if order["fresh"]:
        module = ["-m", "tests.support.processes", name, arguments]
        os.execv(sys.executable, [sys.executable, "-W", "error", *module])  # noqa: S606
    run_as_child(name, arguments)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
