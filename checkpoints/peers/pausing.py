"""Pausing: a run stops to wait for other agents, and gives its session up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import Max
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.enums import AuditKind, NoticeKind, PeerCallStatus, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidInput, NotRepresentable, PeerCallExists, StorageUnavailable
from checkpoints.ids import checked
from checkpoints.models import EarlyResponse, Join, PausedTask, PeerCall, Session
from checkpoints.peers import counting, sealing, turnstile, values
from checkpoints.peers.values import Deadline, Paused
from checkpoints.resuming import ownership, starting
from checkpoints.saving import audit, lookup, pauses
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.store import Held, Store


@dataclass(frozen=True)
class _Wanted:
    """A pause as it is stored, checked before anything is written."""

    state: str
    joins: Sequence[values.Join]
    #: By call id.
    requests: dict[str, str]


def pause(store: Store, session_id: str, state: dict[str, Any], joins: Iterable[values.Join]) -> Paused:
    """Store the task, its joins and calls, and give the session up: one transaction.

    Responses that came before are counted in it. Raises `NotOwner`, `OwnershipLost`, `SessionFinished`,
    `PeerCallExists`, `InvalidInput`, `NotRepresentable`, `SecretsLocked`, and as `finish_session` does
    `CallInProgress` and `ReviewRequired`.
    """
    wanted = _checked(state, joins)
    held = lookup.owned(store, session_id)
    try:
        with operation(store.using):
            paused = _pause_in_one(store, held, wanted)
    except StorageUnavailable as error:
        paused = _read_back(store, held, error)
    store.drop(held)
    return paused


def _checked(state: object, joins: Iterable[values.Join]) -> _Wanted:
    if not isinstance(state, dict):
        raise NotRepresentable("state", f"a {type(state).__name__} is not a dict; dataclasses.asdict makes one")
    chosen = [values.Join(checked("join id", join.id), tuple(join.calls)) for join in joins]
    if not chosen or not all(join.calls for join in chosen):
        raise InvalidInput("A pause waits for at least one join, and a join for at least one call.")
    _require_distinct("join", [join.id for join in chosen])
    calls = [call for join in chosen for call in join.calls]
    _require_distinct("call", [checked("peer call id", call.id) for call in calls])
    for call in calls:
        checked("peer", call.peer)
        deadline_of(call.deadline)
    requests = {call.id: sealing.stored(call.request, f"request of {call.id}") for call in calls}
    return _Wanted(sealing.stored(state, "state"), chosen, requests)


def _require_distinct(what: str, ids: list[str]) -> None:
    for each, times in Counter(ids).items():
        if times > 1:
            raise InvalidInput(f"There is more than one {what} {each!r} in this pause. Nothing was written.")


def deadline_of(deadline: Deadline) -> Any:
    """A deadline as an expression over the database's clock, or as the moment that was given. Raises `InvalidInput`."""
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidInput(f"The deadline {deadline} has no time zone.")
        return deadline
    try:
        ahead = deadline if isinstance(deadline, timedelta) else timedelta(seconds=deadline)
    except (TypeError, ValueError, OverflowError):  # not a number, NaN, infinite
        ahead = timedelta(-1)
    if ahead < timedelta(0) or ahead > timedelta(days=36_500):
        raise InvalidInput(f"The deadline is {deadline!r}: give seconds or a duration from now, or a moment.")
    return clock.from_now(ahead)


def _pause_in_one(store: Store, held: Held, wanted: _Wanted) -> Paused:
    taken = _first_taken(store, wanted)
    if taken is not None:
        raise PeerCallExists(taken)
    try:
        with transaction.atomic(using=store.using):
            return _pause(store, held, wanted)
    except IntegrityError as error:
        taken = _first_taken(store, wanted)
        if taken is None:
            raise
        raise PeerCallExists(taken) from error


def _first_taken(store: Store, wanted: _Wanted) -> str | None:
    calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id)
    return calls.filter(call_id__in=list(wanted.requests)).values_list("call_id", flat=True).first()


