"""The processes of the demo: the site, and the agent with somebody who starts it again whenever it is killed."""

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

#: Seconds a process may take to end by itself before it is killed.
PATIENCE = 5.0
START_PATIENCE = 90.0


class ProcessFailed(Exception):
    """A process ended that should not have; the message says which, and holds the end of its log."""


class Child:
    """A process of ours, in a session of its own: Ctrl-C in the terminal reaches us alone, and we end it."""

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
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def killed_by(self) -> str:
        """The signal that ended it; empty where it runs or ended by itself."""
        code = self.code or 0
        if code == 128 + signal.SIGTERM:  # it heard the signal and left politely
            return signal.SIGTERM.name
        return signal.Signals(-code).name if code < 0 else ""

    def stop(self) -> None:
        if self.code is None:
            self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def failure(self, what: str) -> ProcessFailed:
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-6:])
        return ProcessFailed(f"{what} (pid {self.pid}) ended with {self.code}. Its log, {self.log}, ends:\n{tail}")


def start_agent(number: int, session_id: str, folder: Path, *, database: str, pace: float) -> Child:
    """One process of the refund desk: a plain script, which is told its database and nothing of this site."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    arguments = ["-m", "examples.refund_desk", f"--session={session_id}", f"--order={number}", f"--state={folder}"]
    arguments += [f"--pace={pace}", "--crash-once=refund_card", "--crash-once=send_email"]
    return Child(arguments, folder / "agent.log", {**environment, "HARNESS_DATABASE_URL": database})


def start_site(
    port: int, log: Path, stopping: Callable[[], bool], environment: Mapping[str, str] = os.environ
) -> Child:
    """The site on 127.0.0.1; returns when it answers. Raises `ProcessFailed`."""
    arguments = ["-m", "django", "serve", "--settings=harness_site.settings", f"--port={port}"]
    site = Child([*arguments, "--log-level=warning", "--graceful-seconds=1"], log, environment)
    deadline = time.monotonic() + START_PATIENCE
    while not stopping() and not _answers(port):
        if site.code is not None or time.monotonic() > deadline:
            site.stop()
            raise site.failure("The site")
        time.sleep(0.1)
    return site


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def port_problem(port: int) -> str:
    """Why nobody can listen on that port of 127.0.0.1; empty where one can."""
    if not 0 < port < 65536:
        return "it is not between 1 and 65535"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return ""
