"""Finding runs that are gone although nobody has resumed their sessions, so that people see it without an agent."""

from __future__ import annotations

from django.db import transaction
from django.db.models.functions import Now

from checkpoints.enums import OWNING_RUN
from checkpoints.models import Run, Session
from checkpoints.resuming import ownership
from checkpoints.saving import liveness
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

#: Sessions that one sweep handles at most.
LIMIT = 100


def sweep_lost_runs(store: Store, *, limit: int = LIMIT) -> list[str]:
    """End runs whose lease has run out and interrupt what they had issued. Returns the ids of their sessions.

    Any number of processes may sweep at once: each session is looked at under its own lock, and on PostgreSQL one that
    another process has locked is left to that one. A sweep does not take sessions; a resume does that as usual.
    """
    with operation(store.using):
        expired = Run.objects.using(store.using).filter(
            status__in=sorted(OWNING_RUN), lease_expires_at__lte=Now(), session__workspace_id=store.workspace_id
        )
        candidates = list(expired.order_by("lease_expires_at").values_list("session_id", flat=True)[:limit])
        return [swept for pk in candidates if (swept := _sweep(store, pk)) is not None]


def _sweep(store: Store, session_pk: int) -> str | None:
    with transaction.atomic(using=store.using):
        rows = Session.objects.using(store.using).select_for_update(skip_locked=True, of=("self",))
        row = rows.filter(pk=session_pk).select_related("owner").first()
        if row is None or row.owner is None or not row.owner.owning or liveness.is_alive(row.owner):
            return None
        ownership.declare_lost(store, row, row.owner)
        return row.session_id
