"""Write-ahead log of tool calls: the row is committed before the tool runs, or an error says what prevents the call."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import IntegrityError as ConstraintViolated
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F
from django.db.models.functions import Now

from checkpoints import call_transitions_by_agent_or_system
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import (
    call_log_tampering_detection,
    call_queries,
    convert_calls_to_dicts,
    raw_sql_call_seals,
    require_unaltered_call,
    unfinished_call_queries,
    verify_calls_against_decisions,
)
from checkpoints.db import clock, hot_statements
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import (
    DISPATCHABLE_SESSION_STATUSES,
    FINISHED_SESSION_STATUSES,
    LIVE_CALL_STATUSES,
    SETTLED_CALL_STATUSES,
    UNDECIDED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    KeyPolicy,
    KeyScope,
    SessionStatus,
)
from checkpoints.exceptions import (
    CallAlreadySettled,
    CallConflict,
    CallInProgress,
    IntegrityError,
    RowNotStored,
    StorageUnavailable,
)
from checkpoints.models import Run, Session, ToolCall
from checkpoints.seals import row_seals, session_heads
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys
from checkpoints.store import look_up_and_lock_rows, optimistic_lock_on_sealed_heads
from checkpoints.store.call_intent_and_outcome_types import CallIntent, IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store

#: Statuses of approvals that the next dispatch uses up.
_CONSUMABLE_STATUSES = frozenset(
    {call_transitions_by_agent_or_system.BEGIN.before, call_transitions_by_agent_or_system.RERUN.before}
)


def issue_call_or_find_live_call(
    store: Store, owned_session: OwnedSession, intent: CallIntent, *, executing: bool = False
) -> IssuedCall | ToolCall:
    """Log `intent` and return it as `IssuedCall`, or return the live call of the same key, in whatever status it is.

    `executing` says that this process runs the call next and reports its outcome. Raises `OwnershipLost`,
    `SessionFinished`, `CallConflict`, and `ReviewRequired` if another call of the session is undecided and this
    one mutates.
    """
    with store.get_issuing_lock_of_key(intent.key):
        try:
            with database_operation(store.using) as connection:
                row = None
                is_repeated = call_log_tampering_detection.does_run_remember_live_call_key(owned_session, intent.key)
                if not (intent.requires_approval or is_repeated):
                    values = _build_call_values(owned_session.run_id, intent, 1)
                    row = _insert_call_sealed_if_enabled(store, connection, owned_session, intent.step, values)
                call: IssuedCall | ToolCall = (
                    _issue_call_under_session_lock(store, owned_session, intent)
                    if row is None
                    else IssuedCall(row[0], intent.tool, intent.call_id, row[1], 1)
                )
        except StorageUnavailable as error:
            call = _read_intent_after_lost_commit(store, owned_session, intent, error)
        store.unanswered.discard(intent.key)
        status = CallStatus.ISSUED if isinstance(call, IssuedCall) else call.status
        call_log_tampering_detection.remember_or_forget_live_call_key(owned_session, intent.key, status)
        if intent.policy != KeyPolicy.STEP:
            is_settled = status in SETTLED_CALL_STATUSES
            owned_session.operations.remember_logged_call(intent.call_id, intent.key, call.pk, settled=is_settled)
        if isinstance(call, IssuedCall):
            store.issued.add(call.pk)
            if executing:
                store.executing.add(call.pk)
        else:
            call_log_tampering_detection.remember_other_session_of_replay(owned_session, call)
        return call


def _insert_call_sealed_if_enabled(
    store: Store,
    connection: BaseDatabaseWrapper,
    owned_session: OwnedSession,
    step: int | None,
    values: dict[str, Any],
    *,
    under_review: bool = False,
) -> tuple[int, int] | None:
    """Run the statement that logs a call, with its seal if sealing is on."""
    keys, call, after = get_seal_keys(), None, None
    if keys is not None:
        step = owned_session.head.version if step is None else step
        values["issued_at"] = clock.now()
        place = {"workspace": store.workspace_id, "session": owned_session.pk, "step": step}
        call = raw_sql_call_seals.build_new_sealed_call(keys, place, values)
        values["row_seal"] = call.seal
        head = owned_session.sealed_head or optimistic_lock_on_sealed_heads.get_or_load_head_and_seal_if_unsealed(
            store.using, owned_session
        )
        if head is None:  # the session was deleted
            return None
        status = hot_statements.STATUSES_WHILE_ISSUING[under_review]
        changes = {} if head.columns["status"] == status else {"status": status}
        after = optimistic_lock_on_sealed_heads.compute_and_record_expected_head(head, call.term, changes)
    row = hot_statements.insert_call_if_fence_holds(
        connection, owned_session.pk, owned_session.fence, step, values, under_review=under_review, head=after
    )
    optimistic_lock_on_sealed_heads.record_written_head(connection, None if row is None else after, owned_session)
    if row is not None and call is not None:
        raw_sql_call_seals.remember_sealed_call(owned_session, row[0], call)
    return row


def record_issued_call(store: Store, session_id: str, intent: CallIntent) -> None:
    """Log the intent of a loop without a registry, or raise the error that forbids it."""
    with database_operation(store.using):
        owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
        call = issue_call_or_find_live_call(store, owned_session, intent)
        if isinstance(call, IssuedCall):
            owned_session.issued_calls[intent.call_id] = call
            return
        if call.status == CallStatus.ISSUED:
            raise CallInProgress(call.session.session_id, call.call_id, call.tool)
        if call.status in UNDECIDED_CALL_STATUSES:
            raise convert_calls_to_dicts.load_reasons_and_build_review_required(store, session_id, [call])
        raise CallAlreadySettled(session_id, call.call_id, call.status)


def _read_intent_after_lost_commit(
    store: Store, owned_session: OwnedSession, intent: CallIntent, error: StorageUnavailable
) -> IssuedCall:
    """Read back the intent after a commit whose answer was lost.

    An intent of this run that this process has not issued before is the one just written.
    """
    if error.may_have_happened:
        store.unanswered.add(intent.key)
    with open_transaction_to_read_back_lost_commit(store.using, error):
        look_up_and_lock_rows.get_session(store, owned_session.session_id, lock=True)
        run_calls = ToolCall.objects.using(store.using).filter(
            session_id=owned_session.pk, run_id=owned_session.run_id, call_id=intent.call_id, idempotency_key=intent.key
        )
        call = run_calls.filter(status=CallStatus.ISSUED).order_by("-pk").first()
    if call is None or call.pk in store.issued:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return IssuedCall(call.pk, call.tool, call.call_id, call.step, call.attempt)


def _is_own_issue_with_lost_commit_answer(
    store: Store, owned_session: OwnedSession, call: ToolCall, intent: CallIntent
) -> bool:
    """Return whether this run logged the call itself and got no answer: then nothing has run."""
    is_unreported = call.run_id == owned_session.run_id and call.pk not in store.issued
    return is_unreported and call.status == CallStatus.ISSUED and intent.key in store.unanswered


def _build_call_values(run_id: UUID, intent: CallIntent, attempt: int, supersedes: int | None = None) -> dict[str, Any]:
    return {
        "run": run_id,
        "call_id": intent.call_id,
        "attempt": attempt,
        "supersedes": supersedes,
        "tool": intent.tool,
        "args": intent.args,
        "args_digest": intent.args_digest,
        "args_order": intent.args_order,
        "asked_args_digest": intent.asked_args_digest,
        "idempotency_key": intent.key,
        "key_scope": intent.scope,
        "key_policy": intent.policy or "",
        "side_effects": ",".join(sorted(intent.side_effects)),
        "risk": intent.risk,
        "sentence": intent.sentence,
        "verifiable": intent.verifiable,
        "approvals": intent.approvals,
        "decide_within": intent.decide_within,
        "status": call_transitions_by_agent_or_system.ISSUE.after,
        "reason": "",
        "result_digest": "",
        "error_type": "",
        "verify_requested_by": "",
    }


def _issue_call_under_session_lock(
    store: Store, owned_session: OwnedSession, intent: CallIntent
) -> IssuedCall | ToolCall:
    """Issue under the session's lock: the slow path, which finds out what prevented the fast one."""
    known = owned_session.newest_head
    with transaction.atomic(using=store.using):
        session = look_up_and_lock_rows.lock_owned_session(store, owned_session)
        if session.status in FINISHED_SESSION_STATUSES:
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)
        optimistic_lock_on_sealed_heads.require_head_not_older_than_known(
            owned_session, session.head_number, None if session.row_seal is None else bytes(session.row_seal), known
        )
        step = session.latest_version if intent.step is None else intent.step
        last = _find_last_attempt_or_raise_conflict(store, owned_session, intent, step)
        live_call = _find_live_call_with_key(store, session, intent)
        if live_call is None:
            call_log_tampering_detection.require_no_remembered_call_missing(
                store.using, owned_session, session, intent.key, intent.scope
            )
        rejected_call = (
            None if live_call is not None else _find_rejected_call_of_operation(store, owned_session, intent, last)
        )
        if rejected_call is not None:
            return rejected_call
        if live_call is not None and _is_own_issue_with_lost_commit_answer(store, owned_session, live_call, intent):
            return _build_issued_call_with_args(live_call)
        if live_call is not None and live_call.status not in _CONSUMABLE_STATUSES:
            _require_complete_log_if_other_session(store, owned_session, live_call)
            return live_call
        _require_call_may_start(store, owned_session, session, intent, live_call)
        attempt = 1 if last is None else 1 + last.attempt
        if live_call is not None:  # an approval, which nobody may have put back after its use
            call_log_tampering_detection.require_call_in_complete_log(store.using, session, live_call)
        if live_call is not None and live_call.status == call_transitions_by_agent_or_system.BEGIN.before:
            return _consume_approval_and_issue_call(store, owned_session, live_call, intent)
        if live_call is None and intent.requires_approval:
            return _insert_call_awaiting_approval_or_find_live_call(
                store, owned_session, session, intent, step, attempt
            )
        return _insert_attempt_and_consume_rerun_approval(
            store, owned_session, session, intent, live_call, (step, attempt)
        )


