"""Cancel a paused task: later responses do not count, and every agent with an open call gets a notice."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from checkpoints.audit import insert_unchained_events
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import AuditKind, PauseStatus, SessionStatus
from checkpoints.exceptions import NotPaused, SessionBusy, SessionFinished
from checkpoints.integrity import quarantine
from checkpoints.models import Session
from checkpoints.peers import deliver_notices
from checkpoints.peers.agent_call_and_result_types import Told
from checkpoints.peers.agent_notice_outbox import DatabaseOutbox
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.sessions import peer_pause_blocking_and_closing, take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact


def cancel_paused_session_and_notify_agents_flow(
    store: Store, session_id: str, *, tell: SendNotice | None = None, reason: str = ""
) -> Flow[Told]:
    """End the session as cancelled and, with `tell`, notify the agents that were asked.

    Notices that are not delivered now, because there is no `tell`, because it fails or because this process dies, are
    delivered by `tell_peers`. Raises `SessionNotFound`, `SessionFinished`, `NotPaused`, and `SessionBusy` while a run
    drives the session.
    """
    session_pk: int = yield Transact(lambda: cancel_paused_session(store, session_id, reason))
    if tell is None:
        return Told()
    return (
        yield from deliver_notices.deliver_due_notices_and_collect_errors_flow(DatabaseOutbox(store, session_pk), tell)
    )


def cancel_paused_session(store: Store, session_id: str, reason: str) -> int:
    """End the session as cancelled; the notices become due. Returns its number."""
    with (
        quarantine.quarantine_on_integrity_error(store, session_id),
        database_operation(store.using),
        transaction.atomic(using=store.using),
    ):
        row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        if (
            peer_pause_blocking_and_closing.find_blocking_paused_task(store, row) is None
            and not peer_pause_blocking_and_closing.select_open_calls_to_agents(store, row).exists()
        ):
            raise NotPaused(session_id)
        owner = row.owner
        if owner is not None and run_liveness_check.is_run_alive(owner):
            owner_name = f"run {owner.number} on {owner.host} (pid {owner.pid})"
            raise SessionBusy(session_id, owner_name, owner.heartbeat_at, owner.lease_expires_at)
        if owner is not None and owner.has_owning_status:
            take_and_release_ownership.end_lost_owner_run_and_interrupt_calls(store, row, owner)
        calls = peer_pause_blocking_and_closing.close_paused_tasks_and_cancel_agent_calls(
            store, row, PauseStatus.CANCELLED
        )
        Session.objects.using(store.using).filter(pk=row.pk).update(
            status=SessionStatus.CANCELLED, owner=None, fence=F("fence") + 1
        )
        look_up_and_lock_rows.increment_session_revision(store, row.pk)
        insert_unchained_events.record_event(
            store, AuditKind.PEERS_CANCELLED, session_pk=row.pk, actor="peers", calls=calls, reason=reason
        )
        insert_unchained_events.record_event(
            store, AuditKind.SESSION_FINISHED, session_pk=row.pk, actor="peers", status=SessionStatus.CANCELLED
        )
        return row.pk
