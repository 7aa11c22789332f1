"""Processes of the demo: the site and the agent."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from django.conf import settings

#: Seconds in which a process may end by itself before it is killed.
STOP_TIMEOUT_SECONDS = 5.0
START_TIMEOUT_SECONDS = 90.0


class ProcessFailed(Exception):
    """Unexpected end of a process; the message names it and holds the end of its log."""


class ChildProcess:
    """Child process in a session of its own: Ctrl-C in the terminal reaches only the parent, which stops it."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=settings.BASE_DIR,
                env={**environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        return self._process.poll()

    @property
    def kill_signal_name(self) -> str:
        """Name of the signal that ended the process; empty while it runs or if it exited normally."""
        code = self.code or 0
        if code == 128 + signal.SIGTERM:  # the process handled the signal and exited
            return signal.SIGTERM.name
        return signal.Signals(-code).name if code < 0 else ""

    def stop(self) -> None:
        if self.code is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def build_failure_with_log_end(self, what: str) -> ProcessFailed:
        log_end = "\n".join(self.log.read_text(errors="replace").splitlines()[-6:])
        return ProcessFailed(f"{what} (pid {self.pid}) ended with {self.code}. Its log, {self.log}, ends:\n{log_end}")


def start_refund_desk_process(
    number: int, session_id: str, folder: Path, *, database: str, pace: float
) -> ChildProcess:
    """Start one process of the refund desk: a plain script that knows its database and nothing of this site."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    arguments = ["-m", "examples.refund_desk", *build_refund_desk_arguments(number, session_id, folder, pace)]
    return ChildProcess(arguments, folder / "agent.log", {**environment, "HARNESS_DATABASE_URL": database})


def build_refund_desk_arguments(number: int, session_id: str, folder: Path, pace: float) -> list[str]:
    """Build the arguments of a refund desk that dies in each of its two tools with an effect, once."""
    arguments = [f"--session={session_id}", f"--order={number}", f"--state={folder}", f"--pace={pace}"]
    return [*arguments, "--crash-once=refund_card", "--crash-once=send_email"]


def start_site_and_wait_until_ready(
    port: int, log: Path, stopping: Callable[[], bool], environment: Mapping[str, str] = os.environ
) -> ChildProcess:
    """Start the site on 127.0.0.1, and return when it answers. Raises `ProcessFailed`."""
    arguments = ["-m", "django", "serve", "--settings=harness_site.settings", f"--port={port}"]
    site = ChildProcess([*arguments, "--log-level=warning", "--graceful-seconds=1"], log, environment)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not stopping() and not is_site_answering(port):
        if site.code is not None or time.monotonic() > deadline:
            site.stop()
            raise site.build_failure_with_log_end("The site")
        time.sleep(0.1)
    return site


def is_site_answering(port: int) -> bool:
    """Return whether a site that is ready listens on that port of 127.0.0.1."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def describe_port_problem_or_empty(port: int) -> str:
    """Describe why nobody can listen on that port of 127.0.0.1; empty if it is free."""
    if not 0 < port < 65536:
        return "it is not between 1 and 65535"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return ""
