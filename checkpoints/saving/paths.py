"""Reading along a transcript's segments, in SQL: from the segment a version names to its root.

Each ancestor contributes the stretch before the branch that leaves it. The ORM has no recursive queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.models import Message, Segment
from checkpoints.saving.naming import column, table

Rows = list[tuple[Any, ...]]


def read_messages(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, fields: Sequence[str], first: int = 0
) -> Rows:
    """The messages `first` to `length` of the transcript that ends in `segment_id`, in order: a tuple of `fields`
    each."""
    wanted = ", ".join(f"m.{column(Message, field)}" for field in fields)
    sql = f"{_path()} SELECT {wanted} FROM {_messages()} ORDER BY m.{column(Message, 'position')}"
    return _rows(connection, sql, [length, segment_id, first, first])


def read_window(
    connection: BaseDatabaseWrapper, segment_id: int, first: int, upto: int, fields: Sequence[str], size: int
) -> Rows:
    """Messages `first` to `upto` (exclusive), in order, but counted back from the end no more than `size` characters
    of bodies; the newest message is always there."""
    body, position = column(Message, "body"), column(Message, "position")
    inner = ", ".join(f"m.{column(Message, field)}" for field in fields)
    newer = f"SUM(LENGTH(m.{body})) OVER (ORDER BY m.{position} DESC) - LENGTH(m.{body}) AS newer"
    sql = (
        f"{_path()} SELECT {', '.join(column(Message, field) for field in fields)} "
        f"FROM (SELECT {inner}, {newer} FROM {_messages()}) AS sized WHERE newer < %s ORDER BY {position}"
    )
    return _rows(connection, sql, [upto, segment_id, first, first, size])


def read_stretches(connection: BaseDatabaseWrapper, segment_id: int, length: int) -> Rows:
    """Where the first `length` messages live, from the start: (segment, first position, end) each."""
    sql = f"{_path()} SELECT segment_id, low, high FROM path WHERE low < high ORDER BY low"
    return _rows(connection, sql, [length, segment_id, 0])


def _path() -> str:
    """The way to the root as a WITH clause; takes the length, the segment, and the first position that matters."""
    parent, branched = column(Segment, "parent"), column(Segment, "parent_length")
    return f"""
        WITH RECURSIVE path(segment_id, parent_id, low, high) AS (
            SELECT id, {parent}, {branched}, CAST(%s AS INTEGER) FROM {table(Segment)} WHERE id = %s
            UNION ALL
            SELECT s.id, s.{parent}, s.{branched}, CASE WHEN path.low < path.high THEN path.low ELSE path.high END
            FROM {table(Segment)} s JOIN path ON s.id = path.parent_id WHERE path.low > %s
        )"""


def _messages() -> str:
    """The messages on the path from a first position on, which it takes."""
    position = column(Message, "position")
    return (
        f"path JOIN {table(Message)} m ON m.{column(Message, 'segment')} = path.segment_id "
        f"AND m.{position} >= path.low AND m.{position} < path.high AND m.{position} >= %s"
    )


def _rows(connection: BaseDatabaseWrapper, sql: str, params: list[int]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())
