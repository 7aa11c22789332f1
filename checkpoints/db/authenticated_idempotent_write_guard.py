"""Guard of a write: a condition and a row of the caller, which a hot statement checks and inserts with its own rows.

A server uses it that has to authenticate a request and to note its idempotency key before it writes: on PostgreSQL all
of that is one statement, on SQLite one transaction. Either everything is written, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from checkpoints.db.sqlite_placeholder_conversion_cache import cache_converted_sql_of_cursor


class GuardedWriteRefused(BaseException):
    """Refusal of a guarded write: neither it nor the caller's row is there, and the caller has to begin again without
    the guard. As after a hot statement without a guard, PostgreSQL may have marked the session as changed.

    It is no `Exception`, because a web framework makes an answer of each of those.
    """


@dataclass(frozen=True)
class GuardSql:
    """SQL of a guard.

    Args:
        condition: SELECT that has a row if the write may be done.
        insert: INSERT of the caller's row from a SELECT without FROM; `{call}` in it is the key of a call that the
            write issues, or NULL.
        set_call: UPDATE of the row with such a key, for databases where the row is inserted first.
    """

    condition: str
    insert: str
    set_call: str

    def wrap_statement(self, ctes: str, statement: str, *, call: str = "NULL") -> str:
        """Return a statement of PostgreSQL that does another one under the condition, and inserts the row with it.

        Args:
            ctes: Common table expressions before the statement; one of them requires `IS_PERMITTED`.
            statement: Statement that returns one row if it has written.
            call: Expression for the key of a call, of the columns of `written`.
        """
        insert = self.insert.format(call=call)
        return (
            f"WITH permitted AS MATERIALIZED ({self.condition}), {ctes}, written AS ({statement}), "  # noqa: S608
            f"guarding AS ({insert} FROM permitted, written RETURNING id) "
            "SELECT written.*, guarding.id FROM written, guarding"
        )


#: Condition in a statement that `GuardSql.wrap_statement` gets.
IS_PERMITTED: Final = "EXISTS (SELECT FROM permitted)"


class WriteGuard:
    """Guard of the next write on a connection.

    Args:
        sql: Its statements.
        condition_values: Values of the condition.
        insert_values: Values of the row.
    """

    def __init__(self, sql: GuardSql, condition_values: Sequence[Any], insert_values: Sequence[Any]) -> None:
        self.sql = sql
        self._condition_values, self._insert_values = condition_values, insert_values
        self._is_writing = False
        #: Key of the inserted row, once the write is committed.
        self.row: int | None = None
        #: Key of the call in that row.
        self.call: int | None = None

    def add_condition(self, condition: str, values: Sequence[Any]) -> None:
        """Let the write depend on a further condition, an expression of SQL with its values."""
        self.sql = replace(self.sql, condition=f"{self.sql.condition} AND {condition}")
        self._condition_values = [*self._condition_values, *values]

    @contextmanager
    def guard_first_write(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        """Guard the first statement on `connection` in this context, which has to be a hot one.

        Raises `GuardedWriteRefused` for any other statement before it, and where the hot statement writes nothing.
        """
        previous = _guard.set((connection.alias, self))
        try:
            with connection.execute_wrapper(self._execute_if_own_or_later_statement):
                yield
        finally:
            _guard.reset(previous)

    def _execute_if_own_or_later_statement(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if self.row is None and not self._is_writing:
            raise GuardedWriteRefused
        return execute(sql, params, many, context)

    def execute_wrapped_statement(
        self, connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any], *, issues_call: bool
    ) -> tuple[Any, ...]:
        """Execute a statement of `GuardSql.wrap_statement`, and return the row of the one inside.

        Raises `GuardedWriteRefused`.
        """
        with self._permit_own_write_or_refuse_conflict(), connection.cursor() as cursor:
            cursor.execute(sql, [*self._condition_values, *params, *self._insert_values])
            row = cursor.fetchone()
        if row is None:
            raise GuardedWriteRefused
        *written, self.row = row
        self.call = written[0] if issues_call else None
        return tuple(written)

    @contextmanager
    def open_guarded_transaction(self, connection: BaseDatabaseWrapper) -> Iterator[CursorWrapper]:
        """Open a transaction that has checked the condition and inserted the row. Raises `GuardedWriteRefused`."""
        with self._permit_own_write_or_refuse_conflict():
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cache_converted_sql_of_cursor(cursor)
                cursor.execute(self.sql.condition, self._condition_values)
                if cursor.fetchone() is None:
                    raise GuardedWriteRefused
                cursor.execute(f"{self.sql.insert.format(call='NULL')} RETURNING id", self._insert_values)
                (row,) = cursor.fetchone()
                yield cursor
                if self.call is not None:
                    cursor.execute(self.sql.set_call, [self.call, row])
            self.row = row

    @contextmanager
    def _permit_own_write_or_refuse_conflict(self) -> Iterator[None]:
        self._is_writing = True
        try:
            yield
        except IntegrityError as error:  # another process has just inserted the row
            raise GuardedWriteRefused from error
        finally:
            self._is_writing = False


_guard: Final[ContextVar[tuple[str, WriteGuard] | None]] = ContextVar("guard of a write", default=None)


def find_guard_of_next_write(connection: BaseDatabaseWrapper) -> WriteGuard | None:
    """Find the guard of the next write on `connection`."""
    guarded = _guard.get()
    if guarded is None or guarded[0] != connection.alias:
        return None
    guard = guarded[1]
    return guard if guard.row is None and not connection.in_atomic_block else None


@contextmanager
def open_write_transaction_with_optional_guard(
    connection: BaseDatabaseWrapper, guard: WriteGuard | None
) -> Iterator[CursorWrapper]:
    """Open a transaction for the statements of one write, with its guard if it has one."""
    if guard is not None:
        with guard.open_guarded_transaction(connection) as cursor:
            yield cursor
        return
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cache_converted_sql_of_cursor(cursor)
        yield cursor


def raise_refused_if_guarded(guard: WriteGuard | None) -> None:
    """Roll back a guarded write that has not written. Raises `GuardedWriteRefused`."""
    if guard is not None:
        raise GuardedWriteRefused