def _require_call_may_start(
    store: Store, owned_session: OwnedSession, session: Session, intent: CallIntent, call: ToolCall | None
) -> None:
    """Require that a mutating call may run now, and that an approval that was found belongs to this session."""
    if call is not None and call.session_id != owned_session.pk:
        raise CallInProgress(call.session.session_id, call.call_id, call.tool)
    unknown = unfinished_call_queries.list_verified_calls_of_session_with_status(
        store, session, {CallStatus.INTERRUPTED}
    )
    if unknown and intent.has_side_effects:
        raise convert_calls_to_dicts.load_reasons_and_build_review_required(store, owned_session.session_id, unknown)


def _insert_attempt_and_consume_rerun_approval(
    store: Store,
    owned_session: OwnedSession,
    session: Session,
    intent: CallIntent,
    approved: ToolCall | None,
    position: tuple[int, int],
) -> IssuedCall | ToolCall:
    """Insert the attempt, using up the approval of a re-run if there is one."""
    step, attempt = position
    if approved is not None:
        intent = _consume_rerun_approval_and_build_intent(store, owned_session, approved, intent)
    values = _build_call_values(owned_session.run_id, intent, attempt, None if approved is None else approved.pk)
    under_review = session.status not in DISPATCHABLE_SESSION_STATUSES
    connection = connections[store.using]
    optimistic_lock_on_sealed_heads.lock_and_reload_head(store.using, owned_session)
    row = _insert_call_sealed_if_enabled(store, connection, owned_session, step, values, under_review=under_review)
    if row is not None:
        return IssuedCall(row[0], intent.tool, intent.call_id, row[1], attempt, intent.args)
    # Despite the lock, another session can insert a call with the same workspace-wide key.
    rival = _find_live_call_with_key(store, session, intent)
    if rival is None:
        raise _build_error_of_refused_insert(store, owned_session, intent, position)
    _require_complete_log_if_other_session(store, owned_session, rival)
    return rival


