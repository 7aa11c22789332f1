"""One live run per session: taking it, keeping it, giving it up."""

from __future__ import annotations

import platform
import time
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints import clock, process
from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import OWNING_RUN, AuditKind, CallStatus, InterruptReason, RunStatus, SessionStatus
from checkpoints.exceptions import SchemaFromFuture, SessionBusy, SessionFinished, StorageError
from checkpoints.models import Checkpoint, Run, Segment, Session, ToolCall
from checkpoints.resuming import heartbeat
from checkpoints.saving import audit, liveness, lookup, pauses, transitions
from checkpoints.saving.checkpoints import head_of
from checkpoints.saving.open_operations import OpenOperations
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Held, Store

#: A run that has just taken a session from another has so many seconds before the next one may take it over: where
#: many processes take over at once, each gets to write something before it is ousted.
GRACE = 0.25
#: Of the reason for taking a session over, so many characters are kept.
WHY_LENGTH = 200


def take(store: Store, session_id: str, *, takeover: bool | str = False, paused: bool = False) -> Held:
    """Become the owner of an existing session.

    In one transaction: the fence grows, a new run is linked to the last one, and what the last run had issued
    and not settled becomes interrupted (calls that only read are discarded). Raises `SessionNotFound`,
    `SessionFinished`, `SchemaFromFuture`, and `SessionBusy` while the owner may still live, unless `takeover` is
    given: True, or why, in a sentence for the audit trail.
    A session that waits for other agents is only taken with `paused`, by who uses their answers: `PausedForPeers`.
    The run stands at the gate then, and may write nothing until `gate` has let it through.
    """
    while True:
        try:
            held = _taken(store, session_id, takeover=takeover, paused=paused)
        except _TooSoon as error:
            time.sleep(error.seconds)
        else:
            store.hold(held)
            heartbeat.beat_for(store, release_idle)
            return held


