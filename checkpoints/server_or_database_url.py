"""Address of a server: how it differs from that of a database, and where its HTTP API is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from checkpoints.exceptions import InvalidInput

#: Path of the HTTP API below the address of a server.
API_PATH: Final = "/api/v1"


def is_server_address(url: object) -> bool:
    """Return whether `url` is the address of a server instead of a database."""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def require_no_token(url: str | Path | None, token: str | None) -> None:
    """Require that no token is given for a database, whose `url` may be a server's without its scheme.

    Raises `InvalidInput`.
    """
    if token is not None and isinstance(url, str) and "://" not in url:
        raise InvalidInput(f"{url!r} has no scheme. Begin the address of a server with https:// or http://")
    if token is not None:
        raise InvalidInput('A token is for a server: Checkpointer("https://…", token=…). A database has none.')
