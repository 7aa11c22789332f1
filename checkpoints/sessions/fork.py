"""Fork a session: create a new session that continues from any version of another one."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints import process_identity_and_liveness
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import unfinished_call_queries
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import ActorKind, AuditKind, CallStatus, InterruptReason, RunStatus, SessionStatus
from checkpoints.exceptions import SessionExists, SessionNotFound, VersionNotFound
from checkpoints.formats import money_amount_codec
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.integrity import quarantine, verify_session_rows
from checkpoints.models import Checkpoint, Run, Segment, Session, ToolCall
from checkpoints.models.run import FORK_RUN_NUMBER
from checkpoints.seals import row_seals, session_names_in_witness
from checkpoints.sessions import copy_calls_and_workflows_to_fork
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import count_total_tokens
from checkpoints.versions import load_run_phase_and_snapshot

#: Status of a copied call by its status in the origin. A call that may have landed is undecided in the fork too.
CARRIED_STATUSES = {
    CallStatus.COMPLETED: CallStatus.COMPLETED,
    CallStatus.ISSUED: CallStatus.INTERRUPTED,
    CallStatus.INTERRUPTED: CallStatus.INTERRUPTED,
    CallStatus.RERUN_APPROVED: CallStatus.INTERRUPTED,
}


def fork_session(
    store: Store,
    session_id: str,
    new_session_id: str,
    *,
    version: int | None = None,
    title: str | None = None,
    actor: str = "fork",
    actor_kind: ActorKind = ActorKind.MACHINE,
    actor_details: Mapping[str, str] | None = None,
) -> int:
    """Create a session whose version 1 is `version` (None: the newest) of another one. Returns 1.

    Its title is `title`, or that of the other one. `actor_details` are added to the details in the audit trail.

    No message is copied: the fork's segment branches from the origin's. Calls with side effects are copied, so that
    the fork replays them instead of repeating the effect. Raises `SessionNotFound`, `VersionNotFound`,
    `SessionExists`, `WitnessedSessionMissing`, `InvalidIdentifier`, `InvalidInput`.
    """
    validate_id("session id", new_session_id)
    new_title = None if title is None else NewSessionFields(title=title).build_columns()["title"]
    store.flush_pending_writes(session_id)
    with (
        quarantine.quarantine_on_integrity_error(store, session_id),
        database_operation(store.using),
        transaction.atomic(using=store.using),
    ):
        origin = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        look_up_and_lock_rows.require_not_quarantined(origin)
        verify_session_rows.verify_records_and_hash_live_call_keys(store.using, origin)
        source = _get_source_version(store, origin, version)
        fork = _create_forked_session(
            store,
            origin,
            new_session_id,
            title=origin.title if new_title is None else new_title,
            latest_version=1,
            head_chain=source.chain,
            message_count=source.length,
            budget_spent_usd=money_amount_codec.round_amount_to_millionth(source.budget_spent_usd),
            total_tokens=count_total_tokens(source.usage),
            forked_version=source.version,
        )
        run = _create_ended_run_of_fork(store, fork)
        segment = Segment.objects.using(store.using).create(
            session=fork, parent_id=source.segment_id, parent_length=source.length
        )
        _create_first_version_of_fork(store, fork, run, segment, source)
        connection = connections[store.using]
        copy_calls_and_workflows_to_fork.copy_calls_to_fork(
            connection,
            origin.pk,
            fork.pk,
            run.pk,
            CARRIED_STATUSES,
            InterruptReason.FORKED,
            origin.latest_version + 1,
            source.version,
        )
        copy_calls_and_workflows_to_fork.copy_workflows_to_fork(store.using, origin.pk, fork.pk)
        undecided = unfinished_call_queries.list_verified_undecided_calls_of_session(store, fork)
        fork.head_segment = segment
        fork.status = _get_status_of_fork(undecided)
        fork.save(using=store.using, update_fields=["head_segment", "status"])
        _record_fork_events(store, origin, fork, source.version, undecided, actor, actor_kind, actor_details)
    return 1


def create_fork_with_calls_only_if_missing(store: Store, session_id: str, new_session_id: str) -> None:
    """Create a session with the calls of another one, whose transcript a framework has forked and writes itself.

    Calls that the origin's transcript has answered are answered in the fork, and calls that were only read from it are
    not copied. Nothing is done if there is no such origin, or if the new session exists. Raises `InvalidIdentifier`,
    `SessionQuarantined`, and `SealError` if a call was altered.
    """
    validate_id("session id", new_session_id)
    if look_up_and_lock_rows.session_exists(store, new_session_id) or not look_up_and_lock_rows.session_exists(
        store, session_id
    ):
        return
    store.flush_pending_writes(session_id)
    with (
        suppress(SessionExists, SessionNotFound),  # another process has been faster
        quarantine.quarantine_on_integrity_error(store, session_id),
        database_operation(store.using),
        transaction.atomic(using=store.using),
    ):
        origin = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        look_up_and_lock_rows.require_not_quarantined(origin)
        verify_session_rows.verify_records_and_hash_live_call_keys(store.using, origin)
        fork = _create_forked_session(store, origin, new_session_id, title=origin.title)
        run = _create_ended_run_of_fork(store, fork)
        copy_calls_and_workflows_to_fork.copy_calls_to_fork(
            connections[store.using],
            origin.pk,
            fork.pk,
            run.pk,
            CARRIED_STATUSES,
            InterruptReason.FORKED,
            origin.latest_version + 1,
            origin.latest_version,
            with_imported=False,
        )
        undecided = unfinished_call_queries.list_verified_undecided_calls_of_session(store, fork)
        fork.status = _get_status_of_fork(undecided)
        fork.save(using=store.using, update_fields=["status"])
        _record_fork_events(store, origin, fork, origin.latest_version, undecided, "fork", ActorKind.MACHINE)


def _get_status_of_fork(undecided: Sequence[ToolCall]) -> SessionStatus:
    return SessionStatus.NEEDS_REVIEW if undecided else SessionStatus.ACTIVE


def _get_source_version(store: Store, origin: Session, version: int | None) -> Checkpoint:
    versions = Checkpoint.objects.using(store.using).filter(session=origin)
    source = versions.order_by("-version").first() if version is None else versions.filter(version=version).first()
    if source is None:
        raise VersionNotFound(origin.session_id, 0 if version is None else version)
    row_seals.verify_row(source)
    return source


def _create_forked_session(store: Store, origin: Session, new_session_id: str, **columns: Any) -> Session:
    rows = Session.objects.using(store.using)
    if rows.filter(workspace_id=store.workspace_id, session_id=new_session_id).exists():
        raise SessionExists(new_session_id)
    fork = Session(
        workspace_id=store.workspace_id,
        session_id=new_session_id,
        agent=origin.agent,
        metadata=origin.metadata,
        labels=origin.labels,
        scratchpad_root=origin.scratchpad_root,
        cost_basis=origin.cost_basis,
        key_space=origin.key_space,
        forked_from=origin,
        **columns,
    )
    try:
        with transaction.atomic(using=store.using):
            fork.save(using=store.using, force_insert=True)
    except IntegrityError as error:  # another process has just created it
        raise SessionExists(new_session_id) from error
    session_names_in_witness.record_new_session_name_or_raise(store.workspace, new_session_id, fork.key_space, fork.pk)
    return fork


def _create_ended_run_of_fork(store: Store, fork: Session) -> Run:
    """Create the run that stands for the fork operation: it has ended and owns nothing."""
    process = process_identity_and_liveness.get_identity_of_this_process()
    run = Run(
        session=fork,
        number=FORK_RUN_NUMBER,
        status=RunStatus.RELEASED,
        fence=0,
        lease_expires_at=Now(),
        host=process.host,
        host_identity=process.host_identity,
        pid=process.pid,
        process_started=process.started,
        owner_token=store.token,
        code_version=f"python {platform.python_version()}",
        ended_at=Now(),
    )
    run.save(using=store.using, force_insert=True)
    return run


def _create_first_version_of_fork(store: Store, fork: Session, run: Run, segment: Segment, source: Checkpoint) -> None:
    Checkpoint.objects.using(store.using).create(
        session=fork,
        version=1,
        run=run,
        phase=source.phase,
        segment=segment,
        length=source.length,
        chain=source.chain,
        plan=source.plan,
        budget_spent_usd=source.budget_spent_usd,
        usage=source.usage,
        payload=load_run_phase_and_snapshot.load_payload_with_snapshot(store, source.session.session_id, source),
        schema_version=source.schema_version,
    )


def _record_fork_events(
    store: Store,
    origin: Session,
    fork: Session,
    version: int,
    undecided: Sequence[ToolCall],
    actor: str,
    actor_kind: ActorKind,
    actor_details: Mapping[str, str] | None = None,
) -> None:
    """Record the fork in both sessions, and in the fork that each of its undecided calls is interrupted there.

    The time of the last change of the origin stays, because nothing of its content has changed.
    """
    for row, related in ((origin, fork), (fork, origin)):
        insert_unchained_events.record_event(
            store,
            AuditKind.SESSION_FORKED,
            session_pk=row.pk,
            actor=actor,
            actor_kind=actor_kind,
            origin=origin.session_id,
            forked=fork.session_id,
            version=version,
            other=related.pk,
            **(actor_details or {}),
        )
    look_up_and_lock_rows.increment_session_revision(store, fork.pk)
    Session.objects.using(store.using).filter(pk=origin.pk).update(revision=F("revision") + 1)
    for call in undecided:
        insert_unchained_events.record_call_interrupted_event(store, call, actor="fork")
