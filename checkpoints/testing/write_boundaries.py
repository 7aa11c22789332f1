"""Write boundaries: the points just before a write becomes durable, and just after.

A statement outside a transaction has its boundaries around the statement; a transaction that wrote something has
them around its commit. The place between two boundaries makes no difference to a crash: either the write is stored or
it is not.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

LIBRARY_PACKAGE = "checkpoints"
OUTSIDE_LIBRARY = "outside the library"
_WRITE_SQL_PATTERN = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP)\b|\s*WITH\b.*\b(INSERT INTO|UPDATE|DELETE FROM)\b", re.DOTALL
)
#: Modules whose frames do not identify the writing operation.
_SKIPPED_MODULES = (
    f"{LIBRARY_PACKAGE}.testing",
    f"{LIBRARY_PACKAGE}.db.hot_statements",
    f"{LIBRARY_PACKAGE}.db.authenticated_idempotent_write_guard",
    f"{LIBRARY_PACKAGE}.seals",
)


class Side(StrEnum):
    """Side of a boundary: before or after its write is durable."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Boundary:
    """Write boundary with its number in the process, from 1; `place` is the function of the library that writes."""

    number: int
    side: Side
    place: str

    def __str__(self) -> str:
        return f"boundary {self.number}, {self.side} the write of {self.place}"


Handler = Callable[[Boundary, BaseDatabaseWrapper], None]


@contextmanager
def watch_write_boundaries(handler: Handler) -> Iterator[None]:
    """Call `handler` at every write boundary of this process while the block runs.

    Covers the connections of this thread, and those of other threads that are opened inside the block. An error that
    the handler raises replaces the database's answer.
    """
    watch = ConnectionWatch(handler)
    for connection in connections.all(initialized_only=True):
        watch.watch_connection(connection)
    connection_created.connect(watch.watch_new_connection, weak=False)
    try:
        yield
    finally:
        connection_created.disconnect(watch.watch_new_connection)
        watch.stop_watching()


class ConnectionWatch:
    """Hooks on every watched connection, and the number of the last boundary."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._passed = 0
        self._lock = threading.Lock()
        self._watched: list[BaseDatabaseWrapper] = []
        #: Connections whose transaction has written something.
        self._wrote: set[int] = set()

    def watch_new_connection(self, connection: BaseDatabaseWrapper, **_: object) -> None:
        self.watch_connection(connection)

    def watch_connection(self, connection: BaseDatabaseWrapper) -> None:
        if connection in self._watched:
            return
        self._watched.append(connection)
        connection.execute_wrappers.append(self._execute_and_note_write_boundaries)
        connection.commit = partial(self._commit_between_boundaries, connection)  # type: ignore[method-assign]
        connection.rollback = partial(self._roll_back_without_boundary, connection)  # type: ignore[method-assign]

    def stop_watching(self) -> None:
        for connection in self._watched:
            connection.execute_wrappers.remove(self._execute_and_note_write_boundaries)
            del connection.commit, connection.rollback

    def _execute_and_note_write_boundaries(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        connection: BaseDatabaseWrapper = context["connection"]
        if not _WRITE_SQL_PATTERN.match(sql):
            return execute(sql, params, many, context)
        if connection.in_atomic_block:
            self._wrote.add(id(connection))
            return execute(sql, params, many, context)
        return self._run_write_between_boundaries(connection, lambda: execute(sql, params, many, context))

    def _commit_between_boundaries(self, connection: BaseDatabaseWrapper) -> None:
        commit = partial(type(connection).commit, connection)
        if id(connection) not in self._wrote:
            commit()
            return
        self._wrote.discard(id(connection))
        self._run_write_between_boundaries(connection, commit)

    def _roll_back_without_boundary(self, connection: BaseDatabaseWrapper) -> None:
        self._wrote.discard(id(connection))
        type(connection).rollback(connection)

    def _run_write_between_boundaries(self, connection: BaseDatabaseWrapper, write: Callable[[], Any]) -> Any:
        place = _find_name_of_calling_library_function()
        self._handler(self._create_boundary(Side.BEFORE, place), connection)
        answer = write()
        self._handler(self._create_boundary(Side.AFTER, place), connection)
        return answer

    def _create_boundary(self, side: Side, place: str) -> Boundary:
        with self._lock:
            self._passed += 1
            return Boundary(self._passed, side, place)


def _find_name_of_calling_library_function() -> str:
    """Find the innermost named function of the library on the stack, such as `calls.intent_log.record_issued_call`."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        module, function = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if (
            module.startswith(f"{LIBRARY_PACKAGE}.")
            and not module.startswith(_SKIPPED_MODULES)
            and not function.startswith("<")
        ):
            return f"{module.removeprefix(f'{LIBRARY_PACKAGE}.')}.{function}"
    return OUTSIDE_LIBRARY