def _build_error_of_refused_insert(
    store: Store, owned_session: OwnedSession, intent: CallIntent, position: tuple[int, int]
) -> CallConflict | RowNotStored:
    """Build the error of a call that was not inserted under the session's lock, although nothing has its key."""
    step, attempt = position
    same = ToolCall.objects.using(store.using).filter(
        session=owned_session.pk, step=step, call_id=intent.call_id, attempt=attempt
    )
    if intent.scope == KeyScope.WORKSPACE or same.exists():  # another session may have had the key for a moment
        return CallConflict(owned_session.session_id, intent.call_id, step)
    return RowNotStored(ToolCall._meta.db_table)


def _require_complete_log_if_other_session(store: Store, owned_session: OwnedSession, call: ToolCall) -> None:
    """Require that the session of a call that answers this run is complete and in its newest state, if it is another
    one: what a resume has verified is this run's own session. A call without a result answers nothing."""
    if call.session_id != owned_session.pk and call.status in SETTLED_CALL_STATUSES:
        call_log_tampering_detection.verify_other_session_and_list_live_calls(store.using, call.session_id)


def _find_last_attempt_or_raise_conflict(
    store: Store, owned_session: OwnedSession, intent: CallIntent, step: int
) -> ToolCall | None:
    """Find the last attempt of this call in this step. Raises `CallConflict` if it was another operation.

    A model that is asked again after a crash may give the id to another call; the policy `unanswered` permits that.
    """
    step_calls = ToolCall.objects.using(store.using).filter(
        session_id=owned_session.pk, step=step, call_id=intent.call_id
    )
    row_seals.verify_rows(step_calls)
    candidates = step_calls.filter(run=owned_session.run_id) if intent.policy == KeyPolicy.UNANSWERED else step_calls
    if any(not _matches_intent(store, call, intent) for call in candidates):
        raise CallConflict(owned_session.session_id, intent.call_id, step)
    return step_calls.select_related("run", "session").order_by("-attempt").first()


