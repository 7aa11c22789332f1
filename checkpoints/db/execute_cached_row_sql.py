"""Rows of models, read and inserted by SQL that is built once: compiling a query of the ORM would take longer than it.

What is inserted here has no seal. If there is a key, rows of a sealed model go through the ORM, or their seal is
written in the same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeVar

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models.expressions import DatabaseDefault

from checkpoints.db.sql_names_and_values import (
    convert_values,
    convert_values_of_fields,
    make_placeholders,
    quote_column,
    quote_columns,
    quote_table,
)
from checkpoints.exceptions import RowNotStored
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.sealed_model import SealedModel

SomeModel = TypeVar("SomeModel", bound=models.Model)
JoinedModel = TypeVar("JoinedModel", bound=models.Model)
#: SQL by which a row that exists already stays as it is.
DO_NOTHING: Final = "ON CONFLICT DO NOTHING"
#: Number of rows of one statement, below the limits of both databases.
_BATCH_SIZE = 100


def load_rows_where(using: str, model: type[SomeModel], conditions: str, params: Sequence[Any]) -> list[SomeModel]:
    """Read the rows of a model.

    Args:
        using: Connection alias.
        model: Model of the rows.
        conditions: SQL behind the name of the table.
        params: Parameters of the SQL.

    Returns:
        The rows, as the ORM gives them.
    """
    columns = _get_names_columns_and_converters(model)[1]
    return _load_rows_by_sql(using, model, f"SELECT {columns} FROM {quote_table(model)} {conditions}", params)


def update_and_return_rows(
    using: str, model: type[SomeModel], changes: str, conditions: str, params: Sequence[Any]
) -> list[SomeModel]:
    """Update the rows of a model, which are locked by that, and return them as they are then.

    `changes` is SQL behind SET. The rest is as in `load_rows_where`. The rows get no seal.
    """
    columns = _get_names_columns_and_converters(model)[1]
    sql = f"UPDATE {quote_table(model)} SET {changes} {conditions} RETURNING {columns}"
    return _load_rows_by_sql(using, model, sql, params)


def _load_rows_by_sql(using: str, model: type[SomeModel], sql: str, params: Sequence[Any]) -> list[SomeModel]:
    connection = connections[using]
    if connection.vendor != "postgresql":  # its columns have converters of the connection
        return list(model._default_manager.using(using).raw(sql, params))
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows = cursor.fetchall()
    return [_build_row_from_postgresql(connection, model, list(row)) for row in rows]


def load_rows_with_joined_rows(
    using: str, model: type[SomeModel], joined_model: type[JoinedModel], source: str, params: Sequence[Any]
) -> list[tuple[SomeModel, JoinedModel | None]]:
    """Read rows of two models by one statement. Only on PostgreSQL.

    Args:
        using: Connection alias.
        model: Model of the rows.
        joined_model: Model of the rows that are joined to them.
        source: SQL behind FROM. The first model is called `row` there, and the other one `joined`.
        params: Parameters of the SQL.

    Returns:
        The rows, as the ORM gives them, once for each row that is joined; with None without one.
    """
    connection, sql = connections[using], f"SELECT {_build_columns_of_joined_rows(model, joined_model)} FROM {source}"
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        found = cursor.fetchall()
    count, key = len(model._meta.concrete_fields), _get_index_of_key(joined_model)
    return [
        (
            _build_row_from_postgresql(connection, model, list(values[:count])),
            None
            if values[count + key] is None
            else _build_row_from_postgresql(connection, joined_model, list(values[count:])),
        )
        for values in found
    ]


@cache
def _build_columns_of_joined_rows(model: type[models.Model], joined_model: type[models.Model]) -> str:
    names = [f"row.{quote_column(model, field.name)}" for field in model._meta.concrete_fields]
    names += [f"joined.{quote_column(joined_model, field.name)}" for field in joined_model._meta.concrete_fields]
    return ", ".join(names)


@cache
def _get_index_of_key(model: type[models.Model]) -> int:
    return model._meta.concrete_fields.index(model._meta.pk)


def _build_row_from_postgresql(connection: BaseDatabaseWrapper, model: type[SomeModel], values: list[Any]) -> SomeModel:
    """Build the object of a row from all of its columns, which are converted in place."""
    names, _, converters = _get_names_columns_and_converters(model)
    for index, field in converters:
        values[index] = field.from_db_value(values[index], None, connection)
    return model.from_db(connection.alias, names, values)


@cache
def _get_names_columns_and_converters(model: type[models.Model]) -> tuple[list[str], str, list[tuple[int, Any]]]:
    """Return the attributes of a model, the SQL of their columns, and the fields that convert what was read."""
    fields = model._meta.concrete_fields
    columns = quote_columns(model, [field.name for field in fields])
    converters = [(index, field) for index, field in enumerate(fields) if hasattr(field, "from_db_value")]
    return [field.attname for field in fields], columns, converters


def insert_rows_and_set_keys(using: str, rows: Sequence[models.Model]) -> None:
    """Insert new rows of one model, which have their primary keys then. The database fills columns with a default of
    its own.

    The rows get no seals: a caller whose model has seals writes them in the same transaction.
    """
    by_fields: defaultdict[tuple[str, ...], list[tuple[models.Model, dict[str, Any]]]] = defaultdict(list)
    for row in rows:
        values = {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}
        given = {name: value for name, value in values.items() if not isinstance(value, DatabaseDefault)}
        if row.pk is None:
            del given[row._meta.pk.name]
        by_fields[tuple(given)].append((row, given))
    connection = connections[using]
    with connection.cursor() as cursor:
        for fields, group in by_fields.items():
            for start in range(0, len(group), _BATCH_SIZE):
                _insert_batch_and_set_keys(connection, cursor, fields, group[start : start + _BATCH_SIZE])


def _insert_batch_and_set_keys(
    connection: BaseDatabaseWrapper,
    cursor: CursorWrapper,
    fields: tuple[str, ...],
    batch: Sequence[tuple[models.Model, dict[str, Any]]],
) -> None:
    model = type(batch[0][0])
    key = model._meta.pk
    sql = f"{_build_insert_sql(model, fields, len(batch), '')}RETURNING {quote_column(model, key.name)}"
    cursor.execute(sql, [value for _, given in batch for value in convert_values(connection, model, given)])
    stored = cursor.fetchall()
    if len(stored) != len(batch):
        raise RowNotStored(str(model._meta.db_table))
    for (row, _), (pk,) in zip(batch, stored, strict=True):
        row.pk = key.to_python(pk)
        row._state.adding, row._state.db = False, connection.alias


def insert_rows_sealed_if_enabled(using: str, rows: Sequence[SealedModel]) -> None:
    """Insert new rows of a sealed model, which have their primary keys then, with their seals if there is a key."""
    if get_seal_keys() is None:
        insert_rows_and_set_keys(using, rows)
    elif rows:
        type(rows[0])._default_manager.using(using).bulk_create(rows)


def update_columns_of_rows(
    using: str, model: type[models.Model], fields: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> None:
    """Write columns of rows.

    Args:
        using: Connection alias.
        model: Model of the rows.
        fields: Names of the columns' fields. No seal covers them, or they contain it.
        rows: Values of the fields, and the primary key as the last value.
    """
    if not rows:
        return
    connection, names = connections[using], (*fields, model._meta.pk.name)
    with connection.cursor() as cursor:
        params = [convert_values_of_fields(connection, model, names, row) for row in rows]
        cursor.executemany(_build_update_sql(model, fields), params)


@cache
def _build_update_sql(model: type[models.Model], fields: tuple[str, ...]) -> str:
    sets = ", ".join(f"{quote_column(model, field)} = %s" for field in fields)
    return f"UPDATE {quote_table(model)} SET {sets} WHERE {quote_column(model, model._meta.pk.name)} = %s"


def insert_rows_of_field_values(
    using: str,
    model: type[models.Model],
    fields: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    *,
    on_conflict: str = "",
) -> None:
    """Insert rows of a model.

    Args:
        using: Connection alias.
        model: Model of the rows.
        fields: Names of the fields that are given. The database has defaults for the others.
        rows: Values of the fields.
        on_conflict: SQL that says what happens to a row that exists already, such as `DO_NOTHING`; an error without.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _BATCH_SIZE):
            batch = rows[start : start + _BATCH_SIZE]
            params = [value for row in batch for value in convert_values_of_fields(connection, model, fields, row)]
            cursor.execute(_build_insert_sql(model, fields, len(batch), on_conflict), params)


@cache
def _build_insert_sql(model: type[models.Model], fields: tuple[str, ...], count: int, on_conflict: str) -> str:
    row = f"({make_placeholders(len(fields))})"
    return (
        f"INSERT INTO {quote_table(model)} ({quote_columns(model, fields)}) VALUES {', '.join([row] * count)} "
        f"{on_conflict}"
    )
