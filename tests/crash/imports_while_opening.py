"""Function for a life that only opens its database."""

from __future__ import annotations

import sys

from checkpoints import SyncCheckpointer


def list_modules_imported_while_opening(url: str, session_id: str, path: str) -> list[str]:
    """Open the database, start a session, and return the names of the modules that this has imported."""
    before = set(sys.modules)
    with SyncCheckpointer(url) as cp:
        cp.start_session(session_id)
    return sorted(set(sys.modules) - before)
