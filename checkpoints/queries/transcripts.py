"""Reading windows of a transcript: only the messages that are shown leave the database.

The statements are built from the models' own table and column names; every value is a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, models

from checkpoints.models import Message, Segment

#: Messages in one window.
WINDOW = 100
#: Characters of bodies in one window; a window ends early rather than exceed it, but holds one message at least.
WINDOW_SIZE = 8_000_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """The messages `first` to `upto` (exclusive) of a transcript live in one segment."""

    segment_id: int
    first: int
    upto: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as stored: `body` is canonical JSON text, `size` its length in characters."""

    pk: int
    segment_id: int
    position: int
    message_id: str
    role: str
    created_at: datetime
    body: str

    @property
    def size(self) -> int:
        return len(self.body)


def stretches(segment_id: int, length: int, *, using: str = DEFAULT_DB_ALIAS) -> list[Stretch]:
    """Where the first `length` messages of the transcript that ends in `segment_id` live, from its start."""
    sql = f"{_path()} SELECT segment_id, low, high FROM path WHERE low < high ORDER BY low"  # noqa: S608
    return [Stretch(*row) for row in _rows(using, sql, [length, segment_id, 0])]


def shared(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """How many messages two transcripts have in common because they are the same rows; nothing is read for it."""
    common = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.segment_id != theirs.segment_id:
            break
        common = min(mine.upto, theirs.upto)
        if mine.upto != theirs.upto:
            break
    return common


def window(
    segment_id: int, first: int, upto: int, *, using: str = DEFAULT_DB_ALIAS, size: int = WINDOW_SIZE
) -> list[StoredMessage]:
    """Messages `first` to `upto` (exclusive) of the transcript that ends in `segment_id`, in order.

    Counted back from the end, messages beyond `size` characters are left out, so that a run of huge ones cannot
    exhaust the process; the newest message is always there. Callers see by `position` how far the window reaches.
    """
    text, position = _column(Message, "body"), _column(Message, "position")
    names = ("id", "segment", "position", "message_id", "role", "created_at", "body")
    columns = ", ".join(f"m.{_column(Message, name)}" for name in names)
    inside = f"m.{position} >= path.low AND m.{position} < path.high AND m.{position} >= %s"
    sql = f"""{_path()}
        SELECT {", ".join(_column(Message, name) for name in names)} FROM (
            SELECT {columns}, SUM(LENGTH(m.{text})) OVER (ORDER BY m.{position} DESC) - LENGTH(m.{text}) AS newer
            FROM path JOIN {_table(Message)} m ON m.{_column(Message, "segment")} = path.segment_id AND {inside}
        ) AS sized WHERE newer < %s ORDER BY {position}"""  # noqa: S608
    rows = _rows(using, sql, [upto, segment_id, first, first, size])
    return [
        StoredMessage(pk, place, at, name, role, _aware(then), body) for pk, place, at, name, role, then, body in rows
    ]


def _path() -> str:
    """The way from a segment to its root, as a WITH clause; takes the length, the segment and the first position.

    A branch may part before its parent's own first message, so each step keeps the smaller of the two ends.
    """
    parent, branched = _column(Segment, "parent"), _column(Segment, "parent_length")
    return f"""
        WITH RECURSIVE path(segment_id, parent_id, low, high) AS (
            SELECT id, {parent}, {branched}, CAST(%s AS INTEGER) FROM {_table(Segment)} WHERE id = %s
            UNION ALL
            SELECT s.id, s.{parent}, s.{branched}, CASE WHEN path.low < path.high THEN path.low ELSE path.high END
            FROM {_table(Segment)} s JOIN path ON s.id = path.parent_id WHERE path.low > %s
        )"""  # noqa: S608


def _rows(using: str, sql: str, params: list[int]) -> list[tuple[Any, ...]]:
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'


def _column(model: type[models.Model], field: str) -> str:
    found = model._meta.get_field(field)
    assert isinstance(found, models.Field)  # noqa: S101 - a relation's far end has no column
    return f'"{found.column}"'


def _aware(value: Any) -> datetime:
    """SQLite hands times of hand-written statements over as text, in UTC."""
    parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
