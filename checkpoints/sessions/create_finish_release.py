"""Create, finish and release a session."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import convert_calls_to_dicts, unfinished_call_queries, write_outcomes_and_interruptions
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
    require_no_caller_transaction_of_alias,
)
from checkpoints.enums import FINISHED_SESSION_STATUSES, AuditKind, CallStatus, PauseStatus, RunStatus, SessionStatus
from checkpoints.exceptions import CallInProgress, IntegrityError, InvalidInput, SealError, StorageUnavailable
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.integrity import quarantine
from checkpoints.models import Session
from checkpoints.seals import session_heads
from checkpoints.sessions import peer_pause_blocking_and_closing, take_and_release_ownership
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store


def create_session_if_missing(store: Store, session_id: str, description: NewSessionFields) -> None:
    """Insert the session if it does not exist.

    Raises `InvalidIdentifier`, `NotRepresentable`, `InvalidInput`, `OpenedInAnotherProcess`, and
    `WitnessedSessionMissing` if the witness knows a session of this name.
    """
    validate_id("session id", session_id)
    store.require_own_process(session_id)
    with database_operation(store.using):
        rows = Session.objects.using(store.using)
        if rows.filter(workspace_id=store.workspace_id, session_id=session_id).exists():
            return
        session = Session(workspace_id=store.workspace_id, session_id=session_id, **description.build_columns())
        with transaction.atomic(using=store.using):
            rows.bulk_create([session], ignore_conflicts=True)
            # A session that another process has created at the same time has another key space.
            session_heads.write_head_and_record_name_of_new_session(
                store.workspace, rows.filter(key_space=session.key_space)
            )


def finish_session(store: Store, session_id: str, status: object, result: Any = None) -> None:
    """End the session as completed, failed or cancelled, with a result (any JSON value).

    Raises `NotOwner`, `OwnershipLost`, `SessionFinished`, `NotRepresentable`; and except for `cancelled`, after which
    the open calls still have to be decided, `CallInProgress` while a call runs and `ReviewRequired` while one is
    undecided.
    """
    if not isinstance(status, str) or status not in FINISHED_SESSION_STATUSES:
        raise InvalidInput(f"{status!r} does not end a session. Use completed, failed or cancelled.")
    result_json = None if result is None else to_canonical_json(result, "result")
    owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    try:
        with database_operation(store.using), transaction.atomic(using=store.using):
            row = look_up_and_lock_rows.lock_owned_session(store, owned_session)
            _refuse_open_calls_or_interrupt_if_cancelled(
                store, owned_session, row, cancelled=status == SessionStatus.CANCELLED
            )
            peer_pause_blocking_and_closing.close_paused_tasks_and_cancel_agent_calls(store, row, PauseStatus.OVER)
            take_and_release_ownership.end_ownership_in_transaction_if_owner(
                store, owned_session, RunStatus(status), status=status, result=result_json
            )
            actor = f"run {owned_session.run.number}"
            insert_unchained_events.record_event(
                store, AuditKind.SESSION_FINISHED, session_pk=owned_session.pk, actor=actor, status=status
            )
    except StorageUnavailable as error:
        with open_transaction_to_read_back_lost_commit(store.using, error):
            is_ended = look_up_and_lock_rows.get_session(store, session_id, lock=True).status == status
        if not is_ended:
            raise StorageUnavailable(error.what, may_have_happened=False) from error
    store.remove_owned_session(owned_session)
    store.notify_save_listeners(session_id)


def _refuse_open_calls_or_interrupt_if_cancelled(
    store: Store, owned_session: OwnedSession, row: Session, *, cancelled: bool
) -> None:
    """Require that no call is open at the end of a session.

    If the session is cancelled, open calls become interrupted instead: their outcome is unknown and they stay in the
    review queue.
    """
    if cancelled:
        write_outcomes_and_interruptions.interrupt_or_discard_abandoned_calls(store, owned_session, running_too=True)
    else:
        require_no_running_or_undecided_call(store, owned_session, row)


def require_no_running_or_undecided_call(store: Store, owned_session: OwnedSession, row: Session) -> None:
    """Raise `CallInProgress` while a mutating call runs, and `ReviewRequired` while one is undecided."""
    for call in unfinished_call_queries.list_verified_calls_of_session_with_status(store, row, {CallStatus.ISSUED}):
        if call.has_side_effects:
            raise CallInProgress(owned_session.session_id, call.call_id, call.tool)
    undecided_calls = unfinished_call_queries.list_verified_undecided_calls_of_session(store, row)
    if undecided_calls:
        raise convert_calls_to_dicts.load_reasons_and_build_review_required(
            store, owned_session.session_id, undecided_calls
        )


def interrupt_calls_and_release_all_sessions(store: Store) -> None:
    """Release every session this checkpointer owns, so that another process can continue at once.

    Issued calls without an outcome become interrupted, because nobody will report their outcome. Raises `NotDurable` if
    an earlier version could not be written, and `SealError` after the others if a session cannot be verified.
    """
    try:
        store.flush_pending_writes()
    finally:
        unverified = None
        for owned_session in store.list_owned_sessions():
            try:
                _interrupt_calls_and_release_owned_session(store, owned_session)
            except SealError as error:
                unverified = error
        if unverified is not None:
            raise unverified


def interrupt_calls_and_release_session(store: Store, session_id: str) -> bool:
    """Release one session as `interrupt_calls_and_release_all_sessions` does. Returns whether it was owned here.

    A session that could not be released in the database is forgotten here, and its lease expires. Raises
    `InvalidIdentifier`, `NotDurable`, `StorageError`, and `InsideTransaction`, after which it is still owned.
    """
    validate_id("session id", session_id)
    if store.find_owned_session(session_id) is None:
        return False
    require_no_caller_transaction_of_alias(store.using)
    try:
        store.flush_pending_writes(session_id)
    finally:
        is_released = _interrupt_calls_and_release_if_owned(store, session_id)
    return is_released


def _interrupt_calls_and_release_if_owned(store: Store, session_id: str) -> bool:
    owned_session = store.find_owned_session(session_id)
    if owned_session is None:  # lost while it was flushed
        return False
    try:
        return _interrupt_calls_and_release_owned_session(store, owned_session)
    finally:
        store.remove_owned_session(owned_session)


def _interrupt_calls_and_release_owned_session(store: Store, owned_session: OwnedSession) -> bool:
    try:
        write_outcomes_and_interruptions.interrupt_or_discard_abandoned_calls(store, owned_session, running_too=True)
    except IntegrityError as error:
        if not error.is_alteration or not quarantine.try_quarantine_session_if_altered(
            owned_session.pk, using=store.using
        ):
            raise
    return take_and_release_ownership.release_ownership_if_still_owner(store, owned_session)
