"""Session ownership, one live run per session: take, renew and release it."""

from __future__ import annotations

import platform
import time
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints import call_transitions_by_agent_or_system, process_identity_and_liveness
from checkpoints.audit import insert_unchained_events
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    IMPORTED_RUN_OWNER,
    OWNING_RUN_STATUSES,
    UNANSWERED_RESULT,
    AuditKind,
    CallStatus,
    InterruptReason,
    RunStatus,
    SessionStatus,
)
from checkpoints.exceptions import SchemaFromFuture, SessionBusy, SessionFinished, StorageError
from checkpoints.integrity import quarantine, verify_session_rows
from checkpoints.models import Checkpoint, Run, Segment, Session, ToolCall
from checkpoints.sessions import heartbeat, peer_pause_blocking_and_closing
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.versions.save_version import get_session_transcript_head

#: Seconds for which a run that has just taken over a session is protected from the next takeover: if many
#: processes take over at once, each of them can write before it loses the session.
GRACE = 0.25
#: Largest stored length of the reason for a takeover, in characters.
MAX_WHY_LENGTH = 200


def take_ownership_and_start_heartbeat(
    store: Store, session_id: str, *, takeover: bool | str = False, paused: bool = False
) -> OwnedSession:
    """Become the owner of an existing session.

    In one transaction: the fence grows, a new run is linked to the last one, and the calls that the last run had issued
    and not settled become interrupted (calls that only read are discarded). Raises `SessionNotFound`,
    `SessionFinished`, `SchemaFromFuture`, `IntegrityError`, `SessionQuarantined`, and `SessionBusy` while the owner may
    be alive, unless `takeover` is given: True, or a reason for the audit trail.
    A session that waits for other agents raises `PausedForPeers` unless `paused` is True, for a caller that uses their
    responses. The new run is at the gate and may write nothing until `gate` has let it through.
    """
    store.require_own_process(session_id)
    while True:
        try:
            with quarantine.quarantine_on_integrity_error(store, session_id):
                owned_session = _take_ownership_in_transaction(store, session_id, takeover=takeover, paused=paused)
        except _TakenTooRecently as error:
            time.sleep(error.seconds)
        else:
            store.add_owned_session(owned_session)
            heartbeat.start_heartbeat(store, release_idle_sessions)
            return owned_session


