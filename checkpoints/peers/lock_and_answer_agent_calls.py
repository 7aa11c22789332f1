"""Lock the ids of calls to other agents, and write the result of an open call.

A pause does both with the responses that came before it, and the acceptance of a response with its call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from checkpoints.enums import PeerCallStatus
from checkpoints.models import PeerCall
from checkpoints.store.database_client_state import Store


def lock_call_ids(connection: BaseDatabaseWrapper, workspace_pk: int, call_ids: Iterable[str]) -> None:
    """Lock these call ids against other transactions until the end of this one.

    A pause and an early response to one of its calls take this lock, so that one of them sees the other.
    On SQLite, which has only one writing transaction, there is nothing to do.
    """
    if connection.vendor != "postgresql":
        return
    # Locked in one order, so that two transactions with several common ids cannot deadlock.
    keys = sorted({_compute_advisory_lock_key(workspace_pk, call_id) for call_id in call_ids})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def _compute_advisory_lock_key(workspace_pk: int, call_id: str) -> int:
    digest = hashlib.blake2b(call_id.encode(), digest_size=8, key=str(workspace_pk).encode(), person=b"peer call")
    return int.from_bytes(digest.digest(), "big", signed=True)


def write_result_of_open_agent_call(store: Store, call: PeerCall, result: str, receipt: str) -> bool:
    """Write the result onto an open call. Returns False if it is not open any more."""
    open_call = PeerCall.objects.using(store.using).filter(pk=call.pk, status=PeerCallStatus.WAITING)
    return bool(
        open_call.update(
            status=PeerCallStatus.ANSWERED,
            result=result,
            receipt=receipt,
            settled_at=Now(),
            notice="",
            tell_after=None,
        )
    )
