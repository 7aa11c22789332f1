"""Identifiers: time-ordered UUIDs, and the rules for ids that users choose."""

import os
import re
import time
import uuid

from checkpoints.exceptions import InvalidIdentifier, InvalidInput

MAX_LENGTH = 255
LARGEST_NUMBER = 2**62
_UNSTORABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_IN_NO_COLUMN = re.compile("[\x00\ud800-\udfff]")


def uuid7() -> uuid.UUID:
    """A version 7 UUID (RFC 9562): 48 bits of Unix milliseconds, then random bits."""
    value = int.from_bytes(os.urandom(10), "big") | (time.time_ns() // 1_000_000) << 80
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def checked(kind: str, value: object) -> str:
    """`value` as an id of `kind`: 1 to 255 characters of any language, without control characters.

    Raises `InvalidIdentifier`. Slashes, colons, dots and spaces are fine: ids never become paths.
    """
    if not isinstance(value, str):
        raise InvalidIdentifier(kind, value, f"it is a {type(value).__name__}, not text")
    if not value.strip():
        raise InvalidIdentifier(kind, value, "it is empty")
    if len(value) > MAX_LENGTH:
        raise InvalidIdentifier(kind, value[:40] + "…", f"it has {len(value)} characters, {MAX_LENGTH} is the most")
    if found := _UNSTORABLE.search(value):
        raise InvalidIdentifier(kind, value, f"it contains {found.group()!r}, which databases do not keep in text")
    return value


def is_storable(text: str) -> bool:
    """Whether a column of text can hold `text`: nothing equals what none can, and asking a database for it fails."""
    return _IN_NO_COLUMN.search(text) is None


def checked_number(what: str, value: object, *, least: int = 0) -> int:
    """`value` as a whole number from `least` that every database can keep. Raises `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_NUMBER:
        raise InvalidInput(f"{what} is {value!r}; it has to be a whole number from {least}.")
    return value
