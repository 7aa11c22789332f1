"""Child processes for tests: started from a function, controlled by lines of JSON, stopped and killed.

    child = Child(agent, url=database_url(), session_id="s")    # runs `agent(url=…, session_id=…)` in a new process
    child.expect("inside the tool")                             # waits until the child has said so
    child.kill()                                                # SIGKILL

The function must be importable and gets its arguments as JSON. The child has no settings of a Django project: it is a
plain script, as users write them. It is forked from a process that has loaded Django and holds no connection; with
`fresh` it is a new interpreter, for tests of loading itself. Waiting has a timeout, so that a test fails instead of
hanging.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Never
from urllib.parse import quote

from django.db import connections

from tests.support.launched_process import ROOT as ROOT
from tests.support.launched_process import Launched

PATIENCE = 180.0  # timeout in seconds; only a failing test takes so long
_END_OF_OUTPUT: list[Any] = []


class Child:
    """Process that runs `function(**arguments)`.

    `with_site` forks it from a process that has loaded the site, and `modules` names what else that process loads.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *,
        fresh: bool = False,
        with_site: bool = False,
        modules: Sequence[str] = (),
        **arguments: Any,
    ) -> None:
        name = f"{function.__module__}:{function.__qualname__}"
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `kill`
        self._process = Launched(
            name, json.dumps(arguments), self._errors, fresh=fresh, with_site=with_site, modules=modules
        )
        self._said: queue.Queue[Any] = queue.Queue()
        self._listener = threading.Thread(target=self._read_messages, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def expect(self, event: str) -> Any:
        """Wait until the child says `event`, which must be its next message; return the value."""
        message = self._receive_next_message()
        assert message[:1] == [event], f"{event!r} was expected, not {message!r}.\n{self.read_error_output()}"
        return message[1]

    def tell(self, word: str = "go") -> None:
        """Send a line to a child that waits in `heed`."""
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Wait for the end of the function and return its value. The process must exit with 0."""
        value = self.expect("returned")
        assert self._process.wait(PATIENCE) == 0, self.read_error_output()
        return value

    def died_by(self) -> signal.Signals:
        """Wait for a process that does not return, and return the signal that ended it."""
        assert self._receive_next_message() is _END_OF_OUTPUT, self.read_error_output()
        return signal.Signals(-self._process.wait(PATIENCE))

    def pause(self) -> None:
        """Send SIGSTOP; the process has stopped when this returns."""
        self._process.pause(PATIENCE)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL; the process has ended when this returns."""
        self._process.kill(PATIENCE)
        self._listener.join(PATIENCE)
        self._errors.close()

    def _receive_next_message(self) -> Any:
        try:
            return self._said.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(
                f"The child said nothing for {PATIENCE:g} seconds.\n{self.read_error_output()}"
            ) from None

    def _read_messages(self) -> None:
        with self._process.stdout as lines:
            for line in lines:
                self._said.put(json.loads(line))
        self._said.put(_END_OF_OUTPUT)

    def read_error_output(self) -> str:
        """Return what the child has written to stderr."""
        if self._errors.closed:
            return "It was killed."
        self._errors.seek(0)
        return self._errors.read()


def database_url(alias: str = "default") -> str:
    """Return the URL under which another process finds the database of a connection."""
    database = connections[alias].settings_dict
    name = quote(str(database["NAME"]))
    if connections[alias].vendor == "sqlite":
        return f"sqlite:///{name}"
    login = f"{quote(database['USER'], safe='')}:{quote(database['PASSWORD'], safe='')}"
    return f"postgresql://{login}@{database['HOST']}:{database['PORT']}/{name}"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` becomes true through another process."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"It did not come true in {PATIENCE:g} seconds."
        time.sleep(0.02)


# Functions for the child


def send_to_parent(event: str, value: Any = None) -> None:
    """Send a message to the parent, which reads it with `Child.expect`."""
    print(json.dumps([event, value]), flush=True)


def wait_for_parent() -> str:
    """Wait for `Child.tell`."""
    return sys.stdin.readline().strip()


def die() -> Never:
    """End this process without cleanup, like a power failure."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL was survived")


def append_line(path: str, line: str) -> None:
    """Append one line to a file; it is durable when this returns."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def import_function(name: str) -> Callable[..., object]:
    """Return the function of a name such as `package.module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def run_as_child(name: str, arguments: str) -> None:
    """Run as a child: call the function, and send its return value."""
    send_to_parent("returned", import_function(name)(**json.loads(arguments)))


if __name__ == "__main__":
    run_as_child(*sys.argv[1:])
