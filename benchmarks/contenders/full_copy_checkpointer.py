"""Checkpointer of which every version holds the whole transcript."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, ClassVar

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.raw_sql import open_driver_connection, to_sqlite_placeholders
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation, Message

TABLES = (
    "CREATE TABLE sessions (session_id TEXT PRIMARY KEY, created_at TEXT, updated_at TEXT, status TEXT)",
    "CREATE TABLE checkpoints (session_id TEXT, version INTEGER, created_at TEXT, transcript TEXT, plan TEXT, "
    "budget REAL, PRIMARY KEY (session_id, version))",
    "CREATE TABLE tool_calls (session_id TEXT, call_id TEXT, tool TEXT, args TEXT, key TEXT, status TEXT, result TEXT, "
    "started_at TEXT, completed_at TEXT, PRIMARY KEY (session_id, call_id))",
    "CREATE INDEX tool_calls_key ON tool_calls (key)",
)
OPEN = "INSERT INTO sessions VALUES (%s, %s, %s, 'active')"
NEXT = "SELECT COALESCE(MAX(version), 0) + 1 FROM checkpoints WHERE session_id = %s"
ADD = "INSERT INTO checkpoints VALUES (%s, %s, %s, %s, %s, %s)"
TOUCH = "UPDATE sessions SET updated_at = %s WHERE session_id = %s"
LATEST = "SELECT transcript FROM checkpoints WHERE session_id = %s ORDER BY version DESC LIMIT 1"
FIND = "SELECT call_id, result FROM tool_calls WHERE key = %s AND status = 'completed' LIMIT 1"
ISSUE = "INSERT INTO tool_calls VALUES (%s, %s, %s, %s, %s, 'issued', NULL, %s, NULL) ON CONFLICT DO NOTHING"
SETTLE = (
    "UPDATE tool_calls SET status = 'completed', result = %s, completed_at = %s WHERE session_id = %s AND call_id = %s"
)


class FullCopyContender(Contender):
    key: ClassVar[str] = "full_copy"
    title: ClassVar[str] = "full copy in every version"
    linear: ClassVar[bool] = False

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        self.connection = open_driver_connection(database)
        self.session = ""
        for table in TABLES:
            self.connection.execute(table)

    def begin_session(self, session: str) -> None:
        self.session = session
        self._execute(OPEN, [session, _format_now_as_iso(), _format_now_as_iso()])

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        with self._open_transaction():
            (version,) = self._execute(NEXT, [self.session]).fetchone()
            row = [self.session, version, _format_now_as_iso(), json.dumps(whole), json.dumps(PLAN), SPENT_USD]
            self._execute(ADD, row)
            self._execute(TOUCH, [_format_now_as_iso(), self.session])

    def read_transcript(self) -> list[Message]:
        messages: list[Message] = json.loads(self._execute(LATEST, [self.session]).fetchone()[0])
        return messages

    def log_intent_and_result(self, number: int, args: dict[str, Any], result: str) -> None:
        """Log one call: search for its key, write the intent, write the result."""
        self._execute(FIND, [f"key {number}"]).fetchone()
        with self._open_transaction():
            row = [self.session, f"call_{number}", "charge", json.dumps(args), f"key {number}", _format_now_as_iso()]
            self._execute(ISSUE, row)
        with self._open_transaction():
            self._execute(SETTLE, [result, _format_now_as_iso(), self.session, f"call_{number}"])

    def _open_transaction(self) -> AbstractContextManager[Any]:
        if self.database_kind == "postgresql":
            return self.connection.transaction()  # type: ignore[no-any-return]
        self.connection.execute("BEGIN")
        return self.connection  # type: ignore[no-any-return]

    def _execute(self, sql: str, params: list[Any]) -> Any:
        return self.connection.execute(
            sql if self.database_kind == "postgresql" else to_sqlite_placeholders(sql), params
        )

    def close(self) -> None:
        self.connection.close()


def _format_now_as_iso() -> str:
    return datetime.now(UTC).isoformat()
