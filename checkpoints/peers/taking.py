"""Taking a paused task: any process goes on with it, one at a time, and again where one is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Now

from checkpoints.enums import PAUSED_TASK, JoinStatus, PauseStatus
from checkpoints.exceptions import CheckpointCorrupted, NotPaused, OwnershipLost, SessionFinished, StillWaiting
from checkpoints.flows import Flow, Transact
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.peers import sealing
from checkpoints.peers.values import PeerResult, TakenJoin, TakenTask
from checkpoints.resuming import ownership
from checkpoints.resuming.gate import ResumePoint, resume_flow
from checkpoints.saving import lookup, pauses
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import parse


@dataclass(frozen=True)
class _Given:
    """What a run gets when it takes a task, read under the lock that it was marked under."""

    task: PausedTask
    joins: tuple[TakenJoin, ...]
    open: tuple[str, ...]


def take_flow(
    store: Store, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
) -> Flow[TakenTask]:
    """Own the session, pass the gate as a resume does, and get what the other agents have answered.

    What is taken stays in the database until the run saves its next version or pauses again; before that another run
    takes it anew. Raises what `resume` raises, `StillWaiting` and `NotPaused`.
    """
    state: dict[str, Any] = yield Transact(lambda: _readable(store, session_id))
    point: ResumePoint = yield from resume_flow(
        store, session_id, wait=wait, timeout=timeout, takeover=takeover, paused=True
    )
    try:
        given: _Given = yield Transact(lambda: _mark(store, session_id))
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(lambda: _give_up(store, session_id))
        raise
    return TakenTask(
        session_id, point, state, given.task.version, given.joins, given.open, times_taken=given.task.times_taken
    )


def _give_up(store: Store, session_id: str) -> None:
    held = store.holds(session_id)
    if held is not None:
        ownership.abandon(store, held)


def _readable(store: Store, session_id: str) -> dict[str, Any]:
    """The state of the newest pause, read and checked before anything is done about it."""
    with operation(store.using, writes=False):
        row = lookup.session(store, session_id)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        _require_ready(store, row)
        task = _newest(store, row)
    state = sealing.opened(task.state, session_id, "state")
    if not isinstance(state, dict):
        raise CheckpointCorrupted(session_id, "state", "it is not an object")
    return state


def _require_ready(store: Store, row: Session) -> None:
    if pauses.takeable(store, row).exists():
        return
    joins = Join.objects.using(store.using).filter(session=row, status=JoinStatus.WAITING)
    counts = joins.aggregate(completed=Sum("completed"), total=Sum("total"))
    if counts["total"] is None:
        raise NotPaused(row.session_id)
    raise StillWaiting(row.session_id, counts["completed"], counts["total"])


def _newest(store: Store, row: Session) -> PausedTask:
    task = PausedTask.objects.using(store.using).filter(session=row).order_by("-number").first()
    if task is None:
        raise NotPaused(row.session_id)
    return task


def _mark(store: Store, session_id: str) -> _Given:
    """Say that this run has it, under the run's own fence."""
    held = lookup.owned(store, session_id)
    with operation(store.using), transaction.atomic(using=store.using):
        row = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
        if row is None:
            raise lookup.fence_lost(store, held)
        pauses.close_used(store, row)
        joins = list(pauses.takeable(store, row).order_by("pk").select_related("task"))
        Join.objects.using(store.using).filter(pk__in=[join.pk for join in joins]).update(
            taken_version=row.latest_version
        )
        task = _newest(store, row)
        tasks = PausedTask.objects.using(store.using).filter(pk=task.pk)
        tasks.filter(status__in=sorted(PAUSED_TASK)).update(
            status=PauseStatus.TAKEN, taken_version=row.latest_version, taken_at=Now()
        )
        tasks.update(times_taken=F("times_taken") + 1)
        pauses.touch(store, row)
        task.refresh_from_db(using=store.using)
        still = Join.objects.using(store.using).filter(session=row, status=JoinStatus.WAITING).order_by("pk")
        results = [TakenJoin(join.join_id, join.task.number, _results(store, join)) for join in joins]
        return _Given(task, tuple(results), tuple(still.values_list("join_id", flat=True)))


def _results(store: Store, join: Join) -> tuple[PeerResult, ...]:
    calls = PeerCall.objects.using(store.using).filter(join=join).order_by("pk")
    return tuple(_result(join, call) for call in calls)


def _result(join: Join, call: PeerCall) -> PeerResult:
    assert call.settled_at is not None  # noqa: S101 - the join is complete
    try:
        value = None if call.result is None else parse(call.result)
    except ValueError as error:
        raise CheckpointCorrupted(join.session.session_id, f"result of {call.call_id}", str(error)) from error
    return PeerResult(call.call_id, call.peer, call.status, value, call.settled_at)
