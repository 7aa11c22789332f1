"""Identifiers: time-ordered UUIDs, and the rules for ids that users choose."""

import os
import re
import time
import uuid

from checkpoints.exceptions import InvalidIdentifier, InvalidInput

MAX_LENGTH = 255
LARGEST_NUMBER = 2**62
_FORBIDDEN_IN_IDS = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def generate_uuid7() -> uuid.UUID:
    """Generate a version 7 UUID (RFC 9562): 48 bits of Unix milliseconds, then random bits."""
    value = int.from_bytes(os.urandom(10), "big") | (time.time_ns() // 1_000_000) << 80
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def validate_id(kind: str, value: object) -> str:
    """Validate `value` as an id of `kind`: 1 to 255 characters of any language, without control characters.

    Raises `InvalidIdentifier`. Slashes, colons, dots and spaces are fine: ids never become paths.
    """
    if not isinstance(value, str):
        raise InvalidIdentifier(kind, value, f"it is a {type(value).__name__}, not text")
    if not value.strip():
        raise InvalidIdentifier(kind, value, "it is empty")
    if len(value) > MAX_LENGTH:
        raise InvalidIdentifier(kind, value[:40] + "…", f"it has {len(value)} characters, {MAX_LENGTH} is the most")
    if match := _FORBIDDEN_IN_IDS.search(value):
        raise InvalidIdentifier(kind, value, f"it contains {match.group()!r}, which databases do not keep in text")
    return value


def validate_integer(what: str, value: object, *, minimum: int = 0) -> int:
    """Validate `value` as an integer from `minimum` that every database can store. Raises `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= LARGEST_NUMBER:
        raise InvalidInput(f"{what} is {value!r}; it has to be a whole number from {minimum}.")
    return value
