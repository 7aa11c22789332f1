"""Counters of a join: each call counts once, and the join completes exactly once."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import AuditKind, JoinStatus
from checkpoints.models import Join
from checkpoints.store.database_client_state import Store


def add_closed_calls_and_complete_join_if_last(store: Store, join: Join, count: int, receipt: str) -> bool:
    """Count calls of `join` that the caller's transaction has settled. Returns True if that completes it.

    The condition is in the statement that completes the join, so that exactly one transaction gets True.
    """
    open_join = Join.objects.using(store.using).filter(pk=join.pk, status=JoinStatus.WAITING)
    open_join.update(completed=F("completed") + count)
    complete = open_join.filter(completed__gte=F("total")).update(
        status=JoinStatus.COMPLETE, completed_at=Now(), completed_by=receipt
    )
    join.refresh_from_db(using=store.using, fields=["completed", "status"])
    if complete:
        insert_unchained_events.record_event(
            store, AuditKind.JOIN_COMPLETE, session_pk=join.session_id, actor="peers", join=join.join_id, of=join.total
        )
    return bool(complete)
