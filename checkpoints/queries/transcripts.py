"""Reading windows of a transcript: only the messages that are shown leave the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from checkpoints.saving import paths

#: Messages in one window: some screens of them. What it costs to show one is what a page costs.
WINDOW = 32
#: Characters of bodies in one window; a window ends early rather than exceed it, but holds one message at least.
WINDOW_SIZE = 8_000_000
_FIELDS = ("id", "segment", "position", "message_id", "role", "created_at", "body")


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
    return [Stretch(*row) for row in paths.read_stretches(connections[using], segment_id, length)]


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
    rows = paths.read_window(connections[using], segment_id, first, upto, _FIELDS, size)
    return [
        StoredMessage(pk, place, at, name, role, _aware(then), body) for pk, place, at, name, role, then, body in rows
    ]


def _aware(value: Any) -> datetime:
    """SQLite hands times of hand-written statements over as text, in UTC."""
    parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
