"""Writer of generated rows with COPY, many sessions in one transaction."""

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

from benchmarks.load.generated_session_rows import MESSAGE_FIELDS, GeneratedSession, iterate_rows_except_messages
from checkpoints.db.sql_names_and_values import quote_columns, quote_table
from checkpoints.models import Checkpoint, Decision, Message, Run, Segment, Session, ToolCall

#: In the order of writing; constraints are checked at the end of the transaction.
_MODELS: Final[tuple[type[Model], ...]] = (Session, Segment, Run, Message, Checkpoint, ToolCall, Decision)
_COPYABLE_TYPES: Final = frozenset({int, str, bytes, bool, type(None), datetime})
_NUMBERED: Final = tuple(model for model in _MODELS if model is not Run)


class KeyAllocator:
    """Allocator of the keys after those in the tables. No other process may write meanwhile."""

    def __init__(self) -> None:
        self._next = {model: count((_get_last_key(model) or 0) + 1) for model in _NUMBERED}

    def __call__(self, model: type[Model]) -> int:
        return next(self._next[model])


def _get_last_key(model: type[Model]) -> int | None:
    last_key: int | None = model._default_manager.aggregate(last=Max("pk"))["last"]
    return last_key


class BackgroundSessionWriter:
    """Background writer: `with SessionWriter() as write: write(sessions)` returns while the rows are written."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def __enter__(self) -> Callable[[Iterable[GeneratedSession]], None]:
        return self._start_write_after_last_one

    def __exit__(self, *_: object) -> None:
        try:
            self._wait_for_last_write()
        finally:
            self._thread.submit(connections.close_all).result()
            self._thread.shutdown()

    def _start_write_after_last_one(self, sessions: Iterable[GeneratedSession]) -> None:
        self._wait_for_last_write()
        self._last = self._thread.submit(write_sessions_with_sql_copy, sessions)

    def _wait_for_last_write(self) -> None:
        last_write, self._last = self._last, None
        if last_write is not None:
            last_write.result()


def write_sessions_with_sql_copy(sessions: Iterable[GeneratedSession]) -> None:
    """Write all of these sessions in one transaction."""
    rows: defaultdict[type[Model], list[tuple[Any, ...]]] = defaultdict(list)
    for generated in sessions:
        rows[Message] += generated.messages
        for row in iterate_rows_except_messages(generated):
            rows[type(row)].append(_convert_row_to_copy_values(row, generated.session.updated_at))
    with transaction.atomic(), connection.cursor() as cursor:
        _skip_foreign_key_checks_if_superuser(cursor)
        for model in _MODELS:
            fields = MESSAGE_FIELDS if model is Message else _list_concrete_field_names(model)
            with cursor.copy(f"COPY {quote_table(model)} ({quote_columns(model, fields)}) FROM STDIN") as copy:
                for values in rows[model]:
                    copy.write_row(values)


def _skip_foreign_key_checks_if_superuser(cursor: CursorWrapper) -> None:
    """Skip foreign key checks if this role may; all references point to rows of the same transaction."""
    cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    if cursor.fetchone() == (True,):
        cursor.execute("SET LOCAL session_replication_role = replica")


def reset_sequences_and_analyze() -> None:
    """Set the sequences behind the written keys, and update the planner's statistics."""
    with connection.cursor() as cursor:
        for model in _NUMBERED:
            name = model._meta.db_table
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence(%s, 'id'), (SELECT max(id) FROM {quote_table(model)}))",  # noqa: S608
                [name],
            )
        for model in _MODELS:
            cursor.execute(f"ANALYZE {quote_table(model)}")


def _list_concrete_field_names(model: type[Model]) -> tuple[str, ...]:
    return tuple(field.name for field in model._meta.concrete_fields)


@cache
def _make_column_values_getter(model: type[Model]) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*(field.attname for field in model._meta.concrete_fields))


def _convert_row_to_copy_values(row: Model, updated_at: datetime) -> tuple[Any, ...]:
    return tuple(
        value if type(value) in _COPYABLE_TYPES else _replace_database_default_or_enum(value, updated_at)
        for value in _make_column_values_getter(type(row))(row)
    )


def _replace_database_default_or_enum(value: Any, updated_at: datetime) -> Any:
    if isinstance(value, DatabaseDefault):
        return updated_at
    return value.value if isinstance(value, Enum) else value
