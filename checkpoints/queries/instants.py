"""Moments as whole numbers: microseconds since 1970.

A timeline reads, compares and sorts thousands of them; as datetimes, each of these takes several times as long.
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


def instant(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(instant: int) -> datetime:
    """The inverse of `instant`, in UTC."""
    return _EPOCH + instant * _MICROSECOND


def closed(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """A time whose ends may be open, with two: all moments lie between those that stand for an open one."""
    return since or _FIRST, until or _LAST


class Instant(Func):
    """A column with a time, as `instant` has it. SQLite keeps a time as text, with any number of digits behind it."""

    output_field = BigIntegerField()

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        return []  # both databases answer with whole numbers

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        # Seconds as a float tell microseconds apart until the year 2242; as a number without end they cost far more.
        seconds = "DATE_PART('epoch', %(expressions)s)"
        return self.as_sql(compiler, connection, template=f"({seconds} * 1000000)::bigint", **context)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        seconds = "CAST(STRFTIME('%%%%s', SUBSTR(%(expressions)s, 1, 19)) AS INTEGER)"
        rest = "CAST(SUBSTR(%(expressions)s || '000000', 21, 6) AS INTEGER)"
        return self.as_sql(compiler, connection, template=f"({seconds} * 1000000 + {rest})", **context)
