"""Moments in URLs, forms and websocket messages."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

#: One year inside the range of Python and both databases, so that times computed from a moment stay in range.
_EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9998, 12, 31, tzinfo=UTC)
#: Maximum length of an ISO 8601 time with microseconds and time zone.
_MAX_INPUT_LENGTH: Final = 40


def parse_utc_datetime_or_none(text: str, *, zone: tzinfo | None = None) -> datetime | None:
    """Parse an ISO 8601 time as UTC; None if it is invalid or near the ends of the supported range.

    A time without a time zone is one in `zone`, and invalid if that is None.
    """
    if len(text) > _MAX_INPUT_LENGTH or not text.isascii():
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            if zone is None:
                return None
            parsed = parsed.replace(tzinfo=zone)
        moment = parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST <= moment <= _LATEST else None
