"""Lower bound: append-only transcripts in the plain app's tables, written with minimal SQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar

import psycopg
from django.db import connections, transaction

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.django_setup import create_plain_tables
from benchmarks.generated_conversation import MESSAGES_PER_TURN, PLAN, SPENT_USD, Conversation, Message, to_compact_json

#: PostgreSQL: everything in one statement. Parameters: the thread, three times role and body, plan, budget.
SAVE = """
    WITH head AS (
        UPDATE plain_tables_thread SET version = version + 1, length = length + 3, updated_at = statement_timestamp()
        WHERE id = %s RETURNING id, version, length
    ), said AS (
        INSERT INTO plain_tables_entry (thread_id, position, role, body)
        SELECT head.id, head.length - 3 + new.place, new.role, new.body
        FROM head, (VALUES (0, %s, %s), (1, %s, %s), (2, %s, %s)) AS new (place, role, body)
    )
    INSERT INTO plain_tables_version (thread_id, number, length, plan, budget_spent_usd)
    SELECT id, version, length, %s, %s FROM head RETURNING number
"""
#: SQLite: the same in three statements of one transaction.
MOVE = """
    UPDATE plain_tables_thread SET version = version + 1, length = length + 3, updated_at = CURRENT_TIMESTAMP
    WHERE id = %s RETURNING version, length
"""
ADD = "INSERT INTO plain_tables_entry (thread_id, position, role, body) VALUES (%s, %s, %s, %s)"
MARK = (
    "INSERT INTO plain_tables_version (thread_id, number, length, plan, budget_spent_usd) VALUES (%s, %s, %s, %s, %s)"
)

OPEN = "INSERT INTO plain_tables_thread (version, length) VALUES (0, 0) RETURNING id"
READ = "SELECT body FROM plain_tables_entry WHERE thread_id = %s ORDER BY position"
TAIL = "SELECT body FROM plain_tables_entry WHERE thread_id = %s ORDER BY position DESC LIMIT %s"

ISSUE = "INSERT INTO plain_tables_call (thread_id, call_id, tool, args, key, status, result) VALUES (%s, %s, %s, %s, %s, 'issued', '') RETURNING id"  # noqa: E501
SETTLE = "UPDATE plain_tables_call SET status = 'completed', result = %s WHERE id = %s"


def flatten_to_roles_and_json_bodies(new: Sequence[Message]) -> list[str]:
    """Return role and body of each message, one after the other."""
    return [part for message in new for part in (message["role"], to_compact_json(message))]


class RawSqlContender(Contender):
    key: ClassVar[str] = "statement"
    title: ClassVar[str] = "hand-written SQL over Django's connection"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_plain_tables(database.alias)
        self.connection = connections[database.alias]
        self.thread = 0

    def begin_session(self, session: str) -> None:
        self.thread = self._execute_and_fetch_all(OPEN, [])[0][0]

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        append_turn_over_django_connection(self.database.alias, self.thread, new)

    def read_transcript(self) -> list[Message]:
        return [json.loads(body) for (body,) in self._execute_and_fetch_all(READ, [self.thread])]

    def read_last_messages_or_none(self, count: int) -> list[Message] | None:
        return [json.loads(body) for (body,) in reversed(self._execute_and_fetch_all(TAIL, [self.thread, count]))]

    def log_intent_and_result(self, number: int, args: dict[str, Any], result: str) -> None:
        """Log one call: insert a row before it runs, update it with the result."""
        with self.connection.cursor() as cursor:
            cursor.execute(ISSUE, [self.thread, f"call_{number}", "charge", to_compact_json(args), f"key {number}"])
            (row_id,) = cursor.fetchone()
        with self.connection.cursor() as cursor:
            cursor.execute(SETTLE, [result, row_id])

    def _execute_and_fetch_all(self, sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())

    def close(self) -> None:
        self.connection.close()


def append_turn_over_django_connection(alias: str, thread: int, new: Sequence[Message]) -> None:
    """Append one turn over Django's connection `alias`."""
    connection = connections[alias]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                SAVE, [thread, *flatten_to_roles_and_json_bodies(new), to_compact_json(PLAN), str(SPENT_USD)]
            )
            cursor.fetchone()
        return
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(MOVE, [thread])
        version, length = cursor.fetchone()
        first_position = length - MESSAGES_PER_TURN
        cursor.executemany(
            ADD,
            [
                (thread, first_position + index, new[index]["role"], to_compact_json(new[index]))
                for index in range(len(new))
            ],
        )
        cursor.execute(MARK, [thread, version, length, to_compact_json(PLAN), str(SPENT_USD)])


class RawDriverContender(Contender):
    key: ClassVar[str] = "driver"
    title: ClassVar[str] = "hand-written SQL over the bare driver"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_plain_tables(database.alias)
        self.connection = open_driver_connection(database)
        self.thread = 0

    def begin_session(self, session: str) -> None:
        self.thread = self.connection.execute(OPEN).fetchone()[0]

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        if self.database_kind == "postgresql":
            params = [self.thread, *flatten_to_roles_and_json_bodies(new), to_compact_json(PLAN), str(SPENT_USD)]
            self.connection.execute(SAVE, params, prepare=True).fetchone()
            return
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        version, length = execute(to_sqlite_placeholders(MOVE), [self.thread]).fetchone()
        first_position = length - MESSAGES_PER_TURN
        rows = [
            (self.thread, first_position + index, new[index]["role"], to_compact_json(new[index]))
            for index in range(len(new))
        ]
        self.connection.executemany(to_sqlite_placeholders(ADD), rows)
        execute(to_sqlite_placeholders(MARK), [self.thread, version, length, to_compact_json(PLAN), str(SPENT_USD)])
        execute("COMMIT")

    def read_transcript(self) -> list[Message]:
        sql = READ if self.database_kind == "postgresql" else to_sqlite_placeholders(READ)
        return [json.loads(body) for (body,) in self.connection.execute(sql, [self.thread]).fetchall()]

    def close(self) -> None:
        self.connection.close()


def to_sqlite_placeholders(sql: str) -> str:
    """Replace the placeholders by those of sqlite3."""
    return sql.replace("%s", "?")


def open_driver_connection(database: Database) -> Any:
    """Connect with the driver itself, in autocommit; SQLite with the same durability as the library."""
    if database.kind == "postgresql":
        return psycopg.connect(database.url, autocommit=True)
    connection = sqlite3.connect(database.url, isolation_level=None, timeout=30, check_same_thread=False)
    connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;")
    return connection
