"""Names of tables and columns, and conversion of values, for SQL statements written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.formats.plain_and_delta_compression import TextToCompress
from checkpoints.models.packed_fields import PACKED_FIELDS

#: Types that the driver converts.
_PLAIN_TYPES = frozenset({int, str, bytes, type(None)})
_NATIVE_TYPES = {"sqlite": _PLAIN_TYPES, "postgresql": _PLAIN_TYPES | {datetime, Decimal, UUID}}


@cache
def quote_table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'


@cache
def _get_model_field(model: type[models.Model], name: str) -> models.Field[Any, Any]:
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)  # noqa: S101 - a relation's far end has no column
    return field


@cache
def quote_column(model: type[models.Model], field: str) -> str:
    return f'"{_get_model_field(model, field).column}"'


def quote_columns(model: type[models.Model], fields: Sequence[str]) -> str:
    return ", ".join(quote_column(model, field) for field in fields)


def make_placeholders(count: int) -> str:
    """Build `count` parameter placeholders."""
    return ", ".join(["%s"] * count)


@cache
def build_insert_sql(model: type[models.Model], fields: tuple[str, ...]) -> str:
    return (
        f"INSERT INTO {quote_table(model)} ({quote_columns(model, fields)}) VALUES ({make_placeholders(len(fields))})"
    )


def convert_values(connection: BaseDatabaseWrapper, model: type[models.Model], values: Mapping[str, Any]) -> list[Any]:
    """Convert values to those the database takes, in the order given. Values that its driver converts are not
    changed."""
    return convert_values_of_fields(connection, model, values, values.values())


def convert_values_of_fields(
    connection: BaseDatabaseWrapper, model: type[models.Model], fields: Iterable[str], values: Iterable[Any]
) -> list[Any]:
    """Convert values as `convert_values` does, given beside their field names."""
    native, packed = _NATIVE_TYPES[connection.vendor], _map_packed_fields_by_name(model)
    return [
        value
        if type(value) in native and field not in packed
        else _convert_to_column_value(connection, model, field, value)
        for field, value in zip(fields, values, strict=True)
    ]


@cache
def _map_packed_fields_by_name(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    return {field.name: field for field in model._meta.concrete_fields if isinstance(field, PACKED_FIELDS)}


def _convert_to_column_value(connection: BaseDatabaseWrapper, model: type[models.Model], field: str, value: Any) -> Any:
    packed = _map_packed_fields_by_name(model).get(field)
    if packed is not None:
        return packed.get_db_prep_save(value, connection)
    if isinstance(value, TextToCompress):
        return value.compress_if_shorter()
    if isinstance(value, str):  # an enum member
        return str(value)
    # What depends only on the database has the same result as the field's own conversion, which takes longer.
    if type(value) is UUID:
        return value.hex
    if type(value) is datetime:
        if value.tzinfo is UTC and connection.vendor == "sqlite" and connection.timezone_name == "UTC":
            return value.isoformat(" ")[: -len("+00:00")]
        return connection.ops.adapt_datetimefield_value(value)
    return _get_model_field(model, field).get_db_prep_save(value, connection)
