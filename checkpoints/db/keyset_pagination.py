"""Keyset pagination: pages of long lists start after the last row seen, at constant cost for any page.

The comparison is one tuple comparison, which both databases answer from an index on the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, DecimalField, F, Func, Model, QuerySet, TextField, Value
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast
from django.db.models.lookups import GreaterThan, LessThan
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.exceptions import InvalidInput
from checkpoints.generate_and_validate_ids import validate_integer

#: Format of a time in either database, with a time zone that both accept.
_TIME_TOKEN = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?(?:[+-](?:0[0-9]|1[0-4])(?::[0-5][0-9])?)?)~([0-9]{1,18})"
)

_AMOUNT_TOKEN = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,6})?)~([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Last row of a page: its time as the database writes it, and its id.

    The database's own text is kept because SQLite compares times as text, and a time that went through Python may
    come back with other digits after the decimal point.
    """

    time: str
    pk: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """Parse the cursor that `str` made; None if `token` is something else."""
        match = _TIME_TOKEN.fullmatch(token)
        if match is None:
            return None
        try:
            time = datetime.fromisoformat(match[1])
            (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.time}~{self.pk}"


@dataclass(frozen=True, slots=True)
class AmountCursor:
    """Last row of a page that is ordered by an amount."""

    amount: Decimal
    pk: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """Parse the cursor that `str` made; None if `token` is something else."""
        match = _AMOUNT_TOKEN.fullmatch(token)
        return None if match is None else cls(Decimal(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.amount}~{self.pk}"


def build_newest_first_ordering() -> OrderBy:
    """Order by key, newest first, within one session.

    The expression is a sum, because a database that sees the bare key may scan the rows of all sessions backwards
    until it has found enough of this one: minutes, if the session is old.
    """
    return (F("pk") + 0).desc()


def build_oldest_first_ordering() -> OrderBy:
    """Order by key, oldest first, within one session."""
    return (F("pk") + 0).asc()


class _RowValue(Func):
    template = "(%(expressions)s)"
    output_field = BooleanField()


class _StoredTime(Func):
    """Time in the database's own text, cast to a time if that is not the same."""

    template = "%(expressions)s"
    output_field = TextField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="(%(expressions)s)::timestamptz", **context)


def cast_field_to_text(field: str) -> Cast:
    """Cast a field to the text of the database. Of a time, it makes the `Cursor` of a row."""
    return Cast(field, TextField())


def build_before_cursor_condition(cursor: Cursor, field: str) -> LessThan:
    """Condition for the rows that follow `cursor` in a list that is ordered by `-field, -pk`."""
    return LessThan(_RowValue(F(field), F("pk")), _build_row_value_of_cursor(cursor))


def build_after_cursor_condition(cursor: Cursor, field: str) -> GreaterThan:
    """Condition for the rows that follow `cursor` in a list that is ordered by `field, pk`."""
    return GreaterThan(_RowValue(F(field), F("pk")), _build_row_value_of_cursor(cursor))


def build_below_amount_cursor_condition(cursor: AmountCursor, field: str) -> LessThan:
    """Condition for the rows that follow `cursor` in a list that is ordered by `-field, -pk`."""
    return LessThan(_RowValue(F(field), F("pk")), _build_row_value_of_amount(cursor))


def build_above_amount_cursor_condition(cursor: AmountCursor, field: str) -> GreaterThan:
    """Condition for the rows that follow `cursor` in a list that is ordered by `field, pk`."""
    return GreaterThan(_RowValue(F(field), F("pk")), _build_row_value_of_amount(cursor))


def _build_row_value_of_amount(cursor: AmountCursor) -> _RowValue:
    amount = Value(cursor.amount, output_field=DecimalField(max_digits=18, decimal_places=6))
    return _RowValue(amount, Value(cursor.pk))


def build_after_row_condition(fields: Sequence[str], last: Sequence[int]) -> GreaterThan:
    """Condition for the rows that follow the one with the numbers `last` in a list that is ordered by `fields`."""
    return GreaterThan(_RowValue(*[F(field) for field in fields]), _RowValue(*[Value(number) for number in last]))


def iterate_distinct_session_pks(rows: QuerySet[Model], *, by: str) -> Iterator[int]:
    """Iterate over the keys of the sessions of rows, each once, in the order of a time.

    The rows are read in batches, each by a query of its own, so that the caller may change them meanwhile.

    Args:
        rows: Rows with a session.
        by: Name of the column with the time.
    """
    seen: set[int] = set()
    following = rows
    while True:
        columns = following.order_by(by, "session_id").values_list("session_id", cast_field_to_text(by))
        batch: list[tuple[int, str]] = list(columns[:MAX_LIMIT])
        for pk, _ in batch:
            if pk not in seen:
                seen.add(pk)
                yield pk
        if len(batch) < MAX_LIMIT:
            return
        last_pk, last_time = batch[-1]
        last = _build_row_value_of_cursor(Cursor(last_time, last_pk))
        following = rows.filter(GreaterThan(_RowValue(F(by), F("session_id")), last))


def _build_row_value_of_cursor(cursor: Cursor) -> _RowValue:
    return _RowValue(_StoredTime(Value(cursor.time)), Value(cursor.pk))


#: Largest number of entries of one page.
MAX_LIMIT = 1000


def validate_page_limit(limit: int) -> None:
    """Validate the number of entries that a page may have. Raises `InvalidInput`."""
    if validate_integer("limit", limit, minimum=1) > MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}; {MAX_LIMIT} is the most.")
