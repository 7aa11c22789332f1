"""A process that the launcher of this one has started: its pipes, and what becomes of it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
#: What the launcher says about a process: first its id, then each status that `waitpid` gives.
STATUS = struct.Struct("i")


class Launched:
    """One process that runs a function. It reads what is written to `stdin`, and writes to `stdout` and `errors`.

    `fresh` makes it a new interpreter instead of a fork of one that has Django set up.
    """

    def __init__(self, function: str, arguments: str, errors: IO[str], *, fresh: bool) -> None:
        heard, hear = os.pipe()
        listen, said = os.pipe()
        self.stdin, self.stdout = os.fdopen(hear, "w"), os.fdopen(listen)
        self._states, told = socket.socketpair()
        self._code: int | None = None
        with ExitStack() as theirs, told:
            for file in (heard, said):
                theirs.callback(os.close, file)
            order = {"function": function, "arguments": arguments, "fresh": fresh}
            _launching().order(order, [heard, said, errors.fileno(), told.fileno()])
        self.pid = self._next(None)

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        try:
            return self.wait(0)
        except (BlockingIOError, TimeoutError):
            return None

    def wait(self, timeout: float) -> int:
        """Wait for its end, and say how it ended."""
        while self._code is None:
            status = self._next(timeout)
            if not os.WIFSTOPPED(status):
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def pause(self, timeout: float) -> None:
        """SIGSTOP; it has stopped when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(self._next(timeout)), "It ended instead."

    def kill(self, timeout: float) -> None:
        """SIGKILL, where it still runs; it is gone when this returns, and nothing of it is left open here."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait(timeout)
        self.stdin.close()
        self._states.close()

    def _next(self, timeout: float | None) -> int:
        self._states.settimeout(timeout)
        status = self._states.recv(STATUS.size)
        if not status:
            raise RuntimeError("The launcher has ended; its error output says why.")
        return int(STATUS.unpack(status)[0])


class _Launching:
    """The launcher of this process. It ends with it, because it then hears nothing any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.support.launcher", str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def order(self, order: dict[str, object], files: list[int]) -> None:
        line = f"{json.dumps(order)}\n".encode()
        with self._lock:
            sent = socket.send_fds(self._orders, [line], files)
            self._orders.sendall(line[sent:])

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@cache
def _launching() -> _Launching:
    return _Launching()
