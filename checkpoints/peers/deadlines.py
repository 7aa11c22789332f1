"""Deadlines: given with each call, extended while the other agent shows signs of life, swept when they have passed.

A deadline that has passed does nothing by itself: the sweep gives the call up, in a statement that looks at the
deadline again. Until then a response counts and the deadline can be extended.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Greatest, Now

from checkpoints.enums import AuditKind, NoticeKind, PeerCallStatus
from checkpoints.exceptions import PeerCallNotFound, PeerCallOver
from checkpoints.ids import checked
from checkpoints.models import EarlyResponse, Join, PeerCall, Session
from checkpoints.peers import counting
from checkpoints.peers.pausing import deadline_of
from checkpoints.peers.values import Deadline, Swept
from checkpoints.saving import audit, pauses
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

#: Calls that one sweep gives up at most, or a few more: it does not stop inside a session.
LIMIT = 100
#: A response whose pause has not come after this long is dropped.
KEEP_EARLY = timedelta(days=1)


def extend(store: Store, call_id: str, deadline: Deadline) -> datetime:
    """Give a call that is waited for at least until `deadline`; returns its deadline then.

    Raises `PeerCallNotFound`, and `PeerCallOver` where it is answered, given up or cancelled.
    """
    wanted = deadline_of(deadline)
    with operation(store.using), transaction.atomic(using=store.using):
        calls = PeerCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id, call_id=checked("peer call id", call_id)
        )
        call = calls.first()
        if call is None:
            raise PeerCallNotFound(call_id)
        row = Session.objects.using(store.using).select_for_update().get(pk=call.session_id)
        latest = Greatest("deadline", Value(wanted) if isinstance(wanted, datetime) else wanted)
        extended = calls.filter(status=PeerCallStatus.WAITING).update(deadline=latest)
        call.refresh_from_db(using=store.using)
        if not extended:
            raise PeerCallOver(call_id, call.status)
        pauses.touch(store, row)
        return call.deadline


def sweep(store: Store, *, limit: int = LIMIT) -> Swept:
    """Give up the calls of this workspace whose deadline has passed, and drop early responses that nobody wanted.

    Any number of processes may sweep at once: each session is looked at under its own lock, and on PostgreSQL one that
    another process has locked is left to that one.
    """
    with operation(store.using):
        due = PeerCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id, status=PeerCallStatus.WAITING, deadline__lte=Now()
        )
        oldest = due.order_by("deadline").values_list("session_id", flat=True)[:limit]
        swept = [_sweep_session(store, pk) for pk in dict.fromkeys(oldest)]
        _drop_unwanted(store)
    return Swept(
        tuple(call for each in swept for call in each.expired), tuple(join for each in swept for join in each.complete)
    )


def _sweep_session(store: Store, session_pk: int) -> Swept:
    receipt = uuid.uuid4().hex
    with transaction.atomic(using=store.using):
        rows = Session.objects.using(store.using).select_for_update(skip_locked=True)
        row = rows.filter(pk=session_pk).first()
        if row is None or not _expire(store, row, receipt):
            return Swept()
        calls = list(PeerCall.objects.using(store.using).filter(session=row, receipt=receipt).order_by("pk"))
        for call in calls:
            audit.record(
                store,
                AuditKind.PEER_EXPIRED,
                session_pk=row.pk,
                actor="sweeper",
                peer_call=call.call_id,
                peer=call.peer,
            )
        joins = Join.objects.using(store.using).filter(pk__in={call.join_id for call in calls}).order_by("pk")
        complete = [join.join_id for join in joins if _counted(store, join, calls, receipt)]
        pauses.touch(store, row)
        return Swept(tuple(call.call_id for call in calls), tuple((row.session_id, join) for join in complete))


def _expire(store: Store, row: Session, receipt: str) -> int:
    """One statement finds out which deadlines have passed and gives those calls up."""
    due = pauses.open_calls(store, row).filter(deadline__lte=Now())
    return due.update(
        status=PeerCallStatus.EXPIRED,
        settled_at=Now(),
        receipt=receipt,
        notice=NoticeKind.CANCEL,
        tell_after=Now(),
        tell_attempts=0,
    )


def _counted(store: Store, join: Join, calls: Iterable[PeerCall], receipt: str) -> bool:
    return counting.count(store, join, sum(call.join_id == join.pk for call in calls), receipt)


def _drop_unwanted(store: Store) -> None:
    early = EarlyResponse.objects.using(store.using).filter(workspace_id=store.workspace_id)
    unwanted = early.filter(received_at__lt=Now() - KEEP_EARLY)
    if unwanted.exists():  # a sweep that finds nothing to do writes nothing
        unwanted.delete()