class _TakenTooRecently(Exception):
    """Raised inside the transaction if the owner has just taken the session over itself."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def _take_ownership_in_transaction(
    store: Store, session_id: str, *, takeover: bool | str, paused: bool
) -> OwnedSession:
    with database_operation(store.using), transaction.atomic(using=store.using):
        row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        look_up_and_lock_rows.require_not_quarantined(row)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        _require_supported_schema(store, row)
        live_keys = verify_session_rows.verify_records_and_hash_live_call_keys(store.using, row)
        previous = Run.objects.using(store.using).filter(session=row).order_by("-number").first()
        if previous is not None and previous.status in OWNING_RUN_STATUSES:
            _end_lost_or_taken_over_run_or_raise_busy(store, row, previous, takeover)
        if previous is not None and not paused:
            peer_pause_blocking_and_closing.require_session_not_paused(store, row)
        run = _create_next_run(store, row, previous)
        if previous is None:
            insert_unchained_events.record_event(
                store, AuditKind.SESSION_STARTED, session_pk=row.pk, actor=row.agent or "agent"
            )
        insert_unchained_events.record_event(
            store, AuditKind.RUN_STARTED, session_pk=row.pk, actor=f"run {run.number}", pid=run.pid, host=run.host
        )
        _interrupt_or_discard_orphaned_calls(store, row, run, f"run {run.number}")
        if row.head_segment_id is None:
            row.head_segment = Segment.objects.using(store.using).create(session=row)
        row.fence, row.owner = run.fence, run
        row.revision, row.updated_at = row.revision + 1, Now()
        row.save(using=store.using, update_fields=["head_segment", "fence", "owner", "revision", "updated_at"])
        operations = OpenOperations(loaded=previous is None)  # before the first run, nothing is logged
        head = get_session_transcript_head(row)
        return OwnedSession(
            row.pk,
            session_id,
            run,
            run.fence,
            row.key_space,
            head,
            newest_head=(row.head_number, None if row.row_seal is None else bytes(row.row_seal)),
            live_keys=live_keys,
            operations=operations,
            at_gate=True,
        )


def _require_supported_schema(store: Store, row: Session) -> None:
    versions = Checkpoint.objects.using(store.using).filter(session=row).order_by("-version")
    newest = versions.values_list("schema_version", flat=True).first()
    if newest is not None and newest > SCHEMA_VERSION:
        raise SchemaFromFuture(row.session_id, newest, SCHEMA_VERSION)


def _end_lost_or_taken_over_run_or_raise_busy(store: Store, row: Session, previous: Run, takeover: bool | str) -> None:
    """End the run that owns the session, if that is permitted."""
    is_own = previous.owner_token == store.token  # taken before, but the answer was lost
    alive = not is_own and run_liveness_check.is_run_alive(previous)
    if alive and not takeover:
        raise build_session_busy_error(row, previous)
    if not alive:
        _end_run_as_lost_and_record_event(store, row, previous, AuditKind.RUN_LOST)
        return
    _require_owner_not_taken_over_recently(store, previous)
    process, reason = (
        store.remote_process or process_identity_and_liveness.get_identity_of_this_process(),
        " ".join(takeover.split())[:MAX_WHY_LENGTH] if isinstance(takeover, str) else None,
    )
    details = {"taken_by": f"run {previous.number + 1}", "host": process.host, "pid": process.pid, "why": reason}
    _end_run_as_lost_and_record_event(store, row, previous, AuditKind.TAKEOVER, **details)


def build_session_busy_error(row: Session, owner: Run) -> SessionBusy:
    description = f"run {owner.number} on {owner.host} (pid {owner.pid})"
    return SessionBusy(row.session_id, description, owner.heartbeat_at, owner.lease_expires_at)


def _require_owner_not_taken_over_recently(store: Store, owner: Run) -> None:
    if owner.resumed_from is not None and owner.resumed_from.status == RunStatus.LOST:
        age = (clock.read_database_time(store.using) - owner.started_at).total_seconds()
        if age < GRACE:
            raise _TakenTooRecently(GRACE - age)


def end_lost_owner_run_and_interrupt_calls(
    store: Store, row: Session, owner: Run, *, noticed_by: str = "sweeper"
) -> None:
    """End a lost run without taking its session: the fence grows, and the calls it had issued are interrupted.

    `row` is locked. `noticed_by` names the actor in the audit trail. A transcript that was imported while it grew, and
    has not gone on since, is not lost but ends.
    """
    if owner.owner_token == IMPORTED_RUN_OWNER:
        _end_imported_run_and_its_session(store, row, owner, noticed_by)
        return
    _end_run_as_lost_and_record_event(store, row, owner, AuditKind.RUN_LOST)
    _interrupt_or_discard_orphaned_calls(store, row, None, noticed_by)
    row.fence, row.owner = row.fence + 1, None
    row.revision, row.updated_at = row.revision + 1, Now()
    row.save(using=store.using, update_fields=["fence", "owner", "revision", "updated_at"])


def _end_imported_run_and_its_session(store: Store, row: Session, run: Run, noticed_by: str) -> None:
    """End an imported transcript as its next import would. Its newest activity stays that of the transcript."""
    calls = ToolCall.objects.using(store.using).filter(
        session=row, status=call_transitions_by_agent_or_system.LOSE.before
    )
    status = SessionStatus.CANCELLED if calls.exists() else SessionStatus.COMPLETED
    details: dict[str, Any] = {"status": status}
    if status == SessionStatus.CANCELLED:
        details["reason"] = InterruptReason.NO_RESULT
    _interrupt_or_discard_orphaned_calls(store, row, None, noticed_by)
    Run.objects.using(store.using).filter(pk=run.pk).update(status=RunStatus(status), ended_at=run.heartbeat_at)
    row.status, row.owner, row.revision = status, None, row.revision + 1
    row.save(using=store.using, update_fields=["status", "owner", "revision"])
    insert_unchained_events.record_event(
        store, AuditKind.SESSION_FINISHED, session_pk=row.pk, actor=noticed_by, **details
    )


def interrupt_call_and_end_run_if_lost(store: Store, row: Session, call: ToolCall) -> ToolCall:
    """Declare the run of a call lost if it is, and return the call as it is then; `row` is locked.

    A caller that asks about a call of a dead run need not wait until somebody resumes the session.
    """
    if call.status != call_transitions_by_agent_or_system.LOSE.before or run_liveness_check.is_run_alive(call.run):
        return call
    if row.owner is not None and row.owner_id == call.run_id:
        end_lost_owner_run_and_interrupt_calls(store, row, row.owner, noticed_by="gate")
    else:
        _interrupt_or_discard_orphaned_calls(store, row, row.owner, "gate")
    return ToolCall.objects.using(store.using).select_related("run").get(pk=call.pk)


def _end_run_as_lost_and_record_event(store: Store, row: Session, run: Run, kind: AuditKind, **details: Any) -> None:
    last_seen = _find_time_of_last_sign_of_life(store, row, run)
    _end_run_if_owning(store, run, RunStatus.LOST, heartbeat_at=last_seen)
    insert_unchained_events.record_event(
        store, kind, session_pk=row.pk, actor=f"run {run.number}", last_seen=last_seen.isoformat(), **details
    )


def _find_time_of_last_sign_of_life(store: Store, row: Session, run: Run) -> datetime:
    """Return when a run last wrote anything: a heartbeat, a version, or a call without an outcome."""
    versions = Checkpoint.objects.using(store.using).filter(session=row, run=run).order_by("-version")
    calls = ToolCall.objects.using(store.using).filter(
        session=row, run=run, status=call_transitions_by_agent_or_system.LOSE.before
    )
    written_at = [*versions.values_list("created_at", flat=True)[:1], *calls.values_list("issued_at", flat=True)]
    return max([run.heartbeat_at, *written_at])


def _create_next_run(store: Store, row: Session, previous: Run | None) -> Run:
    process = store.remote_process or process_identity_and_liveness.get_identity_of_this_process()
    run = Run(
        session=row,
        number=previous.number + 1 if previous else 1,
        resumed_from=previous,
        fence=row.fence + 1,
        lease_expires_at=clock.build_database_time_after(store.lease),
        host=process.host,
        host_identity=process.host_identity,
        pid=process.pid,
        process_started=process.started,
        owner_token=store.token,
        code_version="" if store.remote_process else f"python {platform.python_version()}",
    )
    run.save(using=store.using, force_insert=True)
    return run


def create_ended_run(store: Store, row: Session) -> Run:
    """Create a run that has ended, for a call that a framework asks about without owning the session.

    `row` is locked, and no run owns it. The fence grows as with any run.
    """
    previous = Run.objects.using(store.using).filter(session=row).order_by("-number").first()
    run = _create_next_run(store, row, previous)
    if previous is None:
        insert_unchained_events.record_event(
            store, AuditKind.SESSION_STARTED, session_pk=row.pk, actor=row.agent or "agent"
        )
    insert_unchained_events.record_event(
        store, AuditKind.RUN_STARTED, session_pk=row.pk, actor=f"run {run.number}", pid=run.pid, host=run.host
    )
    _end_run_if_owning(store, run, RunStatus.RELEASED)
    row.fence = run.fence
    row.save(using=store.using, update_fields=["fence"])
    return run


def _interrupt_or_discard_orphaned_calls(store: Store, row: Session, run: Run | None, actor: str) -> None:
    """Interrupt the calls that lost runs issued and never settled, since their outcome is unknown. `run` is the
    owner."""
    orphaned_calls = ToolCall.objects.using(store.using).filter(
        session=row, status=call_transitions_by_agent_or_system.LOSE.before
    )
    for call in orphaned_calls if run is None else orphaned_calls.exclude(run=run):
        if call.has_side_effects:
            change: dict[str, Any] = {
                "reason": InterruptReason.RUN_LOST,
                "interrupted_at": Now(),
            }
            row.status = SessionStatus.NEEDS_REVIEW
        elif call.is_imported:  # as its import would: when it ended is not known
            change = {
                "reason": InterruptReason.NO_RESULT,
                "sentence": UNANSWERED_RESULT,
                "interrupted_at": F("issued_at"),
            }
        else:
            change = {"settled_at": Now()}
        status = call_transitions_by_agent_or_system.get_transition_of_call_in_lost_run(
            has_side_effects=call.has_side_effects
        ).after
        orphaned_calls.filter(pk=call.pk).update(status=status, revision=F("revision") + 1, **change)
        if call.has_side_effects:
            call.reason = InterruptReason.RUN_LOST
            insert_unchained_events.record_call_interrupted_event(store, call, actor=actor)
        else:
            insert_unchained_events.record_event(
                store, AuditKind.CALL_DISCARDED, session_pk=row.pk, actor=actor, call_id=call.call_id, tool=call.tool
            )
    Session.objects.using(store.using).filter(pk=row.pk).update(status=row.status)


def _end_run_if_owning(store: Store, run: Run, status: RunStatus, **changes: Any) -> None:
    ending = Run.objects.using(store.using).filter(pk=run.pk, status__in=sorted(OWNING_RUN_STATUSES))
    ending.update(status=status, ended_at=Now(), **changes)


def touch_session_if_still_owner(store: Store, owned_session: OwnedSession) -> bool:
    """Note that the session was used. Returns whether no other run has taken the session since."""
    store.record_last_use_of_session(owned_session.session_id)
    with database_operation(store.using):
        owned_row = Session.objects.using(store.using).filter(
            pk=owned_session.pk, fence=owned_session.fence, owner=owned_session.run
        )
        return bool(owned_row.update(updated_at=Now(), revision=F("revision") + 1))


def release_ownership_if_still_owner(
    store: Store, owned_session: OwnedSession, final_status: RunStatus = RunStatus.RELEASED, **session_changes: Any
) -> bool:
    """End the run and leave the session without an owner. Returns False if another run had already taken it.

    The fence grows, so that no later write of this run can succeed.
    """
    with database_operation(store.using), transaction.atomic(using=store.using):
        is_released = end_ownership_in_transaction_if_owner(store, owned_session, final_status, **session_changes)
    store.remove_owned_session(owned_session)
    return is_released


def release_ownership_ignoring_storage_errors(store: Store, owned_session: OwnedSession) -> None:
    """Release the session after an error, without raising a second one that would hide it.

    If the database cannot be reached, the session is forgotten here and its lease expires.
    """
    try:
        release_ownership_if_still_owner(store, owned_session)
    except StorageError:
        store.remove_owned_session(owned_session)


def end_ownership_in_transaction_if_owner(
    store: Store, owned_session: OwnedSession, final_status: RunStatus, **session_changes: Any
) -> bool:
    """Do what `release_ownership_if_still_owner` does, in the caller's transaction; the store keeps the session."""
    owned_row = Session.objects.using(store.using).filter(pk=owned_session.pk, fence=owned_session.fence)
    changes = {"owner": None, "fence": F("fence") + 1, "revision": F("revision") + 1, "updated_at": Now()}
    if not owned_row.update(**changes, **session_changes):
        return False
    _end_run_if_owning(store, owned_session.run, final_status)
    return True


