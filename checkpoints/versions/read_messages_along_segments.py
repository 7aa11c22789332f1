"""SQL queries along a transcript's segments: from the segment of a version to its root.

Each ancestor contributes the messages before the branch that leaves it. The ORM has no recursive queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.db.decompressed_text_sql import build_decompressed_text_sql
from checkpoints.db.sql_names_and_values import quote_column, quote_table
from checkpoints.models import Message, Segment

Rows = list[tuple[Any, ...]]


def read_message_field_rows(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, fields: Sequence[str], first: int = 0
) -> Rows:
    """Read the messages `first` to `length` of the transcript that ends in `segment_id`, in order: a tuple of
    `fields` each."""
    return _read_rows_along_segments(
        connection, f"SELECT {_build_columns_sql(connection, fields)}", [], segment_id, length, first
    )


def read_message_objects(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, first: int = 0
) -> list[Message]:
    """Read the messages `first` to `length` of the transcript that ends in `segment_id`, in order."""
    rows = read_message_field_rows(connection, segment_id, length, list_message_fields(), first)
    return [build_message_from_values(connection, values) for values in rows]


@cache
def list_message_fields() -> tuple[str, ...]:
    """List the fields of a message, in the order that `build_message_from_values` takes their values in."""
    return tuple(field.name for field in Message._meta.concrete_fields)


@cache
def _list_message_attributes() -> tuple[str, ...]:
    return tuple(field.attname for field in Message._meta.concrete_fields)


def build_message_from_values(connection: BaseDatabaseWrapper, values: Sequence[Any]) -> Message:
    """Build a message from the values that a raw statement returned."""
    message = Message.from_db(connection.alias, _list_message_attributes(), values)
    message.created_at = parse_raw_time(message.created_at)
    return message


def parse_raw_time(value: datetime | str) -> datetime:
    """Convert a time of a raw statement, which SQLite returns as text, in UTC."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_chains_at_places(connection: BaseDatabaseWrapper, places: Sequence[tuple[int, int]]) -> Rows:
    """Read the chains of the messages at places of segments: (segment, position, chain) each, of those that are
    there."""
    if not places:
        return []
    segment, position, chain = (quote_column(Message, name) for name in ("segment", "position", "chain"))
    sql = (
        f"SELECT {segment}, {position}, {chain} FROM {quote_table(Message)} "
        f"WHERE ({segment}, {position}) IN (VALUES {', '.join(['(%s, %s)'] * len(places))})"
    )
    return _fetch_rows(connection, sql, [number for place in places for number in place])


def read_message_bodies_with_last_chain(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, first: int = 0
) -> Rows:
    """Read the bodies of messages `first` to `length`, in order, the last one with its chain, the others with NULL."""
    chain = f"CASE WHEN {quote_column(Message, 'position')} = %s THEN {quote_column(Message, 'chain')} END"
    return _read_rows_along_segments(
        connection,
        f"SELECT {_build_columns_sql(connection, ['body'])}, {chain}",
        [length - 1],
        segment_id,
        length,
        first,
    )


def read_newest_messages_within_size(
    connection: BaseDatabaseWrapper, segment_id: int, first: int, upto: int, fields: Sequence[str], size: int
) -> Rows:
    """Read messages `first` to `upto` (exclusive), in order, but from the end no more than `size` characters of bodies.

    The newest message is always included.
    """
    body, position = (
        build_decompressed_text_sql(connection.vendor, f"m.{quote_column(Message, 'body')}"),
        quote_column(Message, "position"),
    )
    # Sizes are measured, added up and sorted without the bodies, and the rows are sorted here, so that no large body is
    # copied. PostgreSQL knows a size in bytes without reading the text.
    size_of = f"OCTET_LENGTH({body})" if connection.vendor == "postgresql" else f"LENGTH({body})"
    columns = _build_columns_sql(connection, ("position", *fields), "m.")
    sql = (
        f"{_build_segment_path_sql()}, "
        f"measured AS (SELECT m.id, m.{position} AS place, {size_of} AS size FROM {_build_path_messages_sql()}), "
        "sized AS (SELECT id, SUM(size) OVER (ORDER BY place DESC) - size AS newer FROM measured) "
        f"SELECT {columns} FROM sized JOIN {quote_table(Message)} m ON m.id = sized.id WHERE sized.newer < %s"
    )
    rows = _fetch_rows(connection, sql, [upto, segment_id, first, first, size])
    return [row[1:] for row in sorted(rows, key=itemgetter(0))]


def read_segment_ranges(connection: BaseDatabaseWrapper, segment_id: int, length: int, first: int = 0) -> Rows:
    """Read the segments that hold the messages `first` to `length`, in order: (segment, first position, end) each."""
    path = _build_segment_path_sql()
    sql = f"{path} SELECT segment_id, low, high FROM path WHERE low < high AND high > %s ORDER BY low"
    return _fetch_rows(connection, sql, [length, segment_id, first, first])


def _build_columns_sql(connection: BaseDatabaseWrapper, fields: Sequence[str], table: str = "") -> str:
    columns = [(field, f"{table}{quote_column(Message, field)}") for field in fields]
    return ", ".join(
        build_decompressed_text_sql(connection.vendor, column) if field == "body" else column
        for field, column in columns
    )


def _read_rows_along_segments(
    connection: BaseDatabaseWrapper, select: str, params: list[int], segment_id: int, length: int, first: int
) -> Rows:
    """Run `select` on the messages `first` to `length`, in order.

    Most are in the last segment: its ancestors are queried only if it does not hold them all.
    """
    position = quote_column(Message, "position")
    sql = (  # columns in the order of the index
        f"{select} FROM {quote_table(Message)} WHERE {quote_column(Message, 'segment')} = %s "
        f"AND {position} >= %s AND {position} < %s ORDER BY {position}"
    )
    last = _fetch_rows(connection, sql, [*params, segment_id, first, length])
    if len(last) == length - first:
        return last
    older: Rows = []
    for segment, start, end in read_segment_ranges(connection, segment_id, length, first):
        if segment != segment_id:
            older += _fetch_rows(connection, sql, [*params, segment, max(start, first), end])
    return older + last


def _build_segment_path_sql() -> str:
    """WITH clause for the path to the root; its parameters are the length, the segment, and the first position."""
    parent, parent_length = quote_column(Segment, "parent"), quote_column(Segment, "parent_length")
    return f"""
        WITH RECURSIVE path(segment_id, parent_id, low, high) AS (
            SELECT id, {parent}, {parent_length}, CAST(%s AS INTEGER) FROM {quote_table(Segment)} WHERE id = %s
            UNION ALL
            SELECT s.id, s.{parent}, s.{parent_length}, CASE WHEN path.low < path.high THEN path.low ELSE path.high END
            FROM {quote_table(Segment)} s JOIN path ON s.id = path.parent_id WHERE path.low > %s
        )"""


def _build_path_messages_sql() -> str:
    """SQL for the messages on the path from a first position on, which is its parameter."""
    position = quote_column(Message, "position")
    return (
        f"path JOIN {quote_table(Message)} m ON m.{quote_column(Message, 'segment')} = path.segment_id "
        f"AND m.{position} >= path.low AND m.{position} < path.high AND m.{position} >= %s"
    )


def _fetch_rows(connection: BaseDatabaseWrapper, sql: str, params: list[int]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())
