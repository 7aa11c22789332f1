"""Witness in a table of a second database, to which rows are only added.

The role of the agents and of the site needs to insert and to read, and nothing else: who can also change or delete rows
can put the witness back. Each row has the line that a file would have, whose digest only who has the key can make.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from checkpoints.exceptions import WitnessDamaged, WitnessMissing, WitnessTruncated, WitnessUnreachable
from checkpoints.seals.witness_records import (
    ADOPTED,
    CONFIRMED,
    EXPECTED,
    WitnessedHead,
    WitnessedSession,
    encode_record_with_mac,
    parse_and_verify_record,
)

Outcome = TypeVar("Outcome")

TABLE = "harness_witness"
_KEY_TYPES = {
    "postgresql": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "sqlite": "integer PRIMARY KEY AUTOINCREMENT",
}
#: Newest row of a session that nothing was noted after: what is older says nothing any more.
_NEWEST_ADOPTED_SQL = f"COALESCE((SELECT MAX(id) FROM {TABLE} WHERE session = %s AND kind = '{ADOPTED}'), 0)"  # noqa: S608 - constants
_FIND_SQL = (
    f"SELECT id, kind, number, line FROM {TABLE} WHERE session = %s AND id >= {_NEWEST_ADOPTED_SQL} "  # noqa: S608 - constants
    f"AND number >= COALESCE((SELECT MAX(number) FROM {TABLE} WHERE session = %s AND kind = '{CONFIRMED}' "
    f"AND id >= {_NEWEST_ADOPTED_SQL}), -1) ORDER BY id"
)
_NEWEST_ROW_SQL = f"SELECT MAX(id) FROM {TABLE} WHERE session = %s"  # noqa: S608 - a constant
_INSERT_SQL = f"INSERT INTO {TABLE} (session, kind, number, line) VALUES (%s, %s, %s, %s) RETURNING id"  # noqa: S608
#: The same without a wait for the disk. The setting is of the statement's own transaction.
_INSERT_BATCHED_SQL = (
    "WITH unsynced AS MATERIALIZED (SELECT SET_CONFIG('synchronous_commit', 'off', true)) "  # noqa: S608
    f"INSERT INTO {TABLE} (session, kind, number, line) "
    "SELECT %s::text, %s::text, %s::bigint, %s::text FROM unsynced RETURNING id"
)


class DatabaseWitness:
    """Witness in a second database, shared by all processes that can add rows to its table.

    Args:
        alias: Connection alias of the database, which is not the one with the sessions.
        sync_each: Whether each expected head is on the disk before its commit. Else the database decides when, and a
            power failure may lose what was noted last.
    """

    def __init__(self, alias: str, *, sync_each: bool = False) -> None:
        self.alias = alias
        self._sync_each = sync_each
        self._lock = threading.Lock()
        #: Newest row of each session that this process has seen.
        self._newest: dict[str, int] = {}

    @classmethod
    def create_storage(cls, alias: str) -> None:
        """Make the table. Raises the `Error` of the database, also if there is one."""
        vendor = connections[alias].vendor
        with connections[alias].cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE {TABLE} (id {_KEY_TYPES[vendor]}, session varchar(80) NOT NULL, "
                "kind varchar(1) NOT NULL, number bigint NOT NULL, line text NOT NULL)"
            )
            cursor.execute(f"CREATE INDEX {TABLE}_by_number ON {TABLE} (session, kind, number)")
            cursor.execute(f"CREATE INDEX {TABLE}_by_age ON {TABLE} (session, id)")

    def __str__(self) -> str:
        database = connections[self.alias].settings_dict
        return f"{TABLE} of {database['NAME']}{'@' if database['HOST'] else ''}{database['HOST']}"

    def record_expected_head(self, head: WitnessedHead) -> None:
        self._insert_record(EXPECTED, head, sync=self._sync_each)

    def record_written_head(self, head: WitnessedHead) -> None:
        self._insert_record(CONFIRMED, head, sync=False)

    def record_adopted_head(self, head: WitnessedHead) -> None:
        self._insert_record(ADOPTED, head, sync=True)

    def find_session(self, name: str) -> WitnessedSession | None:
        with self._lock:
            known = self._newest.get(name, 0)
        rows, newest = self._run_with_cursor_and_retry_once(
            lambda cursor: _find_relevant_rows_and_newest_key_of_session(cursor, name)
        )
        if newest < known:
            raise WitnessTruncated(str(self), known, newest, "rows")
        self._cache_newest_row_key(name, newest)
        session = WitnessedSession()
        for row in rows:
            session.apply_record(*self._parse_row(name, *row))
        return session if rows else None

    def list_session_names(self) -> list[str]:
        return self._run_with_cursor_and_retry_once(_list_session_names)

    def _parse_row(self, name: str, pk: int, kind: str, number: int, line: str) -> tuple[str, WitnessedHead]:
        try:
            record = parse_and_verify_record(line.encode())
        except ValueError:
            record = None
        if record is None or (record[0], record[1].name, record[1].number) != (kind, name, number):
            raise WitnessDamaged(str(self), pk, "row")
        return record

    def _insert_record(self, kind: str, head: WitnessedHead, *, sync: bool) -> None:
        values: list[str | int] = [
            head.name,
            kind,
            head.number,
            encode_record_with_mac(kind, head).decode().rstrip("\n"),
        ]
        newest = self._run_with_cursor_and_retry_once(lambda cursor: _insert_row(cursor, values, sync=sync))
        self._cache_newest_row_key(head.name, newest)

    def _cache_newest_row_key(self, name: str, newest: int) -> None:
        with self._lock:
            self._newest[name] = max(newest, self._newest.get(name, 0))

    def _run_with_cursor_and_retry_once(self, work: Callable[[CursorWrapper], Outcome]) -> Outcome:
        """Run statements by a cursor. Raises `WitnessMissing` without the table, `WitnessUnreachable` for other errors.

        If their connection was lost, as after a restart of the server, they are run by a new one: a record that is
        there twice says nothing else.
        """
        connection = connections[self.alias]
        try:
            try:
                return _run_with_cursor_and_return_to_pool(connection, work)
            except Error:
                if not getattr(connection.connection, "closed", False) or connection.in_atomic_block:
                    raise
                _close_lost_connections(connection)
                return _run_with_cursor_and_return_to_pool(connection, work)
        except Error as error:
            is_missing = connection.connection is not None and not _may_have_table(connection)
            if not connection.in_atomic_block:
                connection.close()
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise (WitnessMissing if is_missing else WitnessUnreachable)(str(self), why.rstrip(".")) from error


def _run_with_cursor_and_return_to_pool(
    connection: BaseDatabaseWrapper, work: Callable[[CursorWrapper], Outcome]
) -> Outcome:
    was_open = connection.connection is not None
    with connection.cursor() as cursor:
        outcome = work(cursor)
    if not was_open and _has_pool(connection) and not connection.in_atomic_block:
        connection.close()  # it goes back to the pool
    return outcome


def _close_lost_connections(connection: BaseDatabaseWrapper) -> None:
    """Close the connection, and those of its pool that were lost with it."""
    connection.close()
    if _has_pool(connection):
        with suppress(Exception):  # the server may not answer
            connection.pool.check()  # type: ignore[attr-defined]


def _has_pool(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def _find_relevant_rows_and_newest_key_of_session(
    cursor: CursorWrapper, name: str
) -> tuple[list[tuple[Any, ...]], int]:
    """Return the rows of a session that still say something, and the key of its newest one."""
    cursor.execute(_FIND_SQL, [name] * 4)
    rows = cursor.fetchall()
    cursor.execute(_NEWEST_ROW_SQL, [name])
    return rows, cursor.fetchone()[0] or 0


def _list_session_names(cursor: CursorWrapper) -> list[str]:
    cursor.execute(f"SELECT DISTINCT session FROM {TABLE}")  # noqa: S608 - a constant
    return [name for (name,) in cursor.fetchall()]


def _insert_row(cursor: CursorWrapper, values: list[str | int], *, sync: bool) -> int:
    """Insert a row, and return its key."""
    if cursor.db.vendor == "sqlite":
        cursor.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        cursor.execute(_INSERT_SQL, values)
    else:
        cursor.execute(_INSERT_SQL if sync else _INSERT_BATCHED_SQL, values)
    return int(cursor.fetchone()[0])


def _may_have_table(connection: BaseDatabaseWrapper) -> bool:
    try:
        return TABLE in connection.introspection.table_names()
    except Error:
        return True  # the database cannot be asked
