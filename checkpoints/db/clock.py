"""Clocks. Leases and deadlines are compared with the database's clock, never with this process's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from django.db import connections
from django.db.models import DateTimeField, ExpressionWrapper, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

#: Function that returns this process's time, for display only.
now: Final = partial(datetime.now, UTC)


def read_database_time(using: str) -> datetime:
    """Return the database's time."""
    connection = connections[using]
    sql = (
        "SELECT STATEMENT_TIMESTAMP()"
        if connection.vendor == "postgresql"
        else "SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        (value,) = cursor.fetchone()
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)


def build_database_time_after(delta: timedelta) -> ExpressionWrapper[CombinedExpression]:
    """Expression for the database's time plus `delta`, for use in queries and updates."""
    return ExpressionWrapper(Now() + Value(delta), output_field=DateTimeField())
