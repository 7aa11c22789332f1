"""Reads that are put together once: a call sends the statement that is there already, with its own values.

Django makes the statement of a query anew each time, which takes several times as long as to send it and to read what
comes back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, Generic, TypeVar, TypeVarTuple, cast
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, ForeignObject, Lookup, QuerySet
from django.db.models.sql import Query
from django.db.models.sql.compiler import SQLCompiler

Values = TypeVarTuple("Values")
Row = TypeVar("Row")
Again = TypeVar("Again", bound=object)
#: Django changes a query while it makes its statement, and puts it back at the end.
_making = threading.Lock()


class Prepared(Generic[*Values, Row]):
    """A function that makes a query, as a read of its rows: `@Prepared def of(pk: int) -> QuerySet[Run]: …`, `of(7)`.

    The function is called once, with something in place of each value, which may be compared with columns and nothing
    else: `filter(pk=pk)`, or `filter(pk__among=pks)` for several. No value may be None. `using` names the database.
    `number` is how many values it takes, where its signature does not say so.
    """

    def __init__(self, build: Callable[[*Values], QuerySet[Any, Row]], number: int | None = None) -> None:
        self.build = build
        self._places = len(signature(build).parameters) if number is None else number
        self._rows: QuerySet[Any, Row] | None = None
        self._number: QuerySet[Any] | None = None

    def __call__(self, *values: *Values, using: str | None = None) -> list[Row]:
        if self._rows is None:
            self._rows = _prepared(self._made())
        return list(_with(self._rows, values, using))

    def first(self, *values: *Values, using: str | None = None) -> Row | None:
        """The first row; None where there is none. The query reads no more than this one."""
        return next(iter(self(*values, using=using)), None)

    def count(self, *values: *Values, using: str | None = None) -> int:
        """How many rows there are; the database counts them."""
        if self._number is None:
            self._number = _prepared(self._made().values("pk"))
        return _counted(_with(self._number, values, using))

    def _made(self) -> QuerySet[Any, Row]:
        places: Any = [_Place(number) for number in range(self._places)]
        return self.build(*places)


def _prepared(rows: QuerySet[Any, Row]) -> QuerySet[Any, Row]:
    query = cast(_PreparedQuery, rows.query.chain(_PreparedQuery))
    query.compiled = {}
    # Django takes whatever is given another query for a list of dictionaries.
    shape = rows._iterable_class
    rows.query = query
    rows._iterable_class = shape
    return rows


def _with(rows: QuerySet[Any, Row], values: tuple[object, ...], using: str | None) -> QuerySet[Any, Row]:
    if None in values:
        raise TypeError("A prepared read takes no None: nothing equals NULL.")
    asked = rows.using(using)
    cast(_PreparedQuery, asked.query).asked = values
    return asked


def _counted(rows: QuerySet[Any, Any]) -> int:
    sql, parameters = rows.query.get_compiler(rows.db).as_sql()
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({sql}) counted", parameters)  # noqa: S608 - Django made it
        return int(cursor.fetchone()[0])


class _PreparedQuery(Query):
    #: For each kind of database; all that is cloned of one query shares it.
    compiled: dict[str, _Compiled]
    asked: tuple[object, ...]

    def chain(self, klass: type[Query] | None = None) -> Any:
        # Nobody narrows it any more, so that what it is made of need not be copied.
        return _again(self)

    def clone(self) -> Any:
        # A filter on windows is put around a copy, which is a part of this statement and not this statement.
        part = super().clone()
        part.__class__ = Query
        return part

    def get_compiler(self, using: Any = None, connection: Any = None, elide_empty: bool = True) -> _Compiled:
        connection = connections[using]
        if connection.vendor not in self.compiled:
            with _making:
                if connection.vendor not in self.compiled:
                    self.compiled[connection.vendor] = _Compiled(self, connection, using)
        return self.compiled[connection.vendor].asking(connection, self.asked)


def _again(one: Again) -> Again:
    """As `copy` does, which looks for ways of copying first."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


class _Compiled(SQLCompiler):
    """What Django found out about a query while it made the statement, and the statement."""

    def __init__(self, query: Query, connection: BaseDatabaseWrapper, using: str) -> None:
        super().__init__(query, connection, using)
        self._sql, made = super().as_sql()
        self._parameters: tuple[object, ...] = tuple(made)
        self._values: tuple[object, ...] = ()
        #: For each database: it reads what it stored by its own settings.
        self._converters: dict[str, dict[int, Any]] = {}

    def asking(self, connection: BaseDatabaseWrapper, values: tuple[object, ...]) -> _Compiled:
        again = _again(self)
        again.connection, again._values = connection, values
        return again

    def get_converters(self, expressions: Any) -> dict[int, Any]:
        # They are always asked for the columns that are selected.
        if self.connection.alias not in self._converters:
            self._converters[self.connection.alias] = super().get_converters(expressions)
        return self._converters[self.connection.alias]

    def as_sql(self, with_limits: bool = True, with_col_aliases: bool = False) -> tuple[str, tuple[Any, ...]]:
        filled: Any = (
            one.of(self._values, self.connection) if isinstance(one, _Place) else one for one in self._parameters
        )
        return self._sql, tuple(filled)


class _Place(Expression):
    """Stands where the value of a call will be."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        return "%s", [self]

    def of(self, values: tuple[object, ...], connection: BaseDatabaseWrapper) -> object:
        return _stored(values[self.number], connection)


class _Places(_Place):
    """Stands where several values will be."""

    def of(self, values: tuple[object, ...], connection: BaseDatabaseWrapper) -> object:
        several: Any = values[self.number]
        return _several(several, connection)


@ForeignObject.register_lookup
@Field.register_lookup
class Among(Lookup):
    """`pk__among=pks`: as `pk__in`, by a statement that is the same for any number of values."""

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        column, parameters = self.process_lhs(compiler, connection)
        one_of = "= ANY(%s)" if connection.vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"
        among = _Places(self.rhs.number) if isinstance(self.rhs, _Place) else _several(self.rhs, connection)
        return f"{column} {one_of}", [*parameters, among]


def _several(values: Iterable[object], connection: BaseDatabaseWrapper) -> object:
    stored = [_stored(value, connection) for value in values]
    return stored if connection.vendor == "postgresql" else json.dumps(stored)


def _stored(value: object, connection: BaseDatabaseWrapper) -> object:
    """A value as the driver takes it."""
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return connection.ops.adapt_unknown_value(value)
