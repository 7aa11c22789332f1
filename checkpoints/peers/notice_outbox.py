"""Outbox of notices to other agents: requests that are not sent yet, and cancellations of calls.

A notice is stored in the transaction that makes it due and deleted when it has been delivered. A process that claims a
notice has a limited time to deliver it; then any process may claim it again. So each is delivered at least once,
through
any crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.db.operation_context import database_operation
from checkpoints.models import PeerCall
from checkpoints.peers import secret_encryption
from checkpoints.peers.peer_requests import Notice, Told
from checkpoints.sansio import Flow, Invoke, Transact
from checkpoints.store.store import Store

#: Function that notifies another agent, sync or async. It raises an error if it could not.
SendNotice = Callable[[Notice], Awaitable[object] | object]

#: Largest number of notices that are delivered at once.
DEFAULT_LIMIT = 100
#: Time for which a notice is reserved for the process that claimed it.
CLAIM_DURATION = timedelta(seconds=30)
#: Pause after a failed attempt, doubled after each further one, up to the last.
FIRST_RETRY_PAUSE = timedelta(seconds=1)
LONGEST_RETRY_PAUSE = timedelta(hours=1)


def deliver_notices_flow(
    store: Store, tell: SendNotice, *, limit: int = DEFAULT_LIMIT, session_pk: int | None = None
) -> Flow[Told]:
    """Deliver the due notices through `tell`. Its errors are returned in the result, and the notice is retried
    later."""
    due_calls: list[PeerCall] = yield Transact(lambda: _claim_due_notices(store, limit, session_pk))
    delivered: list[str] = []
    errors: dict[str, str] = {}
    for call in due_calls:
        try:
            yield Invoke(partial(tell, _build_notice(call)))
        except Exception as error:
            errors[call.call_id] = f"{type(error).__name__}: {error}"
            yield Transact(partial(_postpone_notice, store, call))
        else:
            yield Transact(partial(_clear_notice, store, call))
            delivered.append(call.call_id)
    return Told(tuple(delivered), errors)


def _claim_due_notices(store: Store, limit: int, session_pk: int | None) -> list[PeerCall]:
    with database_operation(store.using):
        calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id, tell_after__lte=Now())
        calls = calls.exclude(notice="")
        if session_pk is not None:
            calls = calls.filter(session_id=session_pk)
        if not calls.exists():  # a round that finds nothing to do writes nothing
            return []
        with transaction.atomic(using=store.using):
            due_calls = calls.select_for_update(skip_locked=True, of=("self",)).select_related("session")
            return [_mark_claimed(store, call) for call in due_calls.order_by("tell_after", "pk")[:limit]]


def _mark_claimed(store: Store, call: PeerCall) -> PeerCall:
    call.tell_attempts += 1
    PeerCall.objects.using(store.using).filter(pk=call.pk).update(
        tell_attempts=call.tell_attempts, tell_after=clock.database_time_after(CLAIM_DURATION)
    )
    return call


def _build_notice(call: PeerCall) -> Notice:
    session_id = call.session.session_id
    request = secret_encryption.load_with_opened_secrets(call.request, session_id, f"request of {call.call_id}")
    return Notice(call.notice, session_id, call.call_id, call.peer, request, call.deadline, call.tell_attempts)


def _clear_notice(store: Store, call: PeerCall) -> None:
    with database_operation(store.using):
        _select_unchanged_notice(store, call).update(notice="", tell_after=None)


def _postpone_notice(store: Store, call: PeerCall) -> None:
    pause = min(FIRST_RETRY_PAUSE * 2 ** min(call.tell_attempts - 1, 20), LONGEST_RETRY_PAUSE)
    with database_operation(store.using):
        _select_unchanged_notice(store, call).update(tell_after=clock.database_time_after(pause))


def _select_unchanged_notice(store: Store, call: PeerCall) -> QuerySet[PeerCall]:
    """Select the call unless its notice has been replaced by another one meanwhile, which then stays."""
    return PeerCall.objects.using(store.using).filter(pk=call.pk, notice=call.notice, tell_attempts=call.tell_attempts)
