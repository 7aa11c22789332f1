"""The demo agent in a process that is killed at a chosen moment."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from typing import Any, Never

from django.db.backends.signals import connection_created

from examples.refund_desk.__main__ import main

_statements = count(1)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_statement(number: int) -> None:
    def counted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if next(_statements) == number:
            _die()
        return execute(sql, params, many, context)

    def watch(connection: Any, **_: Any) -> None:
        if counted not in connection.execute_wrappers:
            connection.execute_wrappers.append(counted)

    connection_created.connect(watch, weak=False)


def die_before_opening(name: str) -> None:
    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | Path) and Path(arguments[0]).name == name:
            _die()

    sys.addaudithook(heard)


def live(moment: str, arguments: list[str]) -> Never:
    """Run the demo agent. `moment` is a number (SIGKILL before that SQL statement) or the name of a file (SIGKILL
    before it is opened)."""
    if moment.isdecimal():
        die_before_statement(int(moment))
    else:
        die_before_opening(moment)
    with redirect_stdout(sys.stderr):
        sys.exit(main(arguments))
