"""Write boundaries: the moments just before a write becomes durable, and just after.

A statement outside a transaction has its boundaries around the statement; a transaction that wrote something has
them around its commit. What lies between two boundaries is all the same to a crash: either the write is there or it
is not.
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

LIBRARY = "checkpoints"
OUTSIDE = "outside the library"
_WRITES = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP)\b|\s*WITH\b.*\b(INSERT INTO|UPDATE|DELETE FROM)\b", re.DOTALL
)
#: Frames that say nothing about which operation writes.
_ANONYMOUS = (f"{LIBRARY}.testing", f"{LIBRARY}.saving.statements", f"{LIBRARY}.saving.operations")


class Side(StrEnum):
    """Whether the write of a boundary is already there."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Boundary:
    """The `number`-th boundary of a process, counted from 1; `place` is the function of the library that writes."""

    number: int
    side: Side
    place: str

    def __str__(self) -> str:
        return f"boundary {self.number}, {self.side} the write of {self.place}"


Handler = Callable[[Boundary, BaseDatabaseWrapper], None]


@contextmanager
def watched(handler: Handler) -> Iterator[None]:
    """Call `handler` at every write boundary of this process while the block runs.

    Sees the connections of this thread, and those of other threads that are opened inside the block. What the handler
    raises takes the place of the database's answer.
    """
    watch = Watch(handler)
    for connection in connections.all(initialized_only=True):
        watch.over(connection)
    connection_created.connect(watch.on_connection, weak=False)
    try:
        yield
    finally:
        connection_created.disconnect(watch.on_connection)
        watch.end()


class Watch:
    """The hooks on every connection that is watched, and the number of the last boundary."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._passed = 0
        self._lock = threading.Lock()
        self._watched: list[BaseDatabaseWrapper] = []
        #: Connections whose transaction has written something.
        self._wrote: set[int] = set()

    def on_connection(self, connection: BaseDatabaseWrapper, **_: object) -> None:
        self.over(connection)

    def over(self, connection: BaseDatabaseWrapper) -> None:
        if connection in self._watched:
            return
        self._watched.append(connection)
        connection.execute_wrappers.append(self._execute)
        connection.commit = partial(self._commit, connection)  # type: ignore[method-assign]
        connection.rollback = partial(self._rollback, connection)  # type: ignore[method-assign]

    def end(self) -> None:
        for connection in self._watched:
            connection.execute_wrappers.remove(self._execute)
            del connection.commit, connection.rollback

    def _execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        connection: BaseDatabaseWrapper = context["connection"]
        if not _WRITES.match(sql):
            return execute(sql, params, many, context)
        if connection.in_atomic_block:
            self._wrote.add(id(connection))
            return execute(sql, params, many, context)
        return self._around(connection, lambda: execute(sql, params, many, context))

    def _commit(self, connection: BaseDatabaseWrapper) -> None:
        commit = partial(type(connection).commit, connection)
        if id(connection) not in self._wrote:
            commit()
            return
        self._wrote.discard(id(connection))
        self._around(connection, commit)

    def _rollback(self, connection: BaseDatabaseWrapper) -> None:
        self._wrote.discard(id(connection))
        type(connection).rollback(connection)

    def _around(self, connection: BaseDatabaseWrapper, write: Callable[[], Any]) -> Any:
        place = _place()
        self._handler(self._next(Side.BEFORE, place), connection)
        answer = write()
        self._handler(self._next(Side.AFTER, place), connection)
        return answer

    def _next(self, side: Side, place: str) -> Boundary:
        with self._lock:
            self._passed += 1
            return Boundary(self._passed, side, place)


def _place() -> str:
    """The innermost named function of the library that is at work, such as `saving.issuing.issue`."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        module, function = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if module.startswith(f"{LIBRARY}.") and not module.startswith(_ANONYMOUS) and not function.startswith("<"):
            return f"{module.removeprefix(f'{LIBRARY}.')}.{function}"
    return OUTSIDE
