"""Generate a secret, which is displayed once, and the digest that is stored of it."""

import hashlib
import secrets
from typing import Final

#: 256 bits cannot be guessed, so a fast digest is enough.
_BYTES: Final = 32


def generate_secret(prefix: str) -> str:
    """Generate a secret; the prefix identifies its kind for people and secret scanners."""
    return f"{prefix}_{secrets.token_urlsafe(_BYTES)}"


def compute_secret_digest(secret: str) -> str:
    """Return the digest to store for a secret: SHA-256 in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