def _find_rejected_call_of_operation(
    store: Store, owned_session: OwnedSession, intent: CallIntent, last: ToolCall | None
) -> ToolCall | None:
    """Find a person's rejection of the operation. It also holds if the operation is requested by another call id, or in
    another step."""
    if intent.policy in {KeyPolicy.UNANSWERED, KeyPolicy.CALL}:
        attempts = ToolCall.objects.using(store.using).filter(session_id=owned_session.pk, idempotency_key=intent.key)
        last = attempts.select_related("run", "session").order_by("-pk").first()
        row_seals.verify_rows([last] if last else ())
    if last is None or last.status != CallStatus.REJECTED or last.idempotency_key != intent.key:
        return None
    verify_calls_against_decisions.verify_call_against_decisions(last)
    return last


def _matches_intent(store: Store, call: ToolCall, intent: CallIntent) -> bool:
    """Return whether a logged call has the same tool and arguments; arguments that a person has changed are not
    compared."""
    if call.tool != intent.tool:
        return False
    return (
        call.args_digest == intent.args_digest
        or intent.args_digest in call_queries.collect_current_and_earlier_args_digests(store, call)
    )


def _insert_call_awaiting_approval_or_find_live_call(
    store: Store, owned_session: OwnedSession, session: Session, intent: CallIntent, step: int, attempt: int
) -> ToolCall:
    """Log a call that a person has to approve before it runs; the session waits for that."""
    try:
        with transaction.atomic(using=store.using):
            call = insert_call_and_request_approval(store, session, owned_session.run, intent, step, attempt)
    except ConstraintViolated as error:  # despite the lock, another session can insert a workspace-wide key
        rival = _find_live_call_with_key(store, session, intent)
        if rival is None:
            raise CallConflict(owned_session.session_id, intent.call_id, step) from error
        _require_complete_log_if_other_session(store, owned_session, rival)
        return rival
    logged = ToolCall.objects.using(store.using).select_related("session").get(pk=call.pk)
    logged.run = owned_session.run
    return logged


