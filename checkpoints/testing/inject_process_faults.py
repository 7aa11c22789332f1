"""Faults of a process at a write boundary."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Never

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.testing.write_boundaries import Boundary, watch_write_boundaries


class Fault(StrEnum):
    """Kind of fault. `KILL`: the process gets SIGKILL. `DISCONNECT`: the connection and the answer to the write are
    lost."""

    KILL = "kill"
    DISCONNECT = "disconnect"


@contextmanager
def fault_at(number: int, fault: Fault) -> Iterator[list[Boundary]]:
    """Let `fault` happen at the `number`-th write boundary of the block; 0 lets nothing happen.

    Yields the list of the boundaries that have been passed, which grows.
    """
    boundaries: list[Boundary] = []

    def record_boundary_and_cause_fault(boundary: Boundary, connection: BaseDatabaseWrapper) -> None:
        boundaries.append(boundary)
        if boundary.number == number:
            _FAULT_ACTIONS[fault](connection)

    with watch_write_boundaries(record_boundary_and_cause_fault):
        yield boundaries


def kill_this_process(_: BaseDatabaseWrapper) -> Never:
    """Kill this process with SIGKILL, like a power failure."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL was survived.")


def drop_connection_and_raise(connection: BaseDatabaseWrapper) -> Never:
    """Drop the connection, whether the write is stored or not.

    SQLite has no connection to lose: an I/O error is raised, after which the connection can still be used.
    """
    if connection.connection is not None and connection.vendor != "sqlite":
        connection.connection.close()
    raise OperationalError("the connection was lost")


_FAULT_ACTIONS: dict[Fault, Callable[[BaseDatabaseWrapper], Never]] = {
    Fault.KILL: kill_this_process,
    Fault.DISCONNECT: drop_connection_and_raise,
}
