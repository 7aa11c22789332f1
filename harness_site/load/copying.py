"""Writing rows with COPY, many sessions in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from itertools import count
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Max, Model
from django.db.models.expressions import DatabaseDefault

from checkpoints.models import Checkpoint, Decision, Message, Run, Segment, Session, ToolCall
from checkpoints.saving.naming import columns, table
from harness_site.load.building import MESSAGE_FIELDS, Built, rows_of

#: In the order in which they may be written; constraints look at the end of the transaction.
_MODELS: Final[tuple[type[Model], ...]] = (Session, Segment, Run, Message, Checkpoint, ToolCall, Decision)
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


def write(sessions: Iterable[Built]) -> None:
    """All of these sessions, or none."""
    rows: defaultdict[type[Model], list[tuple[Any, ...]]] = defaultdict(list)
    for built in sessions:
        rows[Message] += built.messages
        for row in rows_of(built):
            rows[type(row)].append(_values(row, built.session.updated_at))
    with transaction.atomic(), connection.cursor() as cursor:
        for model in _MODELS:
            fields = MESSAGE_FIELDS if model is Message else _fields(model)
            with cursor.copy(f"COPY {table(model)} ({columns(model, fields)}) FROM STDIN") as copy:
                for values in rows[model]:
                    copy.write_row(values)


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


def _values(row: Model, at: datetime) -> tuple[Any, ...]:
    return tuple(_value(getattr(row, field.attname), at) for field in row._meta.concrete_fields)


def _value(value: Any, at: datetime) -> Any:
    if isinstance(value, DatabaseDefault):
        return at
    return value.value if isinstance(value, Enum) else value
