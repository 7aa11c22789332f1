"""Writing rows with COPY, many sessions in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import count
from operator import attrgetter
from typing import Any, Final

from django.db import connection, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Max, Model
from django.db.models.expressions import DatabaseDefault

from benchmarks.load.building import MESSAGE_FIELDS, Built, rows_of
from checkpoints.models import Checkpoint, Decision, Message, Run, Segment, Session, ToolCall
from checkpoints.saving.naming import columns, table

#: In the order in which they may be written; constraints look at the end of the transaction.
_MODELS: Final[tuple[type[Model], ...]] = (Session, Segment, Run, Message, Checkpoint, ToolCall, Decision)
_PLAIN: Final = frozenset({int, str, bytes, bool, type(None), datetime})
_NUMBERED: Final = tuple(model for model in _MODELS if model is not Run)


class Keys:
    """Keys that follow those which are in the tables. Nobody else may write meanwhile."""

    def __init__(self) -> None:
        self._next = {model: count((_last(model) or 0) + 1) for model in _NUMBERED}

    def __call__(self, model: type[Model]) -> int:
        return next(self._next[model])


def _last(model: type[Model]) -> int | None:
    found: int | None = model._default_manager.aggregate(last=Max("pk"))["last"]
    return found


class Writer:
    """Writes what it is given while the next is made: `with Writer() as write: write(sessions)`."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def __enter__(self) -> Callable[[Iterable[Built]], None]:
        return self._write

    def __exit__(self, *_: object) -> None:
        try:
            self._wait()
        finally:
            self._thread.submit(connections.close_all).result()
            self._thread.shutdown()

    def _write(self, sessions: Iterable[Built]) -> None:
        self._wait()
        self._last = self._thread.submit(write, sessions)

    def _wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()


def write(sessions: Iterable[Built]) -> None:
    """All of these sessions, or none."""
    rows: defaultdict[type[Model], list[tuple[Any, ...]]] = defaultdict(list)
    for built in sessions:
        rows[Message] += built.messages
        for row in rows_of(built):
            rows[type(row)].append(_values(row, built.session.updated_at))
    with transaction.atomic(), connection.cursor() as cursor:
        _trust(cursor)
        for model in _MODELS:
            fields = MESSAGE_FIELDS if model is Message else _fields(model)
            with cursor.copy(f"COPY {table(model)} ({columns(model, fields)}) FROM STDIN") as copy:
                for values in rows[model]:
                    copy.write_row(values)


def _trust(cursor: CursorWrapper) -> None:
    """Where this role may say so, no reference is checked row by row: all lead to rows of the same transaction."""
    cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    if cursor.fetchone() == (True,):
        cursor.execute("SET LOCAL session_replication_role = replica")


def finish() -> None:
    """Let the tables give out the keys that follow, and the planner know what is in them."""
    with connection.cursor() as cursor:
        for model in _NUMBERED:
            name = model._meta.db_table
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence(%s, 'id'), (SELECT max(id) FROM {table(model)}))",  # noqa: S608
                [name],
            )
        for model in _MODELS:
            cursor.execute(f"ANALYZE {table(model)}")


def _fields(model: type[Model]) -> tuple[str, ...]:
    return tuple(field.name for field in model._meta.concrete_fields)


@cache
def _read(model: type[Model]) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*(field.attname for field in model._meta.concrete_fields))


def _values(row: Model, at: datetime) -> tuple[Any, ...]:
    return tuple(value if type(value) in _PLAIN else _value(value, at) for value in _read(type(row))(row))


def _value(value: Any, at: datetime) -> Any:
    if isinstance(value, DatabaseDefault):
        return at
    return value.value if isinstance(value, Enum) else value
