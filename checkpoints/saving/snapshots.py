"""A private copy of the transcript that was saved last, to see cheaply what has changed in the caller's.

The caller's objects may have been changed in place, so they are compared, never trusted. Comparing with a copy is
two orders of magnitude faster than encoding and hashing the whole transcript again: texts are shared, and an
unchanged one is recognised by identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoints.serde.canonical import changed_meanwhile


class Exact:
    """A number or boolean that only equals one of the same type and the same text: 1, 1.0 and True differ."""

    __slots__ = ("kind", "said")

    def __init__(self, value: Any) -> None:
        self.kind, self.said = type(value), repr(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is self.kind and repr(other) == self.said

    __hash__ = None  # type: ignore[assignment]


def copied(value: Any) -> Any:
    """A copy of a JSON value that compares exactly with what it was made from."""
    kind = type(value)
    if value is None or kind is str:
        return value
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return Exact(value)


def taken(messages: Sequence[Any]) -> list[Any] | None:
    """A copy of `messages`; None where they contain themselves, which their encoding refuses with the place.

    Take it before they are encoded. What another thread changes in between then differs from the copy, and the next
    save finds it; a copy that were newer than what is stored would hide it. Raises `ConcurrentModification`.
    """
    try:
        return [copied(message) for message in messages]
    except RecursionError:
        return None
    except RuntimeError as error:
        raise changed_meanwhile(error, "transcript") from error


def same(snapshot: Sequence[Any], messages: Sequence[Any]) -> bool:
    """Whether `messages` starts with exactly what `snapshot` holds."""
    return len(messages) >= len(snapshot) and snapshot == list(messages[: len(snapshot)])
