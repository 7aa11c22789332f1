"""Transcripts as a tree of segments: what of a given transcript is new, and where it has to go.

The common case is recognised with a private copy of the transcript that was saved last. The caller's objects may have
been changed in place, so they are compared, never trusted. Comparing with a copy is two orders of magnitude faster than
encoding and hashing the whole transcript again: texts are shared, and an unchanged one is recognised by identity.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connections

from checkpoints import clock
from checkpoints.exceptions import NotRepresentable
from checkpoints.models import Segment
from checkpoints.saving import paths
from checkpoints.saving.statements import NewMessage
from checkpoints.saving.store import Head
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical, changed_meanwhile


@dataclass(frozen=True)
class Prepared:
    """A transcript, or the end of one, checked and digested: `chains[i]` is the chain after message i."""

    messages: Sequence[dict[str, Any]]
    bodies: Sequence[str]
    chains: Sequence[bytes]


def prepare(messages: Sequence[dict[str, Any]], *, after: bytes = digests.EMPTY_CHAIN, first: int = 0) -> Prepared:
    """Check and digest `messages`, which stand at position `first` behind the chain `after`.

    Raises `NotRepresentable` and `TooLarge`, naming the place. Reads the objects now: later changes to them do
    not matter.
    """
    if not isinstance(messages, list | tuple):
        raise NotRepresentable("transcript", f"a {type(messages).__name__} is not a list of messages")
    bodies = []
    for position, message in enumerate(messages, first):
        if not isinstance(message, dict):
            raise NotRepresentable(f"transcript[{position}]", f"a {type(message).__name__} is not a message (a dict)")
        bodies.append(canonical(message, f"transcript[{position}]"))
    return Prepared(messages, bodies, digests.chain(bodies, after))


def continues(prepared: Prepared, head: Head) -> bool:
    """Whether the transcript starts with everything up to `head`."""
    if head.length == 0:
        return True
    return len(prepared.chains) >= head.length and prepared.chains[head.length - 1] == head.chain


def new_messages(prepared: Prepared, skip: int, first: int | None = None) -> list[NewMessage]:
    """What stands behind the first `skip` messages of `prepared`; `first` is the position of the first of them."""
    first = skip if first is None else first
    now = clock.now()
    return [
        NewMessage(
            position=first + index,
            message_id=_text(prepared.messages[skip + index].get("id")),
            role=_text(prepared.messages[skip + index].get("role"))[:32],
            created_at=_time(prepared.messages[skip + index].get("created_at"), now),
            body=prepared.bodies[skip + index],
            chain=prepared.chains[skip + index],
        )
        for index in range(len(prepared.bodies) - skip)
    ]


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    short = value[:255]
    return (short if short.isascii() else short.encode("utf-8", "replace").decode()).replace("\0", "")


def _time(value: object, otherwise: datetime) -> datetime:
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else otherwise
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return otherwise


def common_prefix(using: str, prepared: Prepared, head: Head) -> int:
    """How many messages the transcript shares with the one that ends at `head`.

    A chain value stands for everything before it, so equality is monotonous and a binary search finds the border.
    """
    rows = paths.read_messages(connections[using], head.segment_id, head.length, ("chain",))
    stored = [bytes(chain) for (chain,) in rows[: len(prepared.chains)]]
    return bisect_left(range(len(stored)), 1, key=lambda index: int(stored[index] != prepared.chains[index]))


def branch(using: str, session_pk: int, head: Head, length: int) -> Segment:
    """A new segment that shares the first `length` messages of the transcript that ends at `head`."""
    parent = Segment.objects.using(using).get(pk=head.segment_id)
    while parent.parent_id is not None and parent.parent_length >= length:
        parent = Segment.objects.using(using).get(pk=parent.parent_id)
    return Segment.objects.using(using).create(session_id=session_pk, parent=parent, parent_length=length)


# a copy of a transcript to compare the next one with


class _Exact:
    """A number or boolean that only equals one of the same type and the same text: 1, 1.0 and True differ."""

    __slots__ = ("kind", "text")

    def __init__(self, value: Any) -> None:
        self.kind, self.text = type(value), repr(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is self.kind and repr(other) == self.text

    __hash__ = None  # type: ignore[assignment]


def copy_value(value: Any) -> Any:
    """A copy of a JSON value that compares exactly with what it was made from."""
    kind = type(value)
    if value is None or kind is str:
        return value
    if isinstance(value, dict):
        return {key: copy_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_value(item) for item in value]
    return _Exact(value)


def copy_messages(messages: Sequence[Any]) -> list[Any] | None:
    """A copy of `messages`; None where they contain themselves, which their encoding refuses with the place.

    Take it before they are encoded. What another thread changes in between then differs from the copy, and the next
    save finds it; a copy that were newer than what is stored would hide it. Raises `ConcurrentModification`.
    """
    try:
        return [copy_value(message) for message in messages]
    except RecursionError:
        return None
    except RuntimeError as error:
        raise changed_meanwhile(error, "transcript") from error


def starts_with_copy(copy: Sequence[Any], messages: Sequence[Any]) -> bool:
    """Return whether `messages` starts with exactly the messages that `copy` was made from."""
    return len(messages) >= len(copy) and copy == list(messages[: len(copy)])