def insert_call_and_request_approval(
    store: Store, session: Session, run: Run, intent: CallIntent, step: int, attempt: int
) -> ToolCall:
    """Insert a call that a person has to approve, and let its session, which is locked, wait for the decision.

    Raises Django's `IntegrityError` if another call has its key or its place.
    """
    values = _build_call_values(run.pk, intent, attempt) | {
        "status": call_transitions_by_agent_or_system.ASK.after,
        "step": step,
    }
    values["sentence_template"] = intent.sentence_template
    values["allowed_decisions"] = ",".join(intent.allowed_decisions)
    values["run_id"], values["supersedes_id"] = values.pop("run"), values.pop("supersedes")
    call = ToolCall(session_id=session.pk, workspace_id=store.workspace_id, **values)
    call.save(using=store.using, force_insert=True)
    Session.objects.using(store.using).filter(pk=session.pk).update(
        status=SessionStatus.NEEDS_REVIEW, revision=F("revision") + 1, updated_at=Now()
    )
    insert_unchained_events.record_event(
        store,
        AuditKind.APPROVAL_REQUESTED,
        session_pk=session.pk,
        actor=f"run {run.number}",
        call_id=intent.call_id,
        tool=intent.tool,
    )
    return call


def _consume_approval_and_issue_call(
    store: Store, owned_session: OwnedSession, approved: ToolCall, intent: CallIntent
) -> IssuedCall:
    """Use up an approval: the call runs once, now, with the arguments that were approved."""
    if not _matches_intent(store, approved, intent):
        raise CallConflict(owned_session.session_id, approved.call_id, approved.step)
    require_unaltered_call.require_call_unaltered(approved)
    verify_calls_against_decisions.require_signed_approval_quorum(approved, intent.approvals)
    _update_approved_call_or_raise_if_changed(
        store,
        approved,
        status=call_transitions_by_agent_or_system.BEGIN.after,
        run=owned_session.run_id,
        issued_at=Now(),
    )
    look_up_and_lock_rows.increment_session_revision(store, owned_session.pk)
    return _build_issued_call_with_args(approved)


def _build_issued_call_with_args(call: ToolCall) -> IssuedCall:
    return IssuedCall(call.pk, call.tool, call.call_id, call.step, call.attempt, call.args)


def _update_approved_call_or_raise_if_changed(store: Store, approved: ToolCall, **changes: Any) -> None:
    """Change a call that waits to run, in a session that is locked. Raises `IntegrityError` if it does not wait."""
    unused_call = ToolCall.objects.using(store.using).filter(
        pk=approved.pk, status=approved.status, revision=approved.revision
    )
    if unused_call.update(revision=approved.revision + 1, **changes) != 1:
        raise call_log_tampering_detection.build_hidden_call_error(approved)


