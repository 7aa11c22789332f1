"""Issue tool calls: log the intent before the effect, or find the call that prevents it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints import state_machine
from checkpoints.audit import log
from checkpoints.calls import call_queries
from checkpoints.db import hot_statements
from checkpoints.db.errors import database_operation, read_back_after_lost_commit
from checkpoints.enums import (
    DISPATCHABLE_SESSION_STATUSES,
    FINISHED_SESSION_STATUSES,
    LIVE_CALL_STATUSES,
    SETTLED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    KeyPolicy,
    KeyScope,
    SessionStatus,
)
from checkpoints.exceptions import (
    CallConflict,
    CallInProgress,
    StorageUnavailable,
)
from checkpoints.models import Session, ToolCall
from checkpoints.store import change_numbers, row_lookups
from checkpoints.store.call_records import CallIntent, IssuedCall
from checkpoints.store.store import OwnedSession, Store

#: Statuses of approvals that the next dispatch uses up.
_CONSUMABLE_STATUSES = frozenset({state_machine.BEGIN.before, state_machine.RERUN.before})


def issue_call(
    store: Store, owned_session: OwnedSession, intent: CallIntent, *, executing: bool = False
) -> IssuedCall | ToolCall:
    """Log `intent` and return it as `IssuedCall`, or return the live call of the same key, in whatever status it is.

    `executing` says that this process runs the call next and reports its outcome. Raises `OwnershipLost`,
    `SessionFinished`, `CallConflict`, and `ReviewRequired` if another call of the session is undecided and this
    one mutates.
    """
    with store.lock_for_issuing(intent.key):
        try:
            with database_operation(store.using) as connection:
                row = None
                if not intent.requires_approval:
                    values = _build_call_values(owned_session, intent, 1)
                    row = hot_statements.insert_call(
                        connection, owned_session.pk, owned_session.fence, intent.step, values
                    )
                call: IssuedCall | ToolCall = (
                    _issue_under_lock(store, owned_session, intent)
                    if row is None
                    else IssuedCall(row[0], intent.call_id, row[1], 1)
                )
        except StorageUnavailable as error:
            call = _read_back_intent(store, owned_session, intent, error)
        store.unanswered.discard(intent.key)
        if intent.policy != KeyPolicy.STEP:
            is_settled = not isinstance(call, IssuedCall) and call.status in SETTLED_CALL_STATUSES
            owned_session.operations.note_logged_call(intent.call_id, intent.key, call.pk, settled=is_settled)
        if isinstance(call, IssuedCall):
            store.issued.add(call.pk)
            if executing:
                store.executing.add(call.pk)
        return call


def _read_back_intent(
    store: Store, owned_session: OwnedSession, intent: CallIntent, error: StorageUnavailable
) -> IssuedCall:
    """Read back the intent after a commit whose answer was lost.

    An intent of this run that this process has not issued before is the one just written.
    """
    if error.may_have_happened:
        store.unanswered.add(intent.key)
    with read_back_after_lost_commit(store.using, error):
        row_lookups.get_session(store, owned_session.session_id, lock=True)
        run_calls = ToolCall.objects.using(store.using).filter(
            session_id=owned_session.pk, run_id=owned_session.run_id, call_id=intent.call_id, idempotency_key=intent.key
        )
        call = run_calls.filter(status=CallStatus.ISSUED).order_by("-pk").first()
    if call is None or call.pk in store.issued:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return IssuedCall(call.pk, call.call_id, call.step, call.attempt)


def _is_unconfirmed_issue(store: Store, owned_session: OwnedSession, call: ToolCall, intent: CallIntent) -> bool:
    """Return whether this run logged the call itself and got no answer: then nothing has run."""
    is_unreported = call.run_id == owned_session.run_id and call.pk not in store.issued
    return is_unreported and call.status == CallStatus.ISSUED and intent.key in store.unanswered


def _build_call_values(
    owned_session: OwnedSession, intent: CallIntent, attempt: int, supersedes: int | None = None
) -> dict[str, Any]:
    return {
        "run": owned_session.run_id,
        "call_id": intent.call_id,
        "attempt": attempt,
        "supersedes": supersedes,
        "tool": intent.tool,
        "args": intent.args,
        "args_digest": intent.args_digest,
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
        "status": state_machine.ISSUE.after,
        "reason": "",
        "result_digest": "",
        "error_type": "",
        "verify_requested_by": "",
    }


def _issue_under_lock(store: Store, owned_session: OwnedSession, intent: CallIntent) -> IssuedCall | ToolCall:
    """Issue under the session's lock: the slow path, which finds out what prevented the fast one."""
    with transaction.atomic(using=store.using):
        session = (
            Session.objects.using(store.using)
            .select_for_update()
            .filter(pk=owned_session.pk, fence=owned_session.fence)
            .first()
        )
        if session is None or session.status in FINISHED_SESSION_STATUSES:
            raise row_lookups.build_fence_lost_error(store, owned_session)
        step = session.latest_version if intent.step is None else intent.step
        last = _find_last_attempt(store, owned_session, intent, step)
        live_call = _find_live_call(store, session, intent)
        rejected_call = None if live_call is not None else _find_rejection(store, owned_session, intent, last)
        if rejected_call is not None:
            return rejected_call
        if live_call is not None and _is_unconfirmed_issue(store, owned_session, live_call, intent):
            return IssuedCall(live_call.pk, live_call.call_id, live_call.step, live_call.attempt, live_call.args)
        if live_call is not None and live_call.status not in _CONSUMABLE_STATUSES:
            return live_call
        _require_session_open(store, owned_session, session, intent, live_call)
        attempt = 1 if last is None else 1 + last.attempt
        if live_call is not None and live_call.status == state_machine.BEGIN.before:
            return _begin_approved_call(store, owned_session, live_call, intent)
        if live_call is None and intent.requires_approval:
            return _log_awaiting_approval(store, owned_session, session, intent, step, attempt)
        return _insert_attempt(store, owned_session, session, intent, live_call, (step, attempt))


