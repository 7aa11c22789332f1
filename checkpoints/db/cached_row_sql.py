"""Rows of models, read and inserted by SQL that is built once: compiling a query of the ORM would take longer than it.

What is inserted here has no seal. If there is a key, rows of a sealed model go through the ORM, or their seal is
written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeVar

from django.db import connections, models
from django.db.models.expressions import DatabaseDefault

from checkpoints.db.sql_quoting import (
    build_insert_sql,
    convert_values,
    convert_values_of_fields,
    make_placeholders,
    quote_column,
    quote_columns,
    quote_table,
)
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.sealed_model import SealedModel

SomeModel = TypeVar("SomeModel", bound=models.Model)
#: SQL by which a row that exists already stays as it is.
DO_NOTHING: Final = "ON CONFLICT DO NOTHING"
#: Number of rows of one statement, below the limits of both databases.
_BATCH_SIZE = 100


def select_rows(using: str, model: type[SomeModel], conditions: str, params: Sequence[Any]) -> list[SomeModel]:
    """Read the rows of a model.

    Args:
        using: Connection alias.
        model: Model of the rows.
        conditions: SQL behind the name of the table.
        params: Parameters of the SQL.

    Returns:
        The rows, as the ORM gives them.
    """
    columns = _get_model_columns(model)[1]
    return _fetch_rows(using, model, f"SELECT {columns} FROM {quote_table(model)} {conditions}", params)


def update_rows(
    using: str, model: type[SomeModel], changes: str, conditions: str, params: Sequence[Any]
) -> list[SomeModel]:
    """Update the rows of a model, which are locked by that, and return them as they are then.

    `changes` is SQL behind SET. The rest is as in `select_rows`. The rows get no seal.
    """
    columns = _get_model_columns(model)[1]
    sql = f"UPDATE {quote_table(model)} SET {changes} {conditions} RETURNING {columns}"
    return _fetch_rows(using, model, sql, params)


def _fetch_rows(using: str, model: type[SomeModel], sql: str, params: Sequence[Any]) -> list[SomeModel]:
    names, _, converters = _get_model_columns(model)
    if connections[using].vendor != "postgresql":  # its columns have converters of the connection
        return list(model._default_manager.using(using).raw(sql, params))
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        rows = cursor.fetchall()
    if converters:
        connection = connections[using]
        rows = [list(row) for row in rows]
        for row in rows:
            for index, field in converters:
                row[index] = field.from_db_value(row[index], None, connection)
    return [model.from_db(using, names, row) for row in rows]


@cache
def _get_model_columns(model: type[models.Model]) -> tuple[list[str], str, list[tuple[int, Any]]]:
    """Return the attributes of a model, the SQL of their columns, and the fields that convert what was read."""
    fields = model._meta.concrete_fields
    columns = quote_columns(model, [field.name for field in fields])
    converters = [(index, field) for index, field in enumerate(fields) if hasattr(field, "from_db_value")]
    return [field.attname for field in fields], columns, converters


def insert_row(using: str, row: models.Model) -> None:
    """Insert a new row, which has its primary key then. The database fills columns with a default of its own.

    The row gets no seal: a caller whose model has seals writes it in the same transaction.
    """
    connection, model, key = connections[using], type(row), row._meta.pk
    values = {field.name: getattr(row, field.attname) for field in model._meta.concrete_fields}
    given = {name: value for name, value in values.items() if not isinstance(value, DatabaseDefault)}
    if row.pk is None:
        del given[key.name]
    with connection.cursor() as cursor:
        sql = f"{build_insert_sql(model, tuple(given))} RETURNING {quote_column(model, key.name)}"
        cursor.execute(sql, convert_values(connection, model, given))
        row.pk = key.to_python(cursor.fetchone()[0])
    row._state.adding, row._state.db = False, using


def insert_sealed_row(using: str, row: SealedModel) -> None:
    """Insert a new row of a sealed model, which has its primary key then, with its seal if there is a key."""
    if get_seal_keys() is None:
        insert_row(using, row)
    else:
        row.save(using=using, force_insert=True)


def update_columns(using: str, row: models.Model, **values: Any) -> None:
    """Write columns of a row that no seal covers."""
    connection, model = connections[using], type(row)
    with connection.cursor() as cursor:
        params = convert_values(connection, model, {**values, model._meta.pk.name: row.pk})
        cursor.execute(_build_update_sql(model, tuple(values)), params)


@cache
def _build_update_sql(model: type[models.Model], fields: tuple[str, ...]) -> str:
    sets = ", ".join(f"{quote_column(model, field)} = %s" for field in fields)
    return f"UPDATE {quote_table(model)} SET {sets} WHERE {quote_column(model, model._meta.pk.name)} = %s"


def insert_rows(
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