def _find_live_call_with_key(store: Store, session: Session, intent: CallIntent) -> ToolCall | None:
    live = ToolCall.objects.using(store.using).filter(
        idempotency_key=intent.key, key_scope=intent.scope, status__in=sorted(LIVE_CALL_STATUSES)
    )
    if intent.scope == KeyScope.SESSION:
        live = live.filter(session=session)
    else:
        live = live.filter(workspace_id=session.workspace_id)
    call = live.select_related("run", "session").first()
    if call is not None:
        row_seals.verify_row(call)
        if call.idempotency_key != intent.key:
            why = "the lookup with another key found it: the database compares keys in another way"
            raise IntegrityError(row_seals.get_table_name(call), row_seals.describe_row(call), why)
        verify_calls_against_decisions.verify_call_against_decisions(call)
    return call


def _consume_rerun_approval_and_build_intent(
    store: Store, owned_session: OwnedSession, approved: ToolCall, intent: CallIntent
) -> CallIntent:
    """Use up the approval of a re-run: it allows one execution, of exactly what was approved. Returns that."""
    if not _matches_intent(store, approved, intent):
        raise CallConflict(owned_session.session_id, approved.call_id, approved.step)
    require_unaltered_call.require_call_unaltered(approved)
    verify_calls_against_decisions.require_signed_approval_quorum(approved, intent.approvals)
    _update_approved_call_or_raise_if_changed(
        store, approved, status=call_transitions_by_agent_or_system.RERUN.after, settled_at=Now()
    )
    return replace(
        intent,
        args=approved.args,
        args_order=approved.args_order,
        asked_args_digest=approved.asked_args_digest,
    )


def count_replay_if_unchanged(store: Store, owned_session: OwnedSession, call: ToolCall) -> bool:
    """Count that a stored result is given instead of running the call again.

    Returns:
        False if the call has changed since it was read: then the result must not be used.
    """
    with database_operation(store.using) as connection:
        if not _count_replay_in_row_if_unchanged(connection, owned_session, call):
            return False
    owned_session.replayed.add(call.pk)
    return True


def _count_replay_in_row_if_unchanged(
    connection: BaseDatabaseWrapper, owned_session: OwnedSession, call: ToolCall
) -> bool:
    unchanged_call = ToolCall.objects.using(connection.alias).filter(
        pk=call.pk, status=call.status, revision=call.revision
    )
    keys = get_seal_keys()
    if keys is None:
        return bool(unchanged_call.update(replay_count=F("replay_count") + 1))
    if _try_count_replay_with_known_head(connection, owned_session, keys, call):
        return True
    # The call is of another session, or somebody has written to this one since. The number is no expression, so that
    # it is compared with what the database stores.
    is_counted = unchanged_call.filter(replay_count=call.replay_count).update(replay_count=call.replay_count + 1)
    owned_session.sealed_head = None
    return bool(is_counted)


def _try_count_replay_with_known_head(
    connection: BaseDatabaseWrapper, owned_session: OwnedSession, keys: SealKeys, call: ToolCall
) -> bool:
    """Count a replay of a call of the run's own session, if the call and the session are as the run knows them."""
    raw_sql_call_seals.forget_sealed_calls(owned_session, [call.pk])
    if call.session_id != owned_session.pk or call.row_seal is None:
        return False
    head = optimistic_lock_on_sealed_heads.get_or_load_head_and_seal_if_unsealed(connection.alias, owned_session)
    if head is None:
        return False
    seal_before, counted = bytes(call.row_seal), copy(call)
    counted.replay_count += 1
    seal = row_seals.compute_row_seal(keys, counted)
    difference = session_heads.compute_row_sum_term(keys, ToolCall, seal)
    difference -= session_heads.compute_row_sum_term(keys, ToolCall, seal_before)
    after = optimistic_lock_on_sealed_heads.compute_and_record_expected_head(head, difference, {})
    is_counted = after is not None and hot_statements.update_replay_count_and_head_if_unchanged(
        connection,
        owned_session.pk,
        owned_session.fence,
        call.pk,
        {"replay_count": counted.replay_count, "row_seal": seal},
        seal_before,
        after,
    )
    optimistic_lock_on_sealed_heads.record_written_head(connection, after if is_counted else None, owned_session)
    return is_counted
