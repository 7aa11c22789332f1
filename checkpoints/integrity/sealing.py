"""Giving recorded events their places in the chain of their workspace.

Events are recorded without one, because a chain that every operation extends itself would make all of them wait for
each other, and two that hold other locks could wait for ever. Sealing runs afterwards, in a transaction of its own that
takes one lock (the row of the chain) and touches only events that nobody else changes. Any number of processes may
seal: one does the work, the others find nothing left. An event whose transaction commits late gets a later place.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from checkpoints.integrity.chain import link
from checkpoints.models import AuditChain, AuditEvent

#: So many at once: sealing holds a lock, on SQLite the one for writing.
_BATCH = 100


def seal_all(using: str = "default") -> int:
    """Seal what waits in any workspace; returns how many events. One cheap query where nothing does."""
    waiting = AuditEvent.objects.using(using).filter(number=None)
    workspaces = sorted(set(waiting.order_by().values_list("workspace_id", flat=True)[:_BATCH]))
    return sum(seal(workspace, using=using) for workspace in workspaces)


def seal(workspace_pk: int, *, using: str = "default") -> int:
    """Seal every event of a workspace that has been committed; returns how many."""
    sealed = 0
    while count := _seal_batch(workspace_pk, using):
        sealed += count
        if count < _BATCH:
            break
    return sealed


def _seal_batch(workspace_pk: int, using: str) -> int:
    with transaction.atomic(using=using):
        chain = _locked(workspace_pk, using)
        waiting = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number=None)
        events = list(waiting.order_by("pk")[:_BATCH])
        if not events:
            return 0
        for event in events:
            chain.number += 1
            chain.seal = link(chain.seal, chain.number, event)
            event.number, event.seal = chain.number, chain.seal
        AuditEvent.objects.using(using).bulk_update(events, ["number", "seal"])
        chain.save(using=using, update_fields=["number", "seal"])
        return len(events)


def _locked(workspace_pk: int, using: str) -> AuditChain:
    """The chain, held until the transaction ends: an update locks on both databases, SQLite knows nothing else."""
    chains = AuditChain.objects.using(using).filter(workspace=workspace_pk)
    if not chains.update(number=F("number")):
        AuditChain.objects.using(using).bulk_create([AuditChain(workspace_id=workspace_pk)], ignore_conflicts=True)
        chains.update(number=F("number"))
    return chains.get()
