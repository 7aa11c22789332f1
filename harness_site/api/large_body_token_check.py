"""Senders of large bodies: known by their token before the body is read."""

from __future__ import annotations

from channels.db import database_sync_to_async

from harness_site.accounts import api_tokens
from harness_site.serving.asgi_types import Scope


async def has_valid_token(scope: Scope) -> bool:
    """Return True if a request carries a valid token."""
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    return bool(header) and await database_sync_to_async(_is_valid_authorization_header)(header.decode("latin-1"))


def _is_valid_authorization_header(header: str) -> bool:
    try:
        api_tokens.authenticate_bearer_header_or_raise(header)
    except api_tokens.TokenRefused:
        return False
    return True
