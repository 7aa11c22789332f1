"""Finding runs that are gone although nobody has resumed their sessions, so that people see it without an agent."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from checkpoints import process
from checkpoints.enums import OWNING_RUN
from checkpoints.models import Run, Session, ToolCall
from checkpoints.resuming import ownership
from checkpoints.saving import liveness, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store, live_stores

#: Sessions that one sweep handles at most.
LIMIT = 100


def sweep_lost_runs(store: Store, *, limit: int = LIMIT) -> list[str]:
    """End runs that are gone and interrupt what they had issued. Returns the ids of their sessions.

    A run is gone when its lease has run out; one of a process on this machine, when that process is.

    Any number of processes may sweep at once: each session is looked at under its own lock, and on PostgreSQL one that
    another process has locked is left to that one. A sweep does not take sessions; a resume does that as usual.
    """
    with operation(store.using):
        owning = Run.objects.using(store.using).filter(
            status__in=sorted(OWNING_RUN), session__workspace_id=store.workspace_id
        )
        expired = owning.filter(lease_expires_at__lte=Now()).order_by("lease_expires_at")
        candidates = list(expired.values_list("session_id", flat=True)[:limit])
        if len(candidates) < limit and (dead := _of_dead_processes(owning, limit)) is not None:
            dead = dead.exclude(session_id__in=candidates).order_by("pk")
            candidates += dead.values_list("session_id", flat=True)[: limit - len(candidates)]
        return [swept for pk in candidates if (swept := _sweep(store, pk)) is not None]


def interrupt_lost_call(store: Store, session_id: str, call_pk: int) -> None:
    """Interrupt a call whose run is gone, as a decision about it would, for who only looks at it."""
    with operation(store.using), transaction.atomic(using=store.using):
        row = lookup.session(store, session_id, lock=True)
        call = ToolCall.objects.using(store.using).filter(session=row, pk=call_pk).select_related("run").first()
        if call is not None:
            ownership.interrupt_if_lost(store, row, call)


def _of_dead_processes(owning: QuerySet[Run], limit: int) -> QuerySet[Run] | None:
    """The runs of processes on this machine that are gone, and of checkpointers of this process that are; None where
    there is none. Looks at each process once, however many sessions it owned, and at `limit` dead ones at most."""
    here = process.this_process()
    if not here.host_identity:
        return None
    on_this_machine = owning.filter(host_identity=here.host_identity)
    gone = Q()
    for pid, began in on_this_machine.values_list("pid", "process_started").distinct().order_by("pid"):
        if (pid, began) == (here.pid, here.started):
            gone |= Q(pid=pid, process_started=began) & ~Q(owner_token__in=[store.token for store in live_stores()])
        elif process.known_dead(here.host_identity, pid, began):
            gone |= Q(pid=pid, process_started=began)
        if len(gone) >= limit:
            break
    return on_this_machine.filter(gone) if gone else None


def _sweep(store: Store, session_pk: int) -> str | None:
    with transaction.atomic(using=store.using):
        rows = Session.objects.using(store.using).select_for_update(skip_locked=True, of=("self",))
        row = rows.filter(pk=session_pk).select_related("owner").first()
        if row is None or row.owner is None or not row.owner.owning or liveness.is_alive(row.owner):
            return None
        ownership.declare_lost(store, row, row.owner)
        return row.session_id
