"""A pause and an early response to one of its calls do not pass each other unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper


def pass_one_by_one(connection: BaseDatabaseWrapper, workspace_pk: int, call_ids: Iterable[str]) -> None:
    """Until the end of this transaction, keep others out who pass with one of these ids.

    On SQLite, where the transaction alone writes, there is nothing to do.
    """
    if connection.vendor != "postgresql":
        return
    # In one order, so that two who share several ids do not wait for each other.
    keys = sorted({_key(workspace_pk, call_id) for call_id in call_ids})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def _key(workspace_pk: int, call_id: str) -> int:
    digest = hashlib.blake2b(call_id.encode(), digest_size=8, key=str(workspace_pk).encode(), person=b"peer call")
    return int.from_bytes(digest.digest(), "big", signed=True)
