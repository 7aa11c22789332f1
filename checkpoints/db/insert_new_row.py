"""Insert of one new row past the ORM, which takes several times as long."""

from __future__ import annotations

from django.db import connections, models
from django.db.models.expressions import DatabaseDefault

from checkpoints.db.sql_quoting import build_insert, convert_values, quote_column
from checkpoints.seals.keys import get_seal_keys


def insert_new_row(using: str, row: models.Model) -> None:
    """Insert a new row; with a key for seals, as its model saves it. Columns that the database fills are left to it.

    The row gets the primary key that it has then.
    """
    if get_seal_keys() is not None:
        row.save(using=using, force_insert=True)
        return
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
