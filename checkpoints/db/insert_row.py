"""Insert of one row by SQL, in a fraction of the time that the ORM takes."""

from __future__ import annotations

from django.db import connections, models
from django.db.models.expressions import DatabaseDefault

from checkpoints.db.sql_fragments import build_insert, convert_values, quote_column


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
        sql = f"{build_insert(model, tuple(given))} RETURNING {quote_column(model, key.name)}"
        cursor.execute(sql, convert_values(connection, model, given))
        row.pk = key.to_python(cursor.fetchone()[0])
    row._state.adding, row._state.db = False, using
