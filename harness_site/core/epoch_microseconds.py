"""Moments as integers: microseconds since 1970.

A timeline reads, compares and sorts thousands of them, which takes several times as long with datetimes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, Func
from django.db.models.sql.compiler import SQLCompiler

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def convert_to_microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def convert_to_datetime(instant: int) -> datetime:
    """Convert microseconds since 1970 to a datetime in UTC."""
    return _EPOCH + instant * _MICROSECOND


def fill_open_range_ends(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """Replace open ends of a range by bounds beyond all possible moments."""
    return since or _FIRST, until or _LAST


class Instant(Func):
    """A time column as microseconds since 1970.

    SQLite stores times as text with a variable number of decimals.
    """

    output_field = BigIntegerField()

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        return []  # both databases return integers

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        # A float distinguishes microseconds until the year 2242; numeric arithmetic costs far more.
        seconds = "DATE_PART('epoch', %(expressions)s)"
        return self.as_sql(compiler, connection, template=f"({seconds} * 1000000)::bigint", **context)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        seconds = "CAST(STRFTIME('%%%%s', SUBSTR(%(expressions)s, 1, 19)) AS INTEGER)"
        fraction = "CAST(SUBSTR(%(expressions)s || '000000', 21, 6) AS INTEGER)"
        return self.as_sql(compiler, connection, template=f"({seconds} * 1000000 + {fraction})", **context)
