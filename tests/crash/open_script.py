"""Script that creates its database by opening it."""

from __future__ import annotations

from typing import Any

from checkpoints import SyncCheckpointer


def open_and_use(url: str, session_id: str) -> None:
    SyncCheckpointer.open(url, migrate=True).start_session(session_id)


def observe(url: str, session_id: str) -> dict[str, Any]:
    """Return the existing tables, after using them."""
    from django.db import connections

    cp = SyncCheckpointer.open(url)
    cp.start_session(session_id, takeover=True)
    version = cp.save_checkpoint(session_id, [{"id": "m0"}], None, 0.0)
    return {"tables": sorted(connections[cp.store.using].introspection.table_names()), "version": version}
