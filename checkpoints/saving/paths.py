"""Reading along a transcript's segments, in SQL: from the segment a version names to its root.

Each ancestor contributes the stretch before the branch that leaves it. The ORM has no recursive queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.models import Message, Segment
from checkpoints.saving.naming import column, columns, table

Rows = list[tuple[Any, ...]]


def read_messages(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, fields: Sequence[str], first: int = 0
) -> Rows:
    """The messages `first` to `length` of the transcript that ends in `segment_id`, in order: a tuple of `fields`
    each."""
    return _read(connection, f"SELECT {columns(Message, fields)}", [], segment_id, length, first)


def read_bodies(connection: BaseDatabaseWrapper, segment_id: int, length: int, first: int = 0) -> Rows:
    """The bodies of messages `first` to `length`, in order, each with its chain if it is the last one, else NULL."""
    chain = f"CASE WHEN {column(Message, 'position')} = %s THEN {column(Message, 'chain')} END"
    return _read(connection, f"SELECT {column(Message, 'body')}, {chain}", [length - 1], segment_id, length, first)


def read_window(
    connection: BaseDatabaseWrapper, segment_id: int, first: int, upto: int, fields: Sequence[str], size: int
) -> Rows:
    """Messages `first` to `upto` (exclusive), in order, but counted back from the end no more than `size` characters
    of bodies; the newest message is always there."""
    body, position = column(Message, "body"), column(Message, "position")
    # Sizes are added up beside the rows: no copy of a large body is made for it. PostgreSQL knows a size in bytes
    # without reading the text.
    size_of = f"OCTET_LENGTH(m.{body})" if connection.vendor == "postgresql" else f"LENGTH(m.{body})"
    newer = f"SUM({size_of}) OVER (ORDER BY m.{position} DESC) - {size_of} AS newer"
    sql = (
        f"{_path()}, sized AS (SELECT m.id, {newer} FROM {_messages()}) "
        f"SELECT {', '.join(f'm.{column(Message, field)}' for field in fields)} "
        f"FROM sized JOIN {table(Message)} m ON m.id = sized.id WHERE sized.newer < %s ORDER BY m.{position}"
    )
    return _rows(connection, sql, [upto, segment_id, first, first, size])


def read_stretches(connection: BaseDatabaseWrapper, segment_id: int, length: int, first: int = 0) -> Rows:
    """Where the messages `first` to `length` live, in order: (segment, its first position, its end) each."""
    sql = f"{_path()} SELECT segment_id, low, high FROM path WHERE low < high AND high > %s ORDER BY low"
    return _rows(connection, sql, [length, segment_id, first, first])


def _read(
    connection: BaseDatabaseWrapper, select: str, params: list[int], segment_id: int, length: int, first: int
) -> Rows:
    """What `select` says of the messages `first` to `length`, in order. Most are in the last segment: its ancestors are
    looked for only where it does not hold them all."""
    position = column(Message, "position")
    sql = (  # in the order of the index
        f"{select} FROM {table(Message)} WHERE {column(Message, 'segment')} = %s "
        f"AND {position} >= %s AND {position} < %s ORDER BY {position}"
    )
    last = _rows(connection, sql, [*params, segment_id, first, length])
    if len(last) == length - first:
        return last
    older: Rows = []
    for segment, low, high in read_stretches(connection, segment_id, length, first):
        if segment != segment_id:
            older += _rows(connection, sql, [*params, segment, max(low, first), high])
    return older + last


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
