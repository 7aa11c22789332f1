"""Counting a join: once for each call, and complete exactly once."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.enums import AuditKind, JoinStatus
from checkpoints.models import Join
from checkpoints.saving import audit
from checkpoints.saving.store import Store


def count(store: Store, join: Join, settled: int, receipt: str) -> bool:
    """Count calls of `join` that the caller's transaction has settled. True where that completes it.

    The condition is in the statement that completes the join, so that one transaction can be told and no other.
    """
    waiting = Join.objects.using(store.using).filter(pk=join.pk, status=JoinStatus.WAITING)
    waiting.update(completed=F("completed") + settled)
    complete = waiting.filter(completed__gte=F("total")).update(
        status=JoinStatus.COMPLETE, completed_at=Now(), completed_by=receipt
    )
    join.refresh_from_db(using=store.using, fields=["completed", "status"])
    if complete:
        audit.record(
            store, AuditKind.JOIN_COMPLETE, session_pk=join.session_id, actor="peers", join=join.join_id, of=join.total
        )
    return bool(complete)
