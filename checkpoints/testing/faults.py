"""What can happen to a process at a write boundary."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Never

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.testing.boundaries import Boundary, watched


class Fault(StrEnum):
    """`KILL`: the process gets SIGKILL. `DISCONNECT`: the connection fails, and with it the answer to the write."""

    KILL = "kill"
    DISCONNECT = "disconnect"


@contextmanager
def fault_at(number: int, fault: Fault) -> Iterator[list[Boundary]]:
    """Let `fault` happen at the `number`-th write boundary of the block; 0 lets nothing happen.

    Yields the list of the boundaries that have been passed, which grows.
    """
    passed: list[Boundary] = []

    def handle(boundary: Boundary, connection: BaseDatabaseWrapper) -> None:
        passed.append(boundary)
        if boundary.number == number:
            _HAPPEN[fault](connection)

    with watched(handle):
        yield passed


def kill(_: BaseDatabaseWrapper) -> Never:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL was survived.")


def disconnect(connection: BaseDatabaseWrapper) -> Never:
    """Lose the connection, whether the write is already there or not. SQLite has none to lose: there it is an I/O
    error, after which the connection goes on working."""
    if connection.connection is not None and connection.vendor != "sqlite":
        connection.connection.close()
    raise OperationalError("the connection was lost")


_HAPPEN: dict[Fault, Callable[[BaseDatabaseWrapper], Never]] = {Fault.KILL: kill, Fault.DISCONNECT: disconnect}
