"""Real site in a process of its own, on a database of its own, with accounts and agents.

    with fresh_database(folder) as url:          # on the server of HARNESS_DATABASE_URL, else a SQLite file
        prepare(url)                             # tables and accounts; another database may be a copy of it
        with Site(url, folder) as site:          # site.address, site.stop(), site.start()
            agent = site.agent(17)               # the refund desk on session `order-17`

`python -m tests.support.site_process` prepares the database in HARNESS_DATABASE_URL.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from checkpoints.enums import Role
from examples.demo.demo_processes import (
    STOP_TIMEOUT_SECONDS,
    ChildProcess,
    build_refund_desk_arguments,
    is_site_answering,
    start_refund_desk_process,
    start_site_and_wait_until_ready,
)
from tests.support import forked_site, payment_agent
from tests.support.launched_process import Launched
from tests.support.processes import Child

PASSWORD: Final = "correct horse battery"
CAST: Final = {"alice": Role.APPROVER, "bob": Role.APPROVER, "carol": Role.AUDITOR, "dora": Role.ADMIN}
#: Timeout in seconds for the start of a site and the end of a process; only a failing test takes so long.
PATIENCE = 90.0


@contextmanager
def fresh_database(folder: Path, like: str = "") -> Iterator[str]:
    """Yield the URL of an empty database, or of a copy of the unused database `like`.

    It is on the server of HARNESS_DATABASE_URL, else a file in `folder`.
    """
    server = os.environ.get("HARNESS_DATABASE_URL", "")
    if not server.startswith("postgres"):
        address = folder / "site.sqlite3"
        if like:
            shutil.copy(like, address)
        yield str(address)
        return
    template = sql.Identifier(like.rpartition("/")[2] or "template1")
    name = f"harness_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class ForkedProcess:
    """Process that runs a function with arguments, forked from a launcher; stopped as a `ChildProcess` is."""

    def __init__(
        self, function: Callable[..., object], log: Path, *, with_site: bool = False, **arguments: Any
    ) -> None:
        name = f"{function.__module__}:{function.__qualname__}"
        with log.open("a") as output:
            self._process = Launched(name, json.dumps(arguments), output, with_site=with_site)

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def kill_signal_name(self) -> str:
        """Name of the signal that killed the process; empty while it runs or if it exited."""
        code = self.code or 0
        return signal.Signals(-code).name if code < 0 else ""

    def stop(self) -> None:
        if self.code is None:
            with suppress(ProcessLookupError, TimeoutError):
                os.kill(self._process.pid, signal.SIGTERM)
                self._process.wait(STOP_TIMEOUT_SECONDS)
        self._process.kill(PATIENCE)
        self._process.stdout.close()


class Agent:
    """Refund desk, restarted whenever it is killed, until it ends by itself or is stopped.

    Its processes are plain scripts as users write them, or with `forked` forks of one that has loaded the library.
    """

    def __init__(self, number: int, folder: Path, database: str, pace: float, *, forked: bool = False) -> None:
        self._forked = forked
        self.session_id = f"order-{number}"
        self.folder = folder
        folder.mkdir(parents=True)
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._restart_until_finished, args=(number, database, pace))
        self._watch.start()

    @property
    def refunds(self) -> int:
        """Number of refunds that were made."""
        return _count_lines(self.folder / "ledger.jsonl")

    @property
    def mails(self) -> int:
        return _count_lines(self.folder / "outbox.jsonl")

    def wait(self) -> None:
        """Wait until the agent has ended by itself."""
        self._watch.join(PATIENCE)
        assert not self._watch.is_alive(), f"{self.session_id} does not end:\n{self._read_end_of_log()}"

    def stop(self) -> None:
        self._stopping.set()
        self._watch.join(PATIENCE)

    def _restart_until_finished(self, number: int, database: str, pace: float) -> None:
        while not self._stopping.is_set():
            child = self._start_process(number, database, pace)
            while child.code is None and not self._stopping.wait(0.05):
                pass
            child.stop()
            if not child.kill_signal_name:
                return

    def _start_process(self, number: int, database: str, pace: float) -> ChildProcess | ForkedProcess:
        if not self._forked:
            return start_refund_desk_process(number, self.session_id, self.folder, database=database, pace=pace)
        arguments = build_refund_desk_arguments(number, self.session_id, self.folder, pace)
        arguments.append(f"--database={database}")
        return ForkedProcess(forked_site.run_refund_desk, self.folder / "agent.log", arguments=arguments)

    def _read_end_of_log(self) -> str:
        return (self.folder / "agent.log").read_text(errors="replace")[-2000:]


class Payer:
    """Process of the agent that pays an invoice after approval, with additional `options`."""

    def __init__(self, session_id: str, folder: Path, database: str, *options: str) -> None:
        self.session_id = session_id
        self.ledger = folder / f"{session_id}.ledger"
        arguments = [f"--session={session_id}", f"--ledger={self.ledger}", f"--database={database}", *options]
        self._child = ForkedProcess(payment_agent.main, folder / f"{session_id}.log", arguments=arguments)

    @property
    def payments(self) -> list[str]:
        """Payments made: number of the invoice, amount, payee."""
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def stop(self) -> None:
        self._child.stop()


class Site:
    """`manage.py serve` on a free port, on a prepared database.

    With `forked` its process is a fork of one that has loaded the site, and its agents are forks, too.
    """

    def __init__(self, database: str, folder: Path, *, forked: bool = False) -> None:
        self.database = database
        self.folder = folder
        self.forked = forked
        self.port = free_port()
        self._child: ChildProcess | ForkedProcess | None = None
        self._leaving = ExitStack()

    @property
    def address(self) -> str:
        """URL of the site without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        self._leaving.callback(self.stop)
        return self

    def __exit__(self, *error: object) -> None:
        self._leaving.close()

    def start(self) -> None:
        """Start the site and return when it answers; the port stays the same across restarts."""
        if self.forked:
            self._child = self._start_fork()
            return
        self._child = start_site_and_wait_until_ready(
            self.port, self.folder / "site.log", lambda: False, self.environment()
        )

    def _start_fork(self) -> ForkedProcess:
        log = self.folder / "site.log"
        site = ForkedProcess(forked_site.serve, log, with_site=True, database=self.database, port=self.port)
        deadline = time.monotonic() + PATIENCE
        while not is_site_answering(self.port):
            if site.code is not None or time.monotonic() > deadline:
                site.stop()
                raise AssertionError(f"The site does not answer. Its log:\n{self.log()}")
            time.sleep(0.05)
        return site

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()

    def run(self, function: Callable[..., object], **arguments: Any) -> Any:
        """Run `function(database, …)` in a process that has loaded the site, and return its value."""
        child = Child(function, with_site=True, database=self.database, **arguments)
        try:
            return child.result()
        finally:
            child.kill()

    def start_until_saved(self, function: Callable[..., object], **arguments: Any) -> None:
        """Run `function(database, …)` in a process that goes on until the site leaves, and return when it says "saved".

        A process that ends loses its session at once, because the site looks for the processes of its machine.
        """
        child = Child(function, with_site=True, database=self.database, **arguments)
        self._leaving.callback(child.kill)
        child.expect("saved")

    def agent(self, number: int, *, pace: float = 0.0) -> Agent:
        """Start the refund desk on session `order-<number>`, with a model that takes `pace` seconds to answer."""
        agent = Agent(number, self.folder / str(number), self.database, pace, forked=self.forked)
        self._leaving.callback(agent.stop)
        return agent

    def payer(self, session_id: str, *options: str) -> Payer:
        payer = Payer(session_id, self.folder, self.database, *options)
        self._leaving.callback(payer.stop)
        return payer

    def log(self) -> str:
        """Return the log of the site."""
        return (self.folder / "site.log").read_text(errors="replace")

    def environment(self) -> dict[str, str]:
        return _build_environment(self.database)


def _build_environment(database: str) -> dict[str, str]:
    return {**os.environ, "HARNESS_DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "harness_site.settings"}


def _count_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def free_port() -> int:
    """Return an unused port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def create_tables_and_accounts_in_child(database: str) -> None:
    """Create them in a child of a process that has loaded the site."""
    forked_site.use_database(database)
    main()


def create_tables_in_child(database: str) -> None:
    """Create them in a child of a process that has loaded the site."""
    forked_site.use_database(database)

    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)


def create_tables_and_accounts(database: str, *commands: str) -> str:
    """Create the tables and accounts and run commands, in a process that then leaves the database alone.

    Returns what the commands print.
    """
    program = [sys.executable, "-m", "tests.support.site_process", *commands]
    done = subprocess.run(program, env=_build_environment(database), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main(*commands: str) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)

    from examples.demo.demo_accounts import create_or_reset_account

    for name, role in CAST.items():
        create_or_reset_account(name, role, PASSWORD)
    for command in commands:
        call_command(command)


if __name__ == "__main__":
    main(*sys.argv[1:])
