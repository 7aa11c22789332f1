"""Launcher process that forks the processes of a trial: `python -m checkpoints.testing.fork_launcher`.

Django and the user's modules are imported once, so that a life starts within milliseconds. Orders are lines of
JSON on standard input; each is answered by the report of the life, if it could write one, and by its exit
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

from checkpoints.django_configuration import ensure_django_configured
from checkpoints.exceptions import CheckpointsError, ReviewRequired
from checkpoints.testing.inject_process_faults import Fault, fault_at

#: Seconds between two checks of a life that is to be killed at a certain time.
POLL_SECONDS = 0.0005
#: Modules that each life would otherwise import when it opens its database.
PRELOADED_MODULES = (
    "checkpoints.async_client",
    "checkpoints.database_backend.database_client_backend",
    "django.core.management.commands.migrate",
    "django.db.backends.sqlite3.base",
    "django.db.backends.postgresql.base",
    "psycopg_pool",
)


def main() -> None:
    sys.path[:] = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        order = json.loads(line)
        function = _import_function_and_preload_modules(order["function"])
        gc.freeze()  # keeps memory shared: garbage collection in the forks does not write to these objects
        pid = os.fork()
        if pid == 0:
            _run_function_report_outcome_and_exit(function, order)
        _write_report(sys.stdout, ended=_wait_for_or_kill_child(pid, order["kill_after"]))


def _import_function_and_preload_modules(name: str) -> Callable[..., Any]:
    module, _, qualified = name.partition(":")
    target: Any = importlib.import_module(module)
    _preload_modules()
    for part in qualified.split("."):
        target = getattr(target, part)
    return target  # type: ignore[no-any-return]


@cache
def _preload_modules() -> None:
    ensure_django_configured()
    for module in PRELOADED_MODULES:
        with suppress(ImportError, ImproperlyConfigured):
            importlib.import_module(module)


def _run_function_report_outcome_and_exit(function: Callable[..., Any], order: dict[str, Any]) -> Never:
    """In the forked process: run the function, report its outcome, exit."""
    report = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    try:
        _write_report(report, **_run_function_and_build_report(function, order))
    except BaseException:
        _write_report(report, error="", output=traceback.format_exc())
    os._exit(0)


def _run_function_and_build_report(function: Callable[..., Any], order: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    with fault_at(order["fault_at"], Fault(order["fault"])) as boundaries:
        try:
            end: dict[str, Any] = {"value": function(**order["arguments"])}
        except CheckpointsError as error:
            review = isinstance(error, ReviewRequired)
            end = {"error": ReviewRequired.code if review else error.code, "output": traceback.format_exc()}
    end["passed"] = [[boundary.number, boundary.side, boundary.place] for boundary in boundaries]
    return end | {"seconds": time.monotonic() - began}


def _wait_for_or_kill_child(pid: int, kill_after: float | None) -> int:
    if kill_after is not None:
        deadline = time.monotonic() + kill_after
        while time.monotonic() < deadline:
            ended_pid, status = os.waitpid(pid, os.WNOHANG)
            if ended_pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(POLL_SECONDS)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _write_report(stream: TextIO, **report: Any) -> None:
    print(json.dumps(report), file=stream, flush=True)


if __name__ == "__main__":
    main()
