"""Windows of a transcript: only the displayed messages are loaded from the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from checkpoints.versions import segment_queries

#: Messages in one window (a few screens), which bounds the cost of a page.
WINDOW = 32
#: Maximum characters of the bodies in one window, which always contains at least one message.
WINDOW_SIZE = 8_000_000
_FIELDS = ("id", "segment", "position", "message_id", "role", "created_at", "body")


@dataclass(frozen=True, slots=True)
class Stretch:
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


def resolve_transcript_stretches(segment_id: int, length: int, *, using: str = DEFAULT_DB_ALIAS) -> list[Stretch]:
    """Return the segments of the first `length` messages of the transcript that ends in `segment_id`, from its
    start."""
    return [Stretch(*row) for row in segment_queries.read_segment_ranges(connections[using], segment_id, length)]


def count_shared_messages(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """Count the messages that two transcripts share as the same rows, without a query."""
    common = 0
    for first_stretch, second_stretch in zip(one, other, strict=False):
        if first_stretch.segment_id != second_stretch.segment_id:
            break
        common = min(first_stretch.upto, second_stretch.upto)
        if first_stretch.upto != second_stretch.upto:
            break
    return common


def load_message_window(
    segment_id: int, first: int, upto: int, *, using: str = DEFAULT_DB_ALIAS, size: int = WINDOW_SIZE
) -> list[StoredMessage]:
    """Load the messages `first` to `upto` (exclusive) of the transcript that ends in `segment_id`, in order.

    Only the newest messages that fit into `size` characters are returned, always including the last one, so that huge
    messages cannot exhaust memory. `position` of the first message tells how far the window reaches.
    """
    rows = segment_queries.read_window(connections[using], segment_id, first, upto, _FIELDS, size)
    return [
        StoredMessage(pk, place, at, name, role, _parse_aware_datetime(created_at), body)
        for pk, place, at, name, role, created_at, body in rows
    ]


def _parse_aware_datetime(value: Any) -> datetime:
    """Parse a time of raw SQL, which SQLite returns as text in UTC."""
    parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
