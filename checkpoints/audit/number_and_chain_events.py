"""Assign recorded events their numbers in the chain of their workspace.

Events are recorded without a number, because a chain that every operation extends itself would make all of them wait
for each other, and could deadlock two that hold other locks. Sealing runs afterwards, in a transaction of its own that
takes one lock (the row of the chain) and touches only events that nobody else changes. Any number of processes may
seal: one does the work, the others find nothing left. An event whose transaction commits late gets a later number.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from checkpoints.audit.chained_event_digest import compute_chained_event_digest
from checkpoints.models import AuditChain, AuditEvent

#: Batch size: sealing holds a lock, on SQLite the write lock.
_BATCH_SIZE = 100


def seal_events_of_all_workspaces(using: str = "default") -> int:
    """Seal the waiting events of all workspaces; returns their number. One cheap query if there are none."""
    events = AuditEvent.objects.using(using).filter(number=None)
    workspaces = sorted(set(events.order_by().values_list("workspace_id", flat=True)[:_BATCH_SIZE]))
    return sum(seal_events_of_workspace(workspace, using=using) for workspace in workspaces)


def seal_events_of_workspace(workspace_pk: int, *, using: str = "default") -> int:
    """Seal every committed event of a workspace; returns their number."""
    total = 0
    while count := _number_and_chain_batch(workspace_pk, using):
        total += count
        if count < _BATCH_SIZE:
            break
    return total


def _number_and_chain_batch(workspace_pk: int, using: str) -> int:
    with transaction.atomic(using=using):
        chain = _get_or_create_locked_chain(workspace_pk, using)
        unsealed_events = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number=None)
        events = list(unsealed_events.order_by("pk")[:_BATCH_SIZE])
        if not events:
            return 0
        for event in events:
            chain.number += 1
            chain.seal = compute_chained_event_digest(chain.seal, chain.number, event)
            event.number, event.seal = chain.number, chain.seal
        AuditEvent.objects.using(using).bulk_update(events, ["number", "seal"])
        chain.save(using=using, update_fields=["number", "seal"])
        return len(events)


def _get_or_create_locked_chain(workspace_pk: int, using: str) -> AuditChain:
    """Lock the chain until the transaction ends: an update locks on both databases, SQLite has no other row lock."""
    chains = AuditChain.objects.using(using).filter(workspace=workspace_pk)
    if not chains.update(number=F("number")):
        AuditChain.objects.using(using).bulk_create([AuditChain(workspace_id=workspace_pk)], ignore_conflicts=True)
        chains.update(number=F("number"))
    return chains.get()
