"""Insertion of many rows of one table at once: by COPY on PostgreSQL, by one prepared statement on SQLite.

A statement for each row would be planned each time on PostgreSQL, and the driver would convert and send it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from checkpoints.db.sql_quoting import build_insert_sql, quote_columns, quote_table


def insert_converted_rows(
    connection: BaseDatabaseWrapper,
    cursor: CursorWrapper,
    model: type[models.Model],
    fields: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Insert new rows in the open transaction. Nothing without rows.

    Args:
        connection: Connection of the cursor.
        cursor: Cursor that inserts them.
        model: Model of the rows.
        fields: Names of the fields that are given. The database has defaults for the others.
        rows: Values of the fields, as `convert_values` converts them.
    """
    if not rows:
        return
    if connection.vendor != "postgresql":
        cursor.executemany(build_insert_sql(model, fields), rows)
        return
    with connection.wrap_database_errors, cursor.copy(_build_copy_sql(model, fields)) as copy:
        for row in rows:
            copy.write_row(row)


@cache
def _build_copy_sql(model: type[models.Model], fields: tuple[str, ...]) -> str:
    return f"COPY {quote_table(model)} ({quote_columns(model, fields)}) FROM STDIN"
