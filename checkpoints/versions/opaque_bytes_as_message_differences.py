"""Opaque bytes as they are stored: alone, or as the difference from a message of the transcript that has their text.

A framework's own form of a message and its readable form say the same, so the second one is the base of the first. A
message may be deleted before the bytes; they are stored alone before that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.exceptions import TooLarge
from checkpoints.formats import plain_and_delta_compression
from checkpoints.models import Blob, FrameworkWrite, Message, Session

#: Rows with opaque bytes.
ContentRow = Blob | FrameworkWrite
#: Number of messages, around the same place among all of them, that bytes are compared with.
_MAX_CANDIDATES: Final = 8
#: Number of bytes in the middle of a base, and at both quarters, of which the bytes have to contain some.
_PROBE_SIZE: Final = 24
_QUERY_SIZE: Final = 500


@dataclass(frozen=True)
class StoredMessage:
    """Message of a transcript: its segment, its position and its JSON text."""

    segment_id: int
    position: int
    body: str


class ContentColumns(NamedTuple):
    """Columns of a row with opaque bytes; `content` is None in a write whose value is a blob."""

    type: str
    content: bytes | None
    compressed: bool
    base_segment: int | None = None
    base_position: int | None = None


def build_content_columns(type_: str, content: bytes, messages: Sequence[StoredMessage] = ()) -> ContentColumns:
    """Build the columns of opaque bytes, of which one of the messages may have the text. Raises `TooLarge`."""
    if len(content) > MAX_VALUE_BYTES:
        raise TooLarge(f"A value of the format {type_!r}", len(content), MAX_VALUE_BYTES)
    if len(content) >= plain_and_delta_compression.MIN_COMPRESSED_SIZE:
        for message in messages:
            base = plain_and_delta_compression.build_compression_base_from_message(type_, message.body)
            if not _contains_samples_of_base(content, base):
                continue
            difference = plain_and_delta_compression.compress_difference(content, base)
            if len(difference) < len(content) // 4:
                return ContentColumns(type_, difference, True, message.segment_id, message.position)
    packed = plain_and_delta_compression.compress_if_shorter_or_none(content)
    return ContentColumns(type_, content if packed is None else packed, packed is not None)


def _contains_samples_of_base(content: bytes, base: bytes) -> bool:
    places = (len(base) * quarter // 4 for quarter in (2, 1, 3))
    return len(base) > _PROBE_SIZE and any(base[place : place + _PROBE_SIZE] in content for place in places)


def list_candidate_base_messages(messages: Sequence[StoredMessage], number: int, count: int) -> Sequence[StoredMessage]:
    """List the messages that may have the text of value `number` of `count` values in about the same order."""
    if len(messages) <= _MAX_CANDIDATES:
        return messages
    first = number * len(messages) // count - _MAX_CANDIDATES // 2
    return messages[max(0, min(first, len(messages) - _MAX_CANDIDATES)) :][:_MAX_CANDIDATES]


def read_contents_or_errors(using: str, rows: Sequence[ContentRow]) -> list[bytes | ValueError]:
    """Read the bytes of rows of one table, in their order; an error for those that are not those of their digest.

    A difference that cannot be read is read again with its row: its message may have been deleted since that was read.
    """
    contents = _read_contents_or_errors_once(using, rows)
    places = {
        row.pk: place
        for place, (row, content) in enumerate(zip(rows, contents, strict=True))
        if isinstance(content, ValueError) and _find_base_message_place(row) is not None
    }
    if places:
        stored = list(type(rows[0])._default_manager.using(using).filter(pk__in=list(places)))
        for row, content in zip(stored, _read_contents_or_errors_once(using, stored), strict=True):
            contents[places[row.pk]] = content
    return contents


def _read_contents_or_errors_once(using: str, rows: Sequence[ContentRow]) -> list[bytes | ValueError]:
    bodies = _read_bodies_of_base_messages(using, rows)
    return [_read_content_or_error(row, bodies) for row in rows]


def _read_content_or_error(row: ContentRow, bodies: dict[tuple[int, int], str]) -> bytes | ValueError:
    place = _find_base_message_place(row)
    if place is not None and place not in bodies:
        return ValueError("the message that has its text is missing")
    try:
        return row.read_content(None if place is None else bodies[place])
    except ValueError as error:
        return error


def _find_base_message_place(row: ContentRow) -> tuple[int, int] | None:
    if row.base_segment is None or row.base_position is None:
        return None
    return row.base_segment, row.base_position


def _read_bodies_of_base_messages(using: str, rows: Iterable[ContentRow]) -> dict[tuple[int, int], str]:
    places = {place for row in rows if (place := _find_base_message_place(row)) is not None}
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for segment, position in sorted(places):
        positions[segment].append(position)
    bodies: dict[tuple[int, int], str] = {}
    for segment, wanted in positions.items():
        for start in range(0, len(wanted), _QUERY_SIZE):
            part = wanted[start : start + _QUERY_SIZE]
            messages = Message.objects.using(using).filter(segment=segment, position__in=part)
            for position, body in messages.values_list("position", "body"):
                bodies[segment, position] = body
    return bodies


def find_base_segment_keys(using: str, session: Session) -> set[int]:
    """Return the segments of whose messages rows of a session have the text."""
    found: set[int] = set()
    for model in (Blob, FrameworkWrite):
        rows: Any = model._default_manager.using(using).filter(session=session, base_segment__isnull=False)
        found.update(rows.order_by().values_list("base_segment", flat=True).distinct())
    return found


def inline_contents_that_refer_to_messages(using: str, session: Session, segment_id: int, first: int) -> None:
    """Store the bytes alone whose text the messages of a segment from position `first` on have.

    The session has to be locked. Bytes that cannot be read stay as they are: a load says why.
    """
    for model in (Blob, FrameworkWrite):
        rows: Any = model._default_manager.using(using).filter(session=session, base_segment=segment_id)
        pks = list(rows.filter(base_position__gte=first).values_list("pk", flat=True))
        for start in range(0, len(pks), _QUERY_SIZE):
            part = list(rows.filter(pk__in=pks[start : start + _QUERY_SIZE]))
            for row in complete_differences_in_place(using, part):
                columns = {name: getattr(row, name) for name in ContentColumns._fields}
                rows.filter(pk=row.pk).update(**columns)


def complete_differences_in_place(using: str, rows: Sequence[ContentRow]) -> list[ContentRow]:
    """Replace contents that are stored as differences from messages by complete ones, without saving the rows.

    Returns the rows that were changed.
    """
    changed = [row for row in rows if _find_base_message_place(row) is not None]
    for row, content in zip(changed, read_contents_or_errors(using, changed), strict=True):
        if isinstance(content, bytes):
            for name, value in build_content_columns(row.type, content)._asdict().items():
                setattr(row, name, value)
    return changed
