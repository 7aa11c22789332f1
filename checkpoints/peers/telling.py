"""Telling other agents what they have to know: requests that nobody has sent yet, and what is not needed any more.

What has to be told is written down in the transaction that makes it true and crossed out when it has been told. Whoever
claims a notice has a while to deliver it; then it is anybody's again. So each is told at least once, through any crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.flows import Flow, Invoke, Transact
from checkpoints.models import PeerCall
from checkpoints.peers import sealing
from checkpoints.peers.values import Notice, Told
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

#: What tells another agent, sync or async. It raises where it could not.
Tell = Callable[[Notice], Awaitable[object] | object]

#: Notices that one round tells at most.
LIMIT = 100
#: How long a notice is left to whoever claimed it; one who dies with it is not missed earlier.
CLAIM = timedelta(seconds=30)
#: How long to wait after an attempt that failed: twice as long after each further one, up to the last.
AGAIN = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(hours=1)


def tell_flow(store: Store, tell: Tell, *, limit: int = LIMIT, session_pk: int | None = None) -> Flow[Told]:
    """Deliver what is due through `tell`. What it raises is kept in the result, and the notice for another attempt."""
    due: list[PeerCall] = yield Transact(lambda: _claim(store, limit, session_pk))
    told: list[str] = []
    failed: dict[str, str] = {}
    for call in due:
        try:
            yield Invoke(partial(tell, _notice(call)))
        except Exception as error:
            failed[call.call_id] = f"{type(error).__name__}: {error}"
            yield Transact(partial(_put_off, store, call))
        else:
            yield Transact(partial(_cross_out, store, call))
            told.append(call.call_id)
    return Told(tuple(told), failed)


def _claim(store: Store, limit: int, session_pk: int | None) -> list[PeerCall]:
    with operation(store.using):
        calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id, tell_after__lte=Now())
        calls = calls.exclude(notice="")
        if session_pk is not None:
            calls = calls.filter(session_id=session_pk)
        if not calls.exists():  # a round that finds nothing to do writes nothing
            return []
        with transaction.atomic(using=store.using):
            due = calls.select_for_update(skip_locked=True, of=("self",)).select_related("session")
            return [_claimed(store, call) for call in due.order_by("tell_after", "pk")[:limit]]


def _claimed(store: Store, call: PeerCall) -> PeerCall:
    call.tell_attempts += 1
    PeerCall.objects.using(store.using).filter(pk=call.pk).update(
        tell_attempts=call.tell_attempts, tell_after=clock.from_now(CLAIM)
    )
    return call


def _notice(call: PeerCall) -> Notice:
    session_id = call.session.session_id
    request = sealing.opened(call.request, session_id, f"request of {call.call_id}")
    return Notice(call.notice, session_id, call.call_id, call.peer, request, call.deadline, call.tell_attempts)


def _cross_out(store: Store, call: PeerCall) -> None:
    with operation(store.using):
        _same(store, call).update(notice="", tell_after=None)


def _put_off(store: Store, call: PeerCall) -> None:
    pause = min(AGAIN * 2 ** min(call.tell_attempts - 1, 20), LONGEST_PAUSE)
    with operation(store.using):
        _same(store, call).update(tell_after=clock.from_now(pause))


def _same(store: Store, call: PeerCall) -> QuerySet[PeerCall]:
    """The call, unless its notice has become another one meanwhile: that one stays."""
    return PeerCall.objects.using(store.using).filter(pk=call.pk, notice=call.notice, tell_attempts=call.tell_attempts)
