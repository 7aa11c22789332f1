"""Queries of the messages of a transcript, which follow its segments and load only what a page displays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Q, QuerySet
from django.db.models.functions import Length
from django.db.models.lookups import Contains

from checkpoints.db.decompressed_text_sql import DecompressedText
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import Part
from checkpoints.models import Message
from checkpoints.versions import read_messages_along_segments, version_seals_and_transcript_verification

#: Messages in one window (a few screens), which bounds the cost of a page.
WINDOW = 24
#: Maximum characters of the bodies in one window, which always contains at least one message.
WINDOW_SIZE = 8_000_000


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """The messages `first` to `upto` (exclusive) of a transcript, stored in one segment."""

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


def load_segment_ranges(segment_id: int, length: int, *, using: str = DEFAULT_DB_ALIAS) -> list[SegmentRange]:
    """Return the segments of the first `length` messages of the transcript that ends in `segment_id`, from its
    start."""
    return [
        SegmentRange(*row)
        for row in read_messages_along_segments.read_segment_ranges(connections[using], segment_id, length)
    ]


def query_messages_of_ranges(ranges: Collection[SegmentRange]) -> QuerySet[Message]:
    """Query the messages of a transcript, whose segments are `ranges`."""
    parts = [Q(segment=part.segment_id, position__gte=part.first, position__lt=part.upto) for part in ranges]
    return Message.objects.filter(reduce(or_, parts)) if parts else Message.objects.none()


def build_body_contains_condition(part: str) -> Q:
    """Build the condition that the body of a message contains a text."""
    return Q(Contains(DecompressedText("body"), part))


def count_shared_messages(one: Sequence[SegmentRange], other: Sequence[SegmentRange]) -> int:
    """Count the messages that two transcripts share as the same rows, without a query."""
    common = 0
    for first_range, second_range in zip(one, other, strict=False):
        if first_range.segment_id != second_range.segment_id:
            break
        common = min(first_range.upto, second_range.upto)
        if first_range.upto != second_range.upto:
            break
    return common


def load_and_verify_newest_messages_within_size(
    segment_id: int, first: int, upto: int, *, using: str = DEFAULT_DB_ALIAS, size: int = WINDOW_SIZE
) -> list[StoredMessage]:
    """Load and verify the messages `first` to `upto` (exclusive) of the transcript that ends in `segment_id`, in order.

    Only the newest messages that fit into `size` characters are returned, always including the last one, so that huge
    messages cannot exhaust memory. `position` of the first message tells how far the window reaches. Raises
    `IntegrityError` for a message that was altered.
    """
    connection = connections[using]
    fields = read_messages_along_segments.list_message_fields()
    rows = read_messages_along_segments.read_newest_messages_within_size(
        connection, segment_id, first, upto, fields, size
    )
    messages = [read_messages_along_segments.build_message_from_values(connection, row) for row in rows]
    version_seals_and_transcript_verification.verify_consecutive_messages(connection, segment_id, messages)
    return [
        StoredMessage(
            message.pk,
            message.segment_id,
            message.position,
            message.message_id,
            message.role,
            message.created_at,
            message.body,
        )
        for message in messages
    ]


def load_message_window_or_raise_if_gap(segment_id: int, first: int, upto: int) -> list[StoredMessage]:
    """Load a window of messages that a version has. Raises `IntegrityError` if one of them is missing or altered."""
    messages = load_and_verify_newest_messages_within_size(segment_id, first, upto)
    expected = upto - 1
    for message in reversed(messages):
        if message.position != expected:
            break
        expected -= 1
    if not messages or expected != upto - len(messages) - 1:
        raise IntegrityError(Message._meta.db_table, f"at position {expected}", "it is missing")
    return messages


def load_unverified_ids_and_bodies_by_place(
    places: Collection[tuple[int, int]], *, longest: int
) -> dict[tuple[int, int], tuple[str, str]]:
    """Load messages by segment and position, without verifying them. Map each place to the message id and the body.

    Bodies of more than `longest` characters are left out, so that huge messages cannot exhaust memory.
    """
    if not places:
        return {}
    segments, positions = ({place[number] for place in places} for number in (0, 1))
    messages = Message.objects.filter(segment__in=segments, position__in=positions)
    rows = messages.alias(size=Length(DecompressedText("body"))).filter(size__lte=longest)
    return {
        (segment, position): (message_id, body)
        for segment, position, message_id, body in rows.values_list("segment", "position", "message_id", "body")
    }


def has_message_only_grown(replaced: tuple[str, str] | None, message_id: str, parts: Sequence[Part]) -> bool:
    """Return whether a message has the parts of the message that it replaced, and perhaps more.

    A framework that stores an answer while it is written replaces it by a longer one. Nobody has rewritten it.

    Args:
        replaced: Id and body of the replaced message, as `load_unverified_ids_and_bodies_by_place` returns them; None
            if not loaded.
        message_id: Id of the message.
        parts: Parts of the message.
    """
    if replaced is None or not message_id or replaced[0] != message_id:
        return False
    known = parse_message_parts.parse_message_parts(replaced[1])
    return known == tuple(parts[: len(known)])
