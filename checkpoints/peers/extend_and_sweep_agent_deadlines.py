"""Deadlines of peer calls: given with each call, extended while the other agent is working, swept when they have
passed.

A passed deadline has no effect by itself: the sweep expires the call, in a statement that checks the deadline again.
Until then a response counts and the deadline can be extended.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Greatest, Now

from checkpoints.audit import insert_unchained_events
from checkpoints.constants import BATCH_LIMIT
from checkpoints.db.keyset_pagination import iterate_distinct_session_pks
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import AuditKind, NoticeKind, PeerCallStatus
from checkpoints.exceptions import PeerCallNotFound, PeerCallOver
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.integrity import quarantine
from checkpoints.models import EarlyResponse, Join, PeerCall, Session
from checkpoints.peers import agent_call_join_counters
from checkpoints.peers.agent_call_and_result_types import Deadline, Swept
from checkpoints.peers.pause_run_for_agent_calls import parse_agent_call_deadline
from checkpoints.seals import row_seals
from checkpoints.sessions import peer_pause_blocking_and_closing
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store

#: Age after which a response whose pause has not come is deleted.
KEEP_EARLY_RESPONSES = timedelta(days=1)


def extend_deadline(store: Store, call_id: str, deadline: Deadline) -> datetime:
    """Extend the deadline of an open call to at least `deadline`; returns the resulting one.

    Raises `PeerCallNotFound`, and `PeerCallOver` if it is answered, expired or cancelled.
    """
    new_deadline = parse_agent_call_deadline(deadline)
    with database_operation(store.using), transaction.atomic(using=store.using):
        calls = PeerCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id, call_id=validate_id("peer call id", call_id)
        )
        call = calls.first()
        if call is None:
            raise PeerCallNotFound(call_id)
        row = Session.objects.using(store.using).select_for_update().get(pk=call.session_id)
        latest = Greatest("deadline", Value(new_deadline) if isinstance(new_deadline, datetime) else new_deadline)
        count = calls.filter(status=PeerCallStatus.WAITING).update(deadline=latest)
        call.refresh_from_db(using=store.using)
        if not count:
            raise PeerCallOver(call_id, call.status)
        look_up_and_lock_rows.increment_session_revision(store, row.pk)
        return call.deadline


def expire_overdue_calls_and_early_responses(store: Store, *, limit: int = BATCH_LIMIT) -> Swept:
    """Expire the calls of this workspace whose deadline has passed, and delete early responses that no pause adopted.

    Any number of processes may sweep at once: each session is checked under its own row lock, and on PostgreSQL a
    session that another process has locked is skipped. A session with altered data is put under quarantine, and none
    of its calls expires until it is released. When `limit` calls have expired, no further session is looked at; one
    that is skipped, because it cannot be verified, does not keep the sweep from those after it.
    """
    with database_operation(store.using):
        due_calls = PeerCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id,
            status=PeerCallStatus.WAITING,
            deadline__lte=Now(),
            session__quarantined_at=None,
        )
        results: list[Swept] = []
        for pk in iterate_distinct_session_pks(due_calls, by="deadline"):
            if sum(len(result.expired) for result in results) >= limit:
                break
            with quarantine.quarantine_and_skip_altered_session(store.using, pk):
                results.append(_expire_overdue_calls_and_complete_joins(store, pk))
        _delete_outdated_early_responses(store)
    return Swept(
        tuple(call for result in results for call in result.expired),
        tuple(join for result in results for join in result.complete),
    )


def _expire_overdue_calls_and_complete_joins(store: Store, session_pk: int) -> Swept:
    receipt = uuid.uuid4().hex
    with transaction.atomic(using=store.using):
        rows = Session.objects.using(store.using).select_for_update(skip_locked=True)
        row = rows.filter(pk=session_pk).first()
        if row is None:
            return Swept()
        row_seals.verify_row(row)
        if not _expire_and_count_overdue_calls(store, row, receipt):
            return Swept()
        calls = list(PeerCall.objects.using(store.using).filter(session=row, receipt=receipt).order_by("pk"))
        for call in calls:
            insert_unchained_events.record_event(
                store,
                AuditKind.PEER_EXPIRED,
                session_pk=row.pk,
                actor="sweeper",
                peer_call=call.call_id,
                peer=call.peer,
            )
        joins = Join.objects.using(store.using).filter(pk__in={call.join_id for call in calls}).order_by("pk")
        complete = [
            join.join_id for join in joins if _add_expired_calls_and_complete_join_if_last(store, join, calls, receipt)
        ]
        look_up_and_lock_rows.increment_session_revision(store, row.pk)
        return Swept(tuple(call.call_id for call in calls), tuple((row.session_id, join) for join in complete))


def _expire_and_count_overdue_calls(store: Store, row: Session, receipt: str) -> int:
    """Expire the calls of a session whose deadline has passed, in one statement."""
    due_calls = peer_pause_blocking_and_closing.select_open_calls_to_agents(store, row).filter(deadline__lte=Now())
    return due_calls.update(
        status=PeerCallStatus.EXPIRED,
        settled_at=Now(),
        receipt=receipt,
        notice=NoticeKind.CANCEL,
        tell_after=Now(),
        tell_attempts=0,
    )


def _add_expired_calls_and_complete_join_if_last(
    store: Store, join: Join, calls: Iterable[PeerCall], receipt: str
) -> bool:
    return agent_call_join_counters.add_closed_calls_and_complete_join_if_last(
        store, join, sum(call.join_id == join.pk for call in calls), receipt
    )


def _delete_outdated_early_responses(store: Store) -> None:
    responses = EarlyResponse.objects.using(store.using).filter(workspace_id=store.workspace_id)
    expired_responses = responses.filter(received_at__lt=Now() - KEEP_EARLY_RESPONSES)
    if expired_responses.exists():  # a sweep that finds nothing to do writes nothing
        expired_responses.delete()
