"""Secrets that are given out once and kept only as digests."""

import hashlib
import secrets
from typing import Final

#: 256 bits: nobody guesses one, so a fast digest is enough.
_BYTES: Final = 32


def made(prefix: str) -> str:
    """A new secret; the prefix tells people and secret scanners what it is."""
    return f"{prefix}_{secrets.token_urlsafe(_BYTES)}"


def digest(secret: str) -> str:
    """What is stored of a secret: SHA-256 in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
