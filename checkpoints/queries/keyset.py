"""Pages of long lists by the last row seen, not by counting: flat however far one reads.

The comparison is one tuple comparison, which both databases answer from an index on the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, DecimalField, F, Func, TextField, Value
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast
from django.db.models.lookups import GreaterThan, LessThan
from django.db.models.sql.compiler import SQLCompiler

#: A time as either database writes it, in a zone that both take.
_TOKEN = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?(?:[+-](?:0[0-9]|1[0-4])(?::[0-5][0-9])?)?)~([0-9]{1,18})"
)

_AMOUNT_TOKEN = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,6})?)~([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: its time as the database writes it, and its id.

    The database's own text is kept because SQLite compares times as text, and a time that went through Python may
    come back with other digits behind the point.
    """

    time: str
    pk: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """The cursor that `str` made, or None where `token` is something else."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        try:
            time = datetime.fromisoformat(found[1])
            (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.time}~{self.pk}"


@dataclass(frozen=True, slots=True)
class AmountCursor:
    """The last row of a page that is ordered by an amount."""

    amount: Decimal
    pk: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """The cursor that `str` made, or None where `token` is something else."""
        found = _AMOUNT_TOKEN.fullmatch(token)
        return None if found is None else cls(Decimal(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.amount}~{self.pk}"


def newest() -> OrderBy:
    """Newest first by key, within one session.

    It is a sum, because a database that sees the bare key may walk the rows of all sessions backwards until it has met
    enough of this one: minutes, where the session is old.
    """
    return (F("pk") + 0).desc()


def oldest() -> OrderBy:
    """The same the other way round."""
    return (F("pk") + 0).asc()


class _Row(Func):
    template = "(%(expressions)s)"
    output_field = BooleanField()


class _StoredTime(Func):
    """A time in the database's own text, taken as a time where that is not the same."""

    template = "%(expressions)s"
    output_field = TextField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="(%(expressions)s)::timestamptz", **context)


def stored_text(field: str) -> Cast:
    """`field` (a time) as the database writes it; annotate it to make a `Cursor` of a row."""
    return Cast(field, TextField())


def before(cursor: Cursor, field: str) -> LessThan:
    """The rows that follow `cursor` in a list that is ordered by `-field, -pk`."""
    return LessThan(_Row(F(field), F("pk")), _place(cursor))


def below(cursor: AmountCursor, field: str) -> LessThan:
    """The rows that follow `cursor` in a list that is ordered by `-field, -pk`."""
    amount = Value(cursor.amount, output_field=DecimalField(max_digits=18, decimal_places=6))
    return LessThan(_Row(F(field), F("pk")), _Row(amount, Value(cursor.pk)))


def following(fields: Sequence[str], last: Sequence[int]) -> GreaterThan:
    """The rows that follow the one with the numbers `last` in a list that is ordered by `fields`."""
    return GreaterThan(_Row(*[F(field) for field in fields]), _Row(*[Value(number) for number in last]))


def _place(cursor: Cursor) -> _Row:
    return _Row(_StoredTime(Value(cursor.time)), Value(cursor.pk))
