"""Transcripts as a tree of segments: find the new messages of a transcript, and the segment they belong to.

The common case is recognised with a private copy of the transcript that was saved last. The caller's objects may have
been changed in place, so they are compared, never trusted. Comparing with a copy is two orders of magnitude faster than
encoding and hashing the whole transcript again: strings are shared, and an unchanged one is recognised by identity.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connections

from checkpoints.db import clock
from checkpoints.db.hot_statements import NewMessage
from checkpoints.exceptions import IntegrityError
from checkpoints.formats.canonical_json import build_concurrent_modification_or_same_error
from checkpoints.formats.storable_text import truncate_to_storable
from checkpoints.models import Segment
from checkpoints.store.checkpointer_state import TranscriptHead
from checkpoints.versions import read_messages_along_segments
from checkpoints.versions.validate_and_digest_transcript import PreparedTranscript


def build_new_messages(prepared: PreparedTranscript, skip: int, first: int | None = None) -> list[NewMessage]:
    """Build the messages after the first `skip` of `prepared`; `first` is the position of the first of them."""
    first = skip if first is None else first
    now = clock.now()
    return [
        NewMessage(
            position=first + index,
            message_id=_truncate_to_storable_or_empty(prepared.messages[skip + index].get("id")),
            role=_truncate_to_storable_or_empty(_get_role_or_derive_it_from_type(prepared.messages[skip + index]))[:32],
            created_at=_parse_time_or_default(prepared.messages[skip + index].get("created_at"), now),
            body=prepared.bodies[skip + index],
            chain=prepared.chains[skip + index],
        )
        for index in range(len(prepared.bodies) - skip)
    ]


def _get_role_or_derive_it_from_type(message: Mapping[str, Any]) -> object:
    """Return the role of a message. Calls, reasoning and results in the form of OpenAI's items do not state theirs."""
    role, kind = message.get("role"), message.get("type")
    if role is None and isinstance(kind, str):
        if kind == "reasoning" or kind.endswith("_call"):
            return "assistant"
        if kind.endswith("_output"):
            return "tool"
    return role


def _truncate_to_storable_or_empty(value: object) -> str:
    return truncate_to_storable(value, 255) if isinstance(value, str) else ""


def _parse_time_or_default(value: object, default: datetime) -> datetime:
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else default
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return default


def count_messages_shared_with_head(using: str, prepared: PreparedTranscript, head: TranscriptHead) -> int:
    """Count the messages that the transcript shares with the one that ends at `head`.

    A chain value depends on everything before it, so equality is monotonic and a binary search finds the border.
    """
    rows = read_messages_along_segments.read_message_field_rows(
        connections[using], head.segment_id, head.length, ("chain",)
    )
    stored_chains = [bytes(chain) for (chain,) in rows[: len(prepared.chains)]]
    return bisect_left(
        range(len(stored_chains)), 1, key=lambda index: int(stored_chains[index] != prepared.chains[index])
    )


def create_branch_segment(using: str, session_pk: int, head: TranscriptHead, length: int) -> Segment:
    """Create a segment that shares the first `length` messages of the transcript that ends at `head`.

    Raises `IntegrityError` if a segment of the transcript is missing.
    """
    parent = _get_segment_or_raise(using, head.segment_id)
    while parent.parent_id is not None and parent.parent_length >= length:
        parent = _get_segment_or_raise(using, parent.parent_id)
    return Segment.objects.using(using).create(session_id=session_pk, parent=parent, parent_length=length)


def _get_segment_or_raise(using: str, pk: int) -> Segment:
    segment = Segment.objects.using(using).filter(pk=pk).first()
    if segment is None:
        raise IntegrityError(Segment._meta.db_table, str(pk), "it is missing")
    return segment


# copies of transcripts, for comparison with the next one


class _ExactNumber:
    """Number or boolean that equals only one of the same type and the same text: 1, 1.0 and True differ."""

    __slots__ = ("kind", "text")

    def __init__(self, value: Any) -> None:
        self.kind, self.text = type(value), repr(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is self.kind and repr(other) == self.text

    __hash__ = None  # type: ignore[assignment]


def copy_json_value_for_comparison(value: Any) -> Any:
    """Copy a JSON value so that the copy compares exactly with the original."""
    kind = type(value)
    if value is None or kind is str:
        return value
    if isinstance(value, dict):
        return {key: copy_json_value_for_comparison(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json_value_for_comparison(item) for item in value]
    return _ExactNumber(value)


def copy_messages_for_comparison(messages: Sequence[Any]) -> list[Any] | None:
    """Copy `messages`; None if they contain themselves, which their encoding refuses with the place.

    Copy them before they are encoded: a change by another thread in between then differs from the copy, and the next
    save finds it; a copy newer than the stored messages would hide it. Raises `ConcurrentModification`.
    """
    try:
        return [copy_json_value_for_comparison(message) for message in messages]
    except RecursionError:
        return None
    except RuntimeError as error:
        raise build_concurrent_modification_or_same_error(error, "transcript") from error


def starts_with_copied_messages(copy: Sequence[Any], messages: Sequence[Any]) -> bool:
    """Return whether `messages` starts with exactly the messages that `copy` was made from."""
    return len(messages) >= len(copy) and copy == list(messages[: len(copy)])