def write_run_status_as_owner(store: Store, owned_session: OwnedSession, status: RunStatus) -> None:
    """Store whether the owning run works or waits. Raises `OwnershipLost`."""
    with database_operation(store.using), transaction.atomic(using=store.using):
        if not touch_session_if_still_owner(store, owned_session):
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)
        Run.objects.using(store.using).filter(pk=owned_session.run_id).update(status=status)


# idle sessions


def release_idle_sessions(store: Store) -> list[str]:
    """Release the sessions that were not used for `idle_release_seconds`. Returns their ids.

    A session with an issued call without outcome, or with a version that is not written yet, is in use.
    """
    return [
        owned_session.session_id
        for owned_session in store.list_idle_sessions()
        if _release_session_if_still_idle(store, owned_session)
    ]


def _release_session_if_still_idle(store: Store, owned_session: OwnedSession) -> bool:
    has_unsaved_versions = store.behind is not None and store.behind.list_unsaved_versions(owned_session.session_id)
    if has_unsaved_versions or _has_run_call_without_outcome(store, owned_session):
        store.record_last_use_of_session(owned_session.session_id)
        return False
    if not store.remove_session_if_idle(owned_session):
        return False
    with database_operation(store.using), transaction.atomic(using=store.using):
        if not end_ownership_in_transaction_if_owner(store, owned_session, RunStatus.RELEASED):
            return False
        actor = f"run {owned_session.run.number}"
        idle = store.idle_release_seconds
        insert_unchained_events.record_event(
            store, AuditKind.RUN_RELEASED, session_pk=owned_session.pk, actor=actor, idle_seconds=idle
        )
    return True


def _has_run_call_without_outcome(store: Store, owned_session: OwnedSession) -> bool:
    with database_operation(store.using, writes=False):
        issued_calls = ToolCall.objects.using(store.using).filter(
            session=owned_session.pk, run=owned_session.run, status=CallStatus.ISSUED
        )
        return issued_calls.exists()
