"""Throw-away PostgreSQL server for tests.

    with Cluster() as server:                            # may be stopped, killed and started again
    with cluster() as url:                               # only its URL
    python -m tests.support.cluster -- command args…     # sets HARNESS_DATABASE_URL for the command

The server has durable writes (fsync on), listens on 127.0.0.1 alone, requires a random password and leaves nothing
behind.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Self, TypedDict

from tests.support.wrapped_command import convert_sigterm_to_exit, read_command, run_command

NAME = "harness"  # of the role and of its database
OLDEST_VERSION = 15
PATIENCE = 60.0  # timeout in seconds for a start or a stop of the server
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class ClusterError(RuntimeError):
    """Failure to find, start or stop the server; the message holds the end of its log."""


class Identity(TypedDict, total=False):
    """User of the server process as arguments of `subprocess`; empty for the current user, unless that is root."""

    user: int
    group: int
    extra_groups: list[int]


class Cluster:
    """One PostgreSQL server with its own data directory, usable as a context manager.

    `stop`, `kill` and `start` keep the data directory and the port, so that `url` stays valid across a restart.
    """

    def __init__(self) -> None:
        self._binaries = find_binaries()
        self._identity = _choose_server_user()
        self._base = Path(tempfile.mkdtemp(prefix="harness-postgres-"))
        self._data = self._base / "data"
        self._log = self._base / "server.log"
        self._password = secrets.token_urlsafe(16)
        self._port = _find_free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._leaving = contextlib.ExitStack()

    @property
    def url(self) -> str:
        """URL of the database with the password, in the form of HARNESS_DATABASE_URL."""
        return f"postgresql://{NAME}:{self._password}@127.0.0.1:{self._port}/{NAME}"

    @property
    def pid(self) -> int:
        """Process id of the running server (its postmaster)."""
        return self._get_running_server().pid

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as leaving:
            leaving.enter_context(convert_sigterm_to_exit())
            leaving.callback(self._stop_and_remove_data)
            self._create_data_directory()
            self._leaving = leaving.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()

    def start(self) -> None:
        """Start the server and return when it accepts connections, including recovery after `kill`."""
        if self._server is not None:
            raise ClusterError("The server is already running.")
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    f"-D{self._data}",
                    "--listen_addresses=127.0.0.1",
                    f"--port={self._port}",
                    f"--unix_socket_directories={self._base}",
                    "--fsync=on",
                    "--dynamic_shared_memory_type=mmap",  # files of its own, so that `kill` leaves none in /dev/shm
                ],
                cwd=self._base,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._identity,
                start_new_session=True,  # Ctrl-C is for the tests; the cluster stops the server
            )
        self._wait_until_ready()

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop the server in an orderly way and wait for its end."""
        server = self._get_running_server()
        server.send_signal(STOP_SIGNALS[mode])
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(f"The server did not stop ({mode}) and was killed.\n{self._read_end_of_log()}") from None
        self._server = None

    def kill(self) -> None:
        """SIGKILL the server and all its backends at once, like a power failure."""
        server = self._get_running_server()
        server.send_signal(signal.SIGSTOP)  # so that it cannot replace a backend meanwhile
        backends = {pid for pid, parent in _map_processes_to_parents().items() if parent == server.pid}
        for pid in (server.pid, *backends):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait()
        self._server = None
        _wait_until(lambda: backends.isdisjoint(_map_processes_to_parents()), "A backend outlived SIGKILL.")

    def _create_data_directory(self) -> None:
        password_file = self._base / "password"
        password_file.write_text(self._password)
        if self._identity:
            os.chown(self._base, self._identity["user"], -1)
            os.chown(password_file, self._identity["user"], -1)
        self._run_server_program(
            "initdb",
            f"--pgdata={self._data}",
            f"--username={NAME}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",  # upper case and word boundaries of every language, independent of the machine
            "--no-sync",
        )
        self.start()
        self._run_server_program("createdb", "--host=127.0.0.1", f"--port={self._port}", f"--username={NAME}", NAME)

    def _stop_and_remove_data(self) -> None:
        with _block_termination_signals():
            try:
                if self._server is not None:
                    self.stop("immediate")
            finally:
                shutil.rmtree(self._base)

    def _run_server_program(self, program: str, *arguments: str) -> None:
        with (
            _block_termination_signals()
        ):  # takes half a second; interrupted, the program would leave helper processes behind
            result = subprocess.run(
                [self._binaries / program, *arguments],
                cwd=self._base,
                env={**os.environ, "PGPASSWORD": self._password},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                **self._identity,
                check=False,
            )
        if result.returncode:
            raise ClusterError(f"{program} ended with {result.returncode}.\n{result.stdout}{result.stderr}")

    def _get_running_server(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            raise ClusterError("The server is not running.")
        return self._server

    def _wait_until_ready(self) -> None:
        server = self._get_running_server()

        def ready() -> bool:
            if server.poll() is not None:
                self._server = None
                raise ClusterError(f"The server ended with {server.returncode}.\n{self._read_end_of_log()}")
            with contextlib.suppress(FileNotFoundError):
                # The first line is the pid (`kill` may have left an older one), the eighth the state.
                lines = (self._data / "postmaster.pid").read_text().splitlines()
                return len(lines) >= 8 and lines[0] == str(server.pid) and lines[7].strip() == "ready"
            return False

        _wait_until(ready, "The server did not become ready.")

    def _read_end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Run a server for the length of a `with` block and yield its URL."""
    with Cluster() as server:
        yield server.url


def find_binaries() -> Path:
    """Return the directory of the newest PostgreSQL server programs. Raises `ClusterError` if there are none."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if packaged and int(packaged[-1].parts[-3]) >= OLDEST_VERSION:
        return packaged[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    raise ClusterError(f"No PostgreSQL server found: install PostgreSQL {OLDEST_VERSION} or newer.")


def main(arguments: Sequence[str]) -> int:
    """Run a command against a fresh server and return the command's exit code."""
    command = read_command(arguments, "tests.support.cluster")
    with cluster() as url:
        return run_command(command, {"HARNESS_DATABASE_URL": url})


@contextlib.contextmanager
def _block_termination_signals() -> Iterator[None]:
    """Block SIGTERM and SIGINT, for child processes too, until the end of the block."""
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _choose_server_user() -> Identity:
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise ClusterError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody'.")


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _map_processes_to_parents() -> dict[int, int]:
    """Map the id of every process to its parent's; empty without /proc."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The name is in parentheses and may hold anything; state and parent follow it.
            state, parent, *_ = entry.read_text(errors="replace").rpartition(")")[2].split()
            if state != "Z":  # ended, but not yet reaped by its parent
                parents[int(entry.parent.name)] = int(parent)
    return parents


def _wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(complaint)
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