def _require_session_open(
    store: Store, owned_session: OwnedSession, session: Session, intent: CallIntent, call: ToolCall | None
) -> None:
    """Require that a mutating call may run now, and that an approval that was found belongs to this session."""
    if call is not None and call.session_id != owned_session.pk:
        raise CallInProgress(call.session.session_id, call.call_id, call.tool)
    unknown = call_queries.list_calls_with_status(store, session, {CallStatus.INTERRUPTED})
    if unknown and intent.mutates:
        raise call_queries.build_review_required(store, owned_session.session_id, unknown)


def _insert_attempt(
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
        intent = _consume_approval(store, owned_session, approved, intent)
    values = _build_call_values(owned_session, intent, attempt, None if approved is None else approved.pk)
    under_review = session.status not in DISPATCHABLE_SESSION_STATUSES
    connection = connections[store.using]
    row = hot_statements.insert_call(
        connection, owned_session.pk, owned_session.fence, step, values, under_review=under_review
    )
    if row is not None:
        return IssuedCall(row[0], intent.call_id, row[1], attempt, intent.args)
    # Despite the lock, another session can insert a call with the same workspace-wide key.
    rival = _find_live_call(store, session, intent)
    if rival is None:
        raise CallConflict(owned_session.session_id, intent.call_id, step)
    return rival


def _find_last_attempt(store: Store, owned_session: OwnedSession, intent: CallIntent, step: int) -> ToolCall | None:
    """Find the last attempt of this call in this step. Raises `CallConflict` if it was another operation.

    A model that is asked again after a crash may give the id to another call; the policy `unanswered` permits that.
    """
    step_calls = ToolCall.objects.using(store.using).filter(
        session_id=owned_session.pk, step=step, call_id=intent.call_id
    )
    candidates = step_calls.filter(run=owned_session.run_id) if intent.policy == KeyPolicy.UNANSWERED else step_calls
    if any(not _matches_intent(store, call, intent) for call in candidates):
        raise CallConflict(owned_session.session_id, intent.call_id, step)
    return step_calls.select_related("run", "session").order_by("-attempt").first()


def _find_rejection(
    store: Store, owned_session: OwnedSession, intent: CallIntent, last: ToolCall | None
) -> ToolCall | None:
    """Find a person's rejection of the operation. It also holds if the operation is requested by another call id."""
    if intent.policy == KeyPolicy.UNANSWERED:
        attempts = ToolCall.objects.using(store.using).filter(session_id=owned_session.pk, idempotency_key=intent.key)
        last = attempts.select_related("run", "session").order_by("-pk").first()
    if last is None or last.status != CallStatus.REJECTED or last.idempotency_key != intent.key:
        return None
    return last


def _matches_intent(store: Store, call: ToolCall, intent: CallIntent) -> bool:
    """Return whether a logged call has the same tool and arguments; arguments that a person has changed are not
    compared."""
    if call.tool != intent.tool:
        return False
    return call.args_digest == intent.args_digest or intent.args_digest in call_queries.list_args_digests(store, call)


def _log_awaiting_approval(
    store: Store, owned_session: OwnedSession, session: Session, intent: CallIntent, step: int, attempt: int
) -> ToolCall:
    """Log a call that a person has to approve before it runs; the session waits for that."""
    values = _build_call_values(owned_session, intent, attempt) | {"status": state_machine.ASK.after, "step": step}
    values["run_id"], values["supersedes_id"] = values.pop("run"), values.pop("supersedes")
    call = ToolCall(session_id=owned_session.pk, workspace_id=store.workspace_id, **values)
    try:
        with transaction.atomic(using=store.using):
            call.save(using=store.using, force_insert=True)
    except IntegrityError as error:  # despite the lock, another session can insert a workspace-wide key
        rival = _find_live_call(store, session, intent)
        if rival is None:
            raise CallConflict(owned_session.session_id, intent.call_id, step) from error
        return rival
    Session.objects.using(store.using).filter(pk=owned_session.pk).update(
        status=SessionStatus.NEEDS_REVIEW, revision=F("revision") + 1, updated_at=Now()
    )
    log.record_event(
        store,
        AuditKind.APPROVAL_REQUESTED,
        session_pk=owned_session.pk,
        actor=f"run {owned_session.run.number}",
        call_id=intent.call_id,
        tool=intent.tool,
    )
    return ToolCall.objects.using(store.using).select_related("run", "session").get(pk=call.pk)


def _begin_approved_call(
    store: Store, owned_session: OwnedSession, approved: ToolCall, intent: CallIntent
) -> IssuedCall:
    """Use up an approval: the call runs once, now, with the arguments that were approved."""
    if not _matches_intent(store, approved, intent):
        raise CallConflict(owned_session.session_id, approved.call_id, approved.step)
    call_queries.require_intact(approved)
    ToolCall.objects.using(store.using).filter(pk=approved.pk, status=state_machine.BEGIN.before).update(
        status=state_machine.BEGIN.after, run=owned_session.run_id, revision=F("revision") + 1, issued_at=Now()
    )
    change_numbers.bump_revision(store, owned_session.pk)
    return IssuedCall(approved.pk, approved.call_id, approved.step, approved.attempt, approved.args)


def _find_live_call(store: Store, session: Session, intent: CallIntent) -> ToolCall | None:
    live = ToolCall.objects.using(store.using).filter(
        idempotency_key=intent.key, key_scope=intent.scope, status__in=sorted(LIVE_CALL_STATUSES)
    )
    if intent.scope == KeyScope.SESSION:
        live = live.filter(session=session)
    else:
        live = live.filter(workspace_id=session.workspace_id)
    return live.select_related("run", "session").first()


def _consume_approval(store: Store, owned_session: OwnedSession, approved: ToolCall, intent: CallIntent) -> CallIntent:
    """Use up the approval of a re-run: it allows one execution, of exactly what was approved. Returns that."""
    if not _matches_intent(store, approved, intent):
        raise CallConflict(owned_session.session_id, approved.call_id, approved.step)
    call_queries.require_intact(approved)
    ToolCall.objects.using(store.using).filter(pk=approved.pk, status=state_machine.RERUN.before).update(
        status=state_machine.RERUN.after, revision=F("revision") + 1, settled_at=Now()
    )
    return replace(intent, args=approved.args, asked_args_digest=approved.asked_args_digest)


def count_call_replay(store: Store, owned_session: OwnedSession, call: ToolCall) -> None:
    """Count that a stored result was given instead of running the call again."""
    with database_operation(store.using):
        ToolCall.objects.using(store.using).filter(pk=call.pk).update(replay_count=F("replay_count") + 1)
    owned_session.replayed.add(call.pk)
