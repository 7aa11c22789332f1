"""Moments that an address, a form or a websocket names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

#: A year away from the ends of what both databases and Python can hold, so that nothing that is reckoned from a moment
#: lies beyond them.
_EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9998, 12, 31, tzinfo=UTC)
#: An ISO 8601 time with microseconds and its zone is shorter.
_LONGEST: Final = 40


def parse_moment(text: str, *, needs_zone: bool = True) -> datetime | None:
    """The moment that `text` says in ISO 8601, in UTC; None where it says none, or one near the ends of time. Without
    `needs_zone`, a moment without a zone is in UTC."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            if needs_zone:
                return None
            found = found.replace(tzinfo=UTC)
        moment = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST <= moment <= _LATEST else None
