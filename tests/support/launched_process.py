"""Process started by the launcher: its pipes and its exit status."""

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
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
#: Messages of the launcher about a process: its id, then each status from `waitpid`.
STATUS = struct.Struct("i")


class Launched:
    """Process that runs a function. It reads from `stdin`, and writes to `stdout` and `errors`.

    `fresh` makes it a new interpreter instead of a fork of one with Django set up, which loads `modules` before it is
    forked; `with_site` forks one with the whole site.
    """

    def __init__(
        self,
        function: str,
        arguments: str,
        errors: IO[str],
        *,
        fresh: bool = False,
        with_site: bool = False,
        modules: Sequence[str] = (),
    ) -> None:
        child_stdin, parent_stdin = os.pipe()
        parent_stdout, child_stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(parent_stdin, "w"), os.fdopen(parent_stdout)
        self._states, child_states = socket.socketpair()
        self._code: int | None = None
        with ExitStack() as stack, child_states:
            for file in (child_stdin, child_stdout):
                stack.callback(os.close, file)
            # The launcher may have been started before the test's module has set its variables.
            settings = {name: value for name, value in os.environ.items() if name.startswith("HARNESS_")}
            order = {
                "function": function,
                "arguments": arguments,
                "fresh": fresh,
                "settings": settings,
                "modules": list(modules),
            }
            files = [child_stdin, child_stdout, errors.fileno(), child_states.fileno()]
            _get_launcher_connection(with_site).order(order, files)
        self.pid = self._receive_next_status(None)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        try:
            return self.wait(0)
        except (BlockingIOError, TimeoutError):
            return None

    def wait(self, timeout: float) -> int:
        """Wait for the end of the process, and return its exit code."""
        while self._code is None:
            status = self._receive_next_status(timeout)
            if not os.WIFSTOPPED(status):
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def pause(self, timeout: float) -> None:
        """Send SIGSTOP; the process has stopped when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(self._receive_next_status(timeout)), "It ended instead."

    def kill(self, timeout: float) -> None:
        """Send SIGKILL if the process runs; it has ended and its files are closed when this returns."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait(timeout)
        self.stdin.close()
        self._states.close()

    def _receive_next_status(self, timeout: float | None) -> int:
        self._states.settimeout(timeout)
        status = self._states.recv(STATUS.size)
        if not status:
            raise RuntimeError("The launcher has ended; its error output says why.")
        return int(STATUS.unpack(status)[0])


class _Launching:
    """Connection to the launcher of this process, which ends when the connection is closed."""

    def __init__(self, *, with_site: bool) -> None:
        self._lock = threading.Lock()
        self._orders, launcher_end = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        warnings = [] if with_site else ["-W", "error"]
        loaders = ["tests.support.forked_site:preload"] if with_site else []
        with launcher_end:
            module = ["-m", "tests.support.process_launcher", str(launcher_end.fileno()), *loaders]
            self._process = subprocess.Popen(
                [sys.executable, *warnings, *module],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[launcher_end.fileno()],
            )
        atexit.register(self._end_launcher)

    def order(self, order: dict[str, object], files: list[int]) -> None:
        line = f"{json.dumps(order)}\n".encode()
        with self._lock:
            sent = socket.send_fds(self._orders, [line], files)
            self._orders.sendall(line[sent:])

    def _end_launcher(self) -> None:
        self._orders.close()
        self._process.wait()


def start_launcher(*, with_site: bool = False) -> None:
    """Start the launcher of this process, which loads what it has to while this process does something else."""
    _get_launcher_connection(with_site)


@cache
def _get_launcher_connection(with_site: bool) -> _Launching:
    return _Launching(with_site=with_site)
