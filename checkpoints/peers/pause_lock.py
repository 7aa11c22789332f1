"""Lock between a pause and an early response to one of its calls, so that one of them sees the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper


def lock_call_ids(connection: BaseDatabaseWrapper, workspace_pk: int, call_ids: Iterable[str]) -> None:
    """Lock these call ids against other transactions until the end of this one.

    On SQLite, which has only one writing transaction, there is nothing to do.
    """
    if connection.vendor != "postgresql":
        return
    # Locked in one order, so that two transactions with several common ids cannot deadlock.
    keys = sorted({_make_lock_key(workspace_pk, call_id) for call_id in call_ids})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def _make_lock_key(workspace_pk: int, call_id: str) -> int:
    digest = hashlib.blake2b(call_id.encode(), digest_size=8, key=str(workspace_pk).encode(), person=b"peer call")
    return int.from_bytes(digest.digest(), "big", signed=True)
