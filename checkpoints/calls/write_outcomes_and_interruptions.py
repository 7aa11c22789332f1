"""Outcomes in the log of tool calls: written once, by the run that issued the call, or kept as late evidence.

A run also interrupts its own calls that nobody executes any more; a call that only reads is discarded instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import call_transitions_by_agent_or_system
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import call_log_tampering_detection, call_queries, raw_sql_call_seals
from checkpoints.db import hot_statements
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import (
    LIVE_CALL_STATUSES,
    SETTLED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    InterruptReason,
    SessionStatus,
)
from checkpoints.exceptions import (
    InvalidInput,
    LateResultRefused,
    SessionNotFound,
    StorageUnavailable,
)
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.models import CallValue, LateResult, ToolCall
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys
from checkpoints.store import look_up_and_lock_rows, optimistic_lock_on_sealed_heads
from checkpoints.store.call_intent_and_outcome_types import CallOutcome, IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store


def write_call_outcome_or_store_late_result_and_raise(
    store: Store, owned_session: OwnedSession, call: IssuedCall, outcome: CallOutcome, *, is_repeated: bool = False
) -> None:
    """Write the outcome of a call that this run issued.

    Raises `LateResultRefused` if the call or the session no longer belongs to this run; the result is then kept as
    late evidence. With `is_repeated` an earlier attempt of the caller, which another process may still serve, may have
    written the same outcome: that is no late one. Raises `SessionNotFound` if the session was deleted.
    """
    values = {
        "status": outcome.status,
        "result": outcome.result,
        "result_digest": digests.digest_outcome(outcome.result, outcome.error_message),
        "exit_code": find_exit_code(call.tool, outcome.result),
        "error_type": outcome.error_type[:200],
        "error_message": outcome.error_message,
        "reason": outcome.reason,
    }
    try:
        with database_operation(store.using) as connection:
            is_settled = _write_outcome_with_value_or_interruption_event(
                store, connection, owned_session, call.pk, values, outcome.value
            )
            if not is_settled and not (is_repeated and _is_outcome_stored(store, owned_session, call, outcome)):
                raise store_late_result_and_build_refusal(
                    store, owned_session.session_id, call.pk, owned_session, outcome
                )
    except StorageUnavailable as error:
        _require_outcome_stored_after_lost_commit(store, owned_session, call, outcome, error)
    store.issued.discard(call.pk)
    if outcome.status in SETTLED_CALL_STATUSES:
        owned_session.operations.remember_settled_call(call.pk)


def _is_outcome_stored(store: Store, owned_session: OwnedSession, call: IssuedCall, outcome: CallOutcome) -> bool:
    row = call_queries.get_verified_call_by_pk(store, owned_session.session_id, call.pk)
    return row.run_id == owned_session.run_id and is_outcome_of_call(row, outcome)


def is_outcome_of_call(call: ToolCall, outcome: CallOutcome) -> bool:
    """Return whether a call has this outcome, as far as its status, its result and the message of its error tell."""
    return (call.status, call.result, call.error_message) == (outcome.status, outcome.result, outcome.error_message)


def _write_outcome_with_value_or_interruption_event(
    store: Store,
    connection: BaseDatabaseWrapper,
    owned_session: OwnedSession,
    call_pk: int,
    values: dict[str, Any],
    value: tuple[str, bytes] | None = None,
) -> bool:
    """Write an outcome, and in the same transaction the encoded value of a completed call, or the audit event of an
    interrupted one."""
    is_interrupted = values["status"] == CallStatus.INTERRUPTED
    if value is None and not is_interrupted:
        return _write_outcome_sealed_if_enabled(connection, owned_session, call_pk, values)
    with transaction.atomic(using=connection.alias):
        is_settled = _write_outcome_sealed_if_enabled(connection, owned_session, call_pk, values)
        if is_settled and is_interrupted:
            call = ToolCall.objects.using(connection.alias).get(pk=call_pk)
            actor = f"run {owned_session.run.number}"
            insert_unchained_events.record_call_interrupted_event(store, call, actor=actor)
        if is_settled and value is not None:
            CallValue.objects.using(connection.alias).create(
                session_id=owned_session.pk, tool_call_id=call_pk, type=value[0], content=value[1]
            )
            owned_session.sealed_head = None
    return is_settled


def load_encoded_result_value(store: Store, call: ToolCall) -> tuple[str, bytes] | None:
    """Load the encoded value of a call; None if only its text is stored. Raises `IntegrityError`."""
    with database_operation(store.using, writes=False):
        row = CallValue.objects.using(store.using).filter(tool_call=call.pk).first()
    if row is None:
        return None
    row_seals.verify_row(row)
    return row.type, bytes(row.content)


def _write_outcome_sealed_if_enabled(
    connection: BaseDatabaseWrapper, owned_session: OwnedSession, call_pk: int, values: dict[str, Any]
) -> bool:
    """Run the statement that writes an outcome, with the seal of the call after it. Returns whether it was written."""
    keys = get_seal_keys()
    if keys is None:
        return hot_statements.update_call_outcome_if_still_issued(
            connection, owned_session.pk, owned_session.fence, call_pk, owned_session.run_id, values
        )
    if _try_write_sealed_outcome(connection, owned_session, keys, call_pk, values):
        return True
    retry = partial(_try_write_sealed_outcome, connection, owned_session, keys, call_pk, values)
    return bool(
        optimistic_lock_on_sealed_heads.lock_session_and_retry_write_if_sealed(connection.alias, owned_session, retry)
    )


def _try_write_sealed_outcome(
    connection: BaseDatabaseWrapper, owned_session: OwnedSession, keys: SealKeys, call_pk: int, values: dict[str, Any]
) -> bool:
    using = connection.alias
    call = raw_sql_call_seals.pop_remembered_or_load_issued_call(using, owned_session, keys, call_pk)
    head = owned_session.sealed_head or optimistic_lock_on_sealed_heads.get_or_load_head_and_seal_if_unsealed(
        using, owned_session
    )
    if call is None or head is None:
        return False
    sealed_values, difference, call_after = raw_sql_call_seals.build_sealed_outcome(keys, call_pk, call, values)
    changes = {"status": SessionStatus.NEEDS_REVIEW} if values["status"] == CallStatus.INTERRUPTED else {}
    after = optimistic_lock_on_sealed_heads.compute_and_record_expected_head(head, difference, changes)
    is_settled = hot_statements.update_call_outcome_if_still_issued(
        connection, owned_session.pk, owned_session.fence, call_pk, owned_session.run_id, sealed_values, after
    )
    optimistic_lock_on_sealed_heads.record_written_head(connection, after if is_settled else None, owned_session)
    if is_settled:
        if call_after is not None:
            raw_sql_call_seals.remember_sealed_call(owned_session, call_pk, call_after)
        if values["status"] not in LIVE_CALL_STATUSES:
            call_log_tampering_detection.remember_or_forget_live_call_key(owned_session, call.key, values["status"])
    return is_settled


def record_call_result(
    store: Store, session_id: str, call_id: str, result: str, success: bool, *, step: int | None = None
) -> None:
    """Write the result of an issued call. Raises `CallNotFound`, `LateResultRefused`."""
    if not isinstance(result, str):
        raise InvalidInput(f"The result of {call_id!r} is a {type(result).__name__}, not text.")
    outcome = CallOutcome(CallStatus.COMPLETED if success else CallStatus.FAILED, to_canonical_json(result, "result"))
    owned_session = store.find_owned_session(session_id)
    with database_operation(store.using):
        issued_call = (
            None if owned_session is None or step is not None else owned_session.issued_calls.pop(call_id, None)
        )
        if owned_session is not None and issued_call is not None:
            write_call_outcome_or_store_late_result_and_raise(store, owned_session, issued_call, outcome)
            return
        row = look_up_and_lock_rows.get_session(store, session_id)
        call = look_up_and_lock_rows.get_latest_call_attempt(store, row, call_id, step=step)
        if owned_session is None:
            raise store_late_result_and_build_refusal(store, session_id, call.pk, None, outcome)
        write_call_outcome_or_store_late_result_and_raise(
            store, owned_session, IssuedCall(call.pk, call.tool, call.call_id, call.step, call.attempt), outcome
        )


def _require_outcome_stored_after_lost_commit(
    store: Store, owned_session: OwnedSession, call: IssuedCall, outcome: CallOutcome, error: StorageUnavailable
) -> None:
    """Read back the outcome after a commit whose answer was lost: only this run may settle the call."""
    with open_transaction_to_read_back_lost_commit(store.using, error):
        look_up_and_lock_rows.get_session(store, owned_session.session_id, lock=True)
        row = call_queries.get_verified_call_by_pk(store, owned_session.session_id, call.pk)
    if not is_outcome_of_call(row, outcome):
        raise StorageUnavailable(error.what, may_have_happened=False) from error


def store_late_result_and_build_refusal(
    store: Store, session_id: str, call_pk: int, owned_session: OwnedSession | None, outcome: CallOutcome
) -> LateResultRefused:
    """Keep a late result as evidence, and build the error to raise.

    Raises `SessionNotFound`, and `IntegrityError` if somebody has removed or altered the call.
    """
    with transaction.atomic(using=store.using):
        session = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        call = ToolCall.objects.using(store.using).select_for_update().filter(pk=call_pk).first()
        if call is None:
            call_log_tampering_detection.verify_complete_log_and_list_live_calls(store.using, session)
            raise SessionNotFound(session_id)
        row_seals.verify_row(call)
        LateResult.objects.using(store.using).create(
            session=session,
            tool_call=call,
            run_id=owned_session.run_id if owned_session else None,
            success=outcome.status == CallStatus.COMPLETED,
            result=outcome.result_or_error,
        )
        look_up_and_lock_rows.increment_session_revision(store, session.pk)
        insert_unchained_events.record_event(
            store,
            AuditKind.LATE_RESULT,
            session_pk=session.pk,
            actor=f"run {owned_session.run.number}" if owned_session else "unknown run",
            call_id=call.call_id,
            step=call.step,
            attempt=call.attempt,
            status=call.status,
        )
    return LateResultRefused(session.session_id, call.call_id, call.status)


def interrupt_or_discard_abandoned_calls(
    store: Store, owned_session: OwnedSession, *, running_too: bool = False
) -> None:
    """Interrupt the calls that this run has issued and abandoned: nobody executes them any more.

    A call without side effects is discarded instead. With `running_too`, also those that are executing: their results
    will come too late.
    """
    with database_operation(store.using):
        run_calls = ToolCall.objects.using(store.using).filter(
            session_id=owned_session.pk, run_id=owned_session.run_id, status=CallStatus.ISSUED
        )
        for call in list(run_calls):
            if running_too or store.is_issued_call_no_longer_executing(call.pk):
                interrupt_or_discard_call(store, owned_session, call)


def interrupt_or_discard_call(store: Store, owned_session: OwnedSession, call: ToolCall) -> None:
    """Interrupt a call of this run whose outcome nobody will report; discard it if it has no side effects."""
    reason = InterruptReason.ABANDONED if call.has_side_effects else ""
    values = {
        "status": call_transitions_by_agent_or_system.get_transition_of_call_in_lost_run(
            has_side_effects=call.has_side_effects
        ).after,
        "reason": reason,
    }
    with database_operation(store.using) as connection:
        _write_outcome_with_value_or_interruption_event(store, connection, owned_session, call.pk, values)
