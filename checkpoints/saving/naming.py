"""The models' own names for tables and columns, and their conversion of values, for statements written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

#: Values that go to the driver as they are.
_PLAIN = frozenset({int, str, bytes, type(None)})
_NATIVE = {"sqlite": _PLAIN, "postgresql": _PLAIN | {datetime, Decimal, UUID}}
#: Values whose form depends on nothing but the database, by type: what a field would make of them, in one step.
_ADAPTED: dict[type, Callable[[BaseDatabaseWrapper, Any], Any]] = {
    datetime: lambda connection, moment: connection.ops.adapt_datetimefield_value(moment),
    UUID: lambda _, number: number.hex,
}


@cache
def table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'


@cache
def _field(model: type[models.Model], name: str) -> models.Field[Any, Any]:
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)  # noqa: S101 - a relation's far end has no column
    return field


@cache
def column(model: type[models.Model], field: str) -> str:
    return f'"{_field(model, field).column}"'


def columns(model: type[models.Model], fields: Sequence[str]) -> str:
    return ", ".join(column(model, field) for field in fields)


def marks(count: int) -> str:
    """So many places for parameters."""
    return ", ".join(["%s"] * count)


@cache
def inserting(model: type[models.Model], fields: tuple[str, ...]) -> str:
    return f"INSERT INTO {table(model)} ({columns(model, fields)}) VALUES ({marks(len(fields))})"


def prepared(connection: BaseDatabaseWrapper, model: type[models.Model], values: Mapping[str, Any]) -> list[Any]:
    """Values as the database takes them, in the order given. What its driver converts itself passes as it is."""
    return prepared_row(connection, model, values, values.values())


def prepared_row(
    connection: BaseDatabaseWrapper, model: type[models.Model], fields: Iterable[str], values: Iterable[Any]
) -> list[Any]:
    """`prepared` for values that stand beside their fields' names."""
    native = _NATIVE[connection.vendor]
    return [
        value if type(value) in native else _converted(connection, model, field, value)
        for field, value in zip(fields, values, strict=True)
    ]


def _converted(connection: BaseDatabaseWrapper, model: type[models.Model], field: str, value: Any) -> Any:
    if isinstance(value, str):  # a member of an enum
        return str(value)
    adapted = _ADAPTED.get(type(value))
    if adapted is not None:
        return adapted(connection, value)
    return _field(model, field).get_db_prep_save(value, connection)