def _pause(store: Store, held: Held, wanted: _Wanted) -> Paused:
    turnstile.pass_one_by_one(connections[store.using], store.workspace_id, wanted.requests)
    row = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
    if row is None:
        raise lookup.fence_lost(store, held)
    starting.require_settled(store, held, row)
    pauses.close_used(store, row, saved_now=True)
    task = _new_task(store, held, row, wanted.state)
    receipt = held.run_id.hex
    complete = [join.join_id for join in _new_joins(store, task, wanted) if _adopt(store, join, receipt)]
    ownership.end_ownership(store, held, RunStatus.RELEASED, status=SessionStatus.PAUSED)
    audit.record(
        store,
        AuditKind.PAUSED_FOR_PEERS,
        session_pk=held.pk,
        actor=f"run {held.run.number}",
        pause=task.number,
        joins=[join.id for join in wanted.joins],
    )
    return Paused(held.session_id, task.number, tuple(complete), pauses.takeable(store, row).exists())


def _new_task(store: Store, held: Held, row: Session, state: str) -> PausedTask:
    tasks = PausedTask.objects.using(store.using).filter(session=row)
    pauses.supersede(tasks)
    number = tasks.aggregate(last=Max("number"))["last"] or 0
    return tasks.create(session=row, number=number + 1, run=held.run, version=row.latest_version, state=state)


def _new_joins(store: Store, task: PausedTask, wanted: _Wanted) -> list[Join]:
    joins = []
    for join in wanted.joins:
        made = Join.objects.using(store.using).create(
            session_id=task.session_id, task=task, join_id=join.id, total=len(join.calls)
        )
        PeerCall.objects.using(store.using).bulk_create(
            [_new_call(store, made, call, wanted.requests[call.id]) for call in join.calls]
        )
        joins.append(made)
    return joins


def _new_call(store: Store, join: Join, call: values.PeerCall, request: str) -> PeerCall:
    return PeerCall(
        workspace_id=store.workspace_id,
        session_id=join.session_id,
        join=join,
        call_id=call.id,
        peer=call.peer,
        request=request,
        token_digest=sealing.token_digest(call.token),
        deadline=deadline_of(call.deadline),
        notice="" if call.sent else NoticeKind.REQUEST,
        tell_after=None if call.sent else Now(),
    )


def _adopt(store: Store, join: Join, receipt: str) -> bool:
    """Count the responses that came before the pause. True where they complete the join."""
    calls = list(PeerCall.objects.using(store.using).filter(join=join))
    early = EarlyResponse.objects.using(store.using).filter(
        workspace_id=store.workspace_id, call_id__in=[call.call_id for call in calls]
    )
    responses = list(early.order_by("pk"))
    adopted = 0
    for call in calls:
        fitting = [response for response in responses if response.call_id == call.call_id and _fits(call, response)]
        if fitting:
            settle(store, call, fitting[0].result, receipt)
            adopted += 1
    early.delete()
    return bool(adopted) and counting.count(store, join, adopted, receipt)


def _fits(call: PeerCall, response: EarlyResponse) -> bool:
    peer_fits = response.peer in ("", call.peer)
    return peer_fits and call.token_digest in ("", response.token_digest)


def settle(store: Store, call: PeerCall, result: str, receipt: str) -> bool:
    """Write the result onto a call that is waited for. False where it is not any more."""
    waiting = PeerCall.objects.using(store.using).filter(pk=call.pk, status=PeerCallStatus.WAITING)
    return bool(
        waiting.update(
            status=PeerCallStatus.ANSWERED,
            result=result,
            receipt=receipt,
            settled_at=Now(),
            notice="",
            tell_after=None,
        )
    )


def _read_back(store: Store, held: Held, error: StorageUnavailable) -> Paused:
    """After a commit whose answer was lost: a run pauses once, so a task of this run is the one just written."""
    with reading_back(store.using, error):
        lookup.session(store, held.session_id, lock=True)
        task = PausedTask.objects.using(store.using).filter(run_id=held.run_id).select_related("session").first()
        if task is not None:
            complete = Join.objects.using(store.using).filter(task=task, completed_by=held.run_id.hex)
            named = tuple(complete.order_by("pk").values_list("join_id", flat=True))
            return Paused(held.session_id, task.number, named, pauses.takeable(store, task.session).exists())
    raise StorageUnavailable(error.what, may_have_happened=False) from error
