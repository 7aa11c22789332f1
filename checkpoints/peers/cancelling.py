"""Cancelling a paused task: nothing that still comes counts, and every agent that was asked is told so."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from checkpoints.enums import AuditKind, PauseStatus, SessionStatus
from checkpoints.exceptions import NotPaused, SessionBusy, SessionFinished
from checkpoints.flows import Flow, Transact
from checkpoints.models import Session
from checkpoints.peers import telling
from checkpoints.peers.telling import Tell
from checkpoints.peers.values import Told
from checkpoints.resuming import ownership
from checkpoints.saving import audit, liveness, lookup, pauses
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store


def cancel_flow(store: Store, session_id: str, *, tell: Tell | None = None, reason: str = "") -> Flow[Told]:
    """End the session as cancelled and, with `tell`, tell the agents that were asked.

    Who is not told now, because there is no `tell`, because it fails or because this process dies, is told by
    `tell_peers`. Raises `SessionNotFound`, `SessionFinished`, `NotPaused`, and `SessionBusy` while a run drives the
    session.
    """
    session_pk: int = yield Transact(lambda: _cancel(store, session_id, reason))
    if tell is None:
        return Told()
    told: Told = yield from telling.tell_flow(store, tell, session_pk=session_pk)
    return told


def _cancel(store: Store, session_id: str, reason: str) -> int:
    with operation(store.using), transaction.atomic(using=store.using):
        row = lookup.session(store, session_id, lock=True)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        if pauses.holding(store, row) is None and not pauses.open_calls(store, row).exists():
            raise NotPaused(session_id)
        owner = row.owner
        if owner is not None and liveness.is_alive(owner):
            named = f"run {owner.number} on {owner.host} (pid {owner.pid})"
            raise SessionBusy(session_id, named, owner.heartbeat_at, owner.lease_expires_at)
        if owner is not None and owner.owning:
            ownership.declare_lost(store, row, owner)
        calls = pauses.close_all(store, row, PauseStatus.CANCELLED)
        Session.objects.using(store.using).filter(pk=row.pk).update(
            status=SessionStatus.CANCELLED, owner=None, fence=F("fence") + 1
        )
        pauses.touch(store, row)
        audit.record(store, AuditKind.PEERS_CANCELLED, session_pk=row.pk, actor="peers", calls=calls, reason=reason)
        audit.record(
            store, AuditKind.SESSION_FINISHED, session_pk=row.pk, actor="peers", status=SessionStatus.CANCELLED
        )
        return row.pk
