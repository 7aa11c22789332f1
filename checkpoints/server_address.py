"""Distinction between the address of a server and that of a database."""

from __future__ import annotations

from checkpoints.exceptions import InvalidInput


def is_server_address(url: object) -> bool:
    """Return whether `url` is the address of a server instead of a database."""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def require_no_token(token: str | None) -> None:
    """Require that no token is given for a database. Raises `InvalidInput`."""
    if token is not None:
        raise InvalidInput('A token is for a server: Checkpointer("https://…", token=…). A database has none.')