class _TooSoon(Exception):
    """The owner has just taken the session over itself."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def _taken(store: Store, session_id: str, *, takeover: bool | str, paused: bool) -> Held:
    with operation(store.using), transaction.atomic(using=store.using):
        row = lookup.session(store, session_id, lock=True)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        _require_known_schema(store, row)
        previous = Run.objects.using(store.using).filter(session=row).order_by("-number").first()
        if previous is not None and previous.status in OWNING_RUN:
            _replace(store, row, previous, takeover)
        if previous is not None and not paused:
            pauses.require_free(store, row)
        run = _new_run(store, row, previous)
        if previous is None:
            audit.record(store, AuditKind.SESSION_STARTED, session_pk=row.pk, actor=row.agent or "agent")
        audit.record(
            store, AuditKind.RUN_STARTED, session_pk=row.pk, actor=f"run {run.number}", pid=run.pid, host=run.host
        )
        _interrupt_orphans(store, row, run, f"run {run.number}")
        if row.head_segment_id is None:
            row.head_segment = Segment.objects.using(store.using).create(session=row)
        row.fence, row.owner = run.fence, run
        row.revision, row.updated_at = row.revision + 1, Now()
        row.save(using=store.using, update_fields=["head_segment", "fence", "owner", "revision", "updated_at"])
        operations = OpenOperations(loaded=previous is None)  # before the first run, nothing is logged
        head = head_of(row)
        return Held(row.pk, session_id, run, run.fence, row.key_space, head, operations=operations, at_gate=True)


def _require_known_schema(store: Store, row: Session) -> None:
    versions = Checkpoint.objects.using(store.using).filter(session=row).order_by("-version")
    newest = versions.values_list("schema_version", flat=True).first()
    if newest is not None and newest > SCHEMA_VERSION:
        raise SchemaFromFuture(row.session_id, newest, SCHEMA_VERSION)


def _replace(store: Store, row: Session, previous: Run, takeover: bool | str) -> None:
    """End the run that owns the session, if it may be ended."""
    mine = previous.owner_token == store.token  # taken before, and the answer to that was lost
    alive = not mine and liveness.is_alive(previous)
    if alive and not takeover:
        raise busy(row, previous)
    if not alive:
        _end_lost(store, row, previous, AuditKind.RUN_LOST)
        return
    _leave_time(store, previous)
    here, why = process.this_process(), " ".join(takeover.split())[:WHY_LENGTH] if isinstance(takeover, str) else None
    taker = {"taken_by": f"run {previous.number + 1}", "host": here.host, "pid": here.pid, "why": why}
    _end_lost(store, row, previous, AuditKind.TAKEOVER, **taker)


def busy(row: Session, owner: Run) -> SessionBusy:
    described = f"run {owner.number} on {owner.host} (pid {owner.pid})"
    return SessionBusy(row.session_id, described, owner.heartbeat_at, owner.lease_expires_at)


def _leave_time(store: Store, owner: Run) -> None:
    if owner.resumed_from is not None and owner.resumed_from.status == RunStatus.LOST:
        age = (clock.database_now(store.using) - owner.started_at).total_seconds()
        if age < GRACE:
            raise _TooSoon(GRACE - age)


def declare_lost(store: Store, row: Session, owner: Run, *, noticed_by: str = "sweeper") -> None:
    """End a run that is gone, without taking its session: the fence grows, and what it had issued is interrupted.

    `row` is locked. `noticed_by` names the actor in the audit trail.
    """
    _end_lost(store, row, owner, AuditKind.RUN_LOST)
    _interrupt_orphans(store, row, None, noticed_by)
    row.fence, row.owner = row.fence + 1, None
    row.revision, row.updated_at = row.revision + 1, Now()
    row.save(using=store.using, update_fields=["fence", "owner", "revision", "updated_at"])


def interrupt_if_lost(store: Store, row: Session, call: ToolCall) -> ToolCall:
    """The call as it is once its run, where that is gone, has been declared lost; `row` is locked.

    Who asks about a call of a dead run need not wait until somebody resumes the session.
    """
    if call.status != transitions.LOSE.before or liveness.is_alive(call.run):
        return call
    if row.owner is not None and row.owner_id == call.run_id:
        declare_lost(store, row, row.owner, noticed_by="gate")
    else:
        _interrupt_orphans(store, row, row.owner, "gate")
    return ToolCall.objects.using(store.using).select_related("run").get(pk=call.pk)


def _end_lost(store: Store, row: Session, run: Run, kind: AuditKind, **details: Any) -> None:
    _end(store, run, RunStatus.LOST)
    last_seen = run.heartbeat_at.isoformat()
    audit.record(store, kind, session_pk=row.pk, actor=f"run {run.number}", last_seen=last_seen, **details)


def _new_run(store: Store, row: Session, previous: Run | None) -> Run:
    here = process.this_process()
    run = Run(
        session=row,
        number=previous.number + 1 if previous else 1,
        resumed_from=previous,
        fence=row.fence + 1,
        lease_expires_at=clock.from_now(store.lease),
        host=here.host,
        host_identity=here.host_identity,
        pid=here.pid,
        process_started=here.started,
        owner_token=store.token,
        code_version=f"python {platform.python_version()}",
    )
    run.save(using=store.using, force_insert=True)
    return run


def _interrupt_orphans(store: Store, row: Session, run: Run | None, actor: str) -> None:
    """What runs that are gone issued and never settled: nobody knows whether it happened. `run` is the owner."""
    orphans = ToolCall.objects.using(store.using).filter(session=row, status=transitions.LOSE.before)
    for call in orphans if run is None else orphans.exclude(run=run):
        if call.mutates:
            change: dict[str, Any] = {
                "reason": InterruptReason.RUN_LOST,
                "interrupted_at": Now(),
            }
            row.status = SessionStatus.NEEDS_REVIEW
            kind = AuditKind.CALL_INTERRUPTED
        else:
            change = {"settled_at": Now()}
            kind = AuditKind.CALL_DISCARDED
        status = transitions.lost(mutates=call.mutates).after
        orphans.filter(pk=call.pk).update(status=status, revision=F("revision") + 1, **change)
        audit.record(store, kind, session_pk=row.pk, actor=actor, call_id=call.call_id, tool=call.tool)
    Session.objects.using(store.using).filter(pk=row.pk).update(status=row.status)


def _end(store: Store, run: Run, status: RunStatus) -> None:
    ending = Run.objects.using(store.using).filter(pk=run.pk, status__in=sorted(OWNING_RUN))
    ending.update(status=status, ended_at=Now())


def still_owns(store: Store, held: Held) -> bool:
    """Whether nobody has taken the session since; touches it."""
    store.touch(held.session_id)
    with operation(store.using):
        mine = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence, owner=held.run)
        return bool(mine.update(updated_at=Now(), revision=F("revision") + 1))


def give_up(store: Store, held: Held, ended_as: RunStatus = RunStatus.RELEASED, **session_changes: Any) -> bool:
    """End the run and leave the session without an owner. False where another run had already taken it.

    The fence grows, so that nothing this run may still try can count.
    """
    with operation(store.using), transaction.atomic(using=store.using):
        given_up = end_ownership(store, held, ended_as, **session_changes)
    store.drop(held)
    return given_up


def abandon(store: Store, held: Held) -> None:
    """Give the session up because of an error that says more than a second one would: where the database cannot be
    told, it is forgotten here, and the lease runs out."""
    try:
        give_up(store, held)
    except StorageError:
        store.drop(held)


def end_ownership(store: Store, held: Held, ended_as: RunStatus, **session_changes: Any) -> bool:
    """What `give_up` writes, for a transaction of the caller's; the store still holds the session."""
    mine = Session.objects.using(store.using).filter(pk=held.pk, fence=held.fence)
    changes = {"owner": None, "fence": F("fence") + 1, "revision": F("revision") + 1, "updated_at": Now()}
    if not mine.update(**changes, **session_changes):
        return False
    _end(store, held.run, ended_as)
    return True


def mark(store: Store, held: Held, status: RunStatus) -> None:
    """Say whether the owning run works or waits. Raises `OwnershipLost`."""
    with operation(store.using), transaction.atomic(using=store.using):
        if not still_owns(store, held):
            raise lookup.fence_lost(store, held)
        Run.objects.using(store.using).filter(pk=held.run_id).update(status=status)


# idle sessions


def release_idle(store: Store) -> list[str]:
    """Release the sessions that nothing was done with for `idle_release_seconds`. Returns their ids.

    One with a call that was issued and has no outcome, or with a version that waits to be written, is in use.
    """
    return [held.session_id for held in store.idle() if _release_idle(store, held)]


def _release_idle(store: Store, held: Held) -> bool:
    waits = store.behind is not None and store.behind.unsaved(held.session_id)
    if waits or _has_open_call(store, held):
        store.touch(held.session_id)
        return False
    if not store.drop_idle(held):
        return False
    with operation(store.using), transaction.atomic(using=store.using):
        if not end_ownership(store, held, RunStatus.RELEASED):
            return False
        actor = f"run {held.run.number}"
        idle = store.idle_release_seconds
        audit.record(store, AuditKind.RUN_RELEASED, session_pk=held.pk, actor=actor, idle_seconds=idle)
    return True


def _has_open_call(store: Store, held: Held) -> bool:
    with operation(store.using, writes=False):
        issued = ToolCall.objects.using(store.using).filter(session=held.pk, run=held.run, status=CallStatus.ISSUED)
        return issued.exists()
