"""The process that the processes of a trial are forked from: `python -m checkpoints.testing.launcher`.

Django and the user's modules are imported once, so that a life takes milliseconds to begin. Orders come as lines of
JSON on standard input; each is answered by the report of the life, where it could still write one, and by its exit
code. This process holds no connection and no thread, so a fork of it is as good as a new process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Never, TextIO

from django.core.exceptions import ImproperlyConfigured

from checkpoints.conf import ensure_configured
from checkpoints.exceptions import CheckpointsError, ReviewRequired
from checkpoints.testing.faults import Fault, fault_at

#: Seconds between two looks at a life that is to be killed at a certain time.
LOOK_SECONDS = 0.0005
#: What would otherwise be imported by each life when it opens its database.
EARLY = (
    "checkpoints.aio",
    "django.core.management.commands.migrate",
    "django.db.backends.sqlite3.base",
    "django.db.backends.postgresql.base",
    "psycopg_pool",
)


def main() -> None:
    sys.path[:] = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        order = json.loads(line)
        function = _function(order["function"])
        gc.freeze()  # what is shared with the forks stays shared: no collection of theirs writes to it
        pid = os.fork()
        if pid == 0:
            _live(function, order)
        _tell(sys.stdout, ended=_wait(pid, order["kill_after"]))


def _function(name: str) -> Callable[..., Any]:
    module, _, qualified = name.partition(":")
    found: Any = importlib.import_module(module)
    _prepare()
    for part in qualified.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


@cache
def _prepare() -> None:
    ensure_configured()
    for module in EARLY:
        with suppress(ImportError, ImproperlyConfigured):
            importlib.import_module(module)


def _live(function: Callable[..., Any], order: dict[str, Any]) -> Never:
    """In the forked process: run the function, report how it ended, leave."""
    report = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    try:
        _tell(report, **_lived(function, order))
    except BaseException:
        _tell(report, error="", said=traceback.format_exc())
    os._exit(0)


def _lived(function: Callable[..., Any], order: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    with fault_at(order["fault_at"], Fault(order["fault"])) as passed:
        try:
            end: dict[str, Any] = {"value": function(**order["arguments"])}
        except CheckpointsError as error:
            review = isinstance(error, ReviewRequired)
            end = {"error": ReviewRequired.code if review else error.code, "said": traceback.format_exc()}
    end["passed"] = [[each.number, each.side, each.place] for each in passed]
    return end | {"seconds": time.monotonic() - began}


def _wait(pid: int, kill_after: float | None) -> int:
    if kill_after is not None:
        deadline = time.monotonic() + kill_after
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(LOOK_SECONDS)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _tell(to: TextIO, **report: Any) -> None:
    print(json.dumps(report), file=to, flush=True)


if __name__ == "__main__":
    main()
