"""Intents of tool calls: logged before the effect, or what stands in their way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.enums import (
    DISPATCHABLE_SESSION,
    FINISHED_SESSION,
    LIVE_CALL,
    SETTLED_CALL,
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
from checkpoints.saving import audit, calls, lookup, revisions, statements, transitions
from checkpoints.saving.intents import Intent, Issued
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.store import Held, Store

#: Approvals that the next dispatch uses up.
_CONSUMABLE = frozenset({transitions.BEGIN.before, transitions.RERUN.before})


def issue(store: Store, held: Held, wanted: Intent, *, executing: bool = False) -> Issued | ToolCall:
    """Log `wanted` and return it `Issued`, or return the call that stands in its way: the live call of the same
    key, in whatever state it is.

    `executing` says that this process runs the call next and reports how it ends. Raises `OwnershipLost`,
    `SessionFinished`, `CallConflict`, and `ReviewRequired` where another call of the session is undecided and this
    one mutates.
    """
    with store.issuing(wanted.key):
        try:
            with operation(store.using) as connection:
                row = None
                if not wanted.requires_approval:
                    values = _values(held, wanted, 1)
                    row = statements.issue(connection, held.pk, held.fence, wanted.step, values)
                found: Issued | ToolCall = (
                    _issue_locked(store, held, wanted) if row is None else Issued(row[0], wanted.call_id, row[1], 1)
                )
        except StorageUnavailable as error:
            found = _read_back_intent(store, held, wanted, error)
        store.unanswered.discard(wanted.key)
        if wanted.policy != KeyPolicy.STEP:
            settled = not isinstance(found, Issued) and found.status in SETTLED_CALL
            held.operations.note(wanted.call_id, wanted.key, found.pk, settled=settled)
        if isinstance(found, Issued):
            store.issued.add(found.pk)
            if executing:
                store.executing.add(found.pk)
        return found


def _read_back_intent(store: Store, held: Held, wanted: Intent, error: StorageUnavailable) -> Issued:
    """After a commit whose answer was lost: the intent of this run that this process has not issued before is the
    one just written."""
    if error.may_have_happened:
        store.unanswered.add(wanted.key)
    with reading_back(store.using, error):
        lookup.session(store, held.session_id, lock=True)
        mine = ToolCall.objects.using(store.using).filter(
            session_id=held.pk, run_id=held.run_id, call_id=wanted.call_id, idempotency_key=wanted.key
        )
        call = mine.filter(status=CallStatus.ISSUED).order_by("-pk").first()
    if call is None or call.pk in store.issued:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return Issued(call.pk, call.call_id, call.step, call.attempt)


def _is_unanswered(store: Store, held: Held, found: ToolCall, wanted: Intent) -> bool:
    """Whether this run logged the call itself and was never told so: then nothing has run."""
    mine = found.run_id == held.run_id and found.pk not in store.issued
    return mine and found.status == CallStatus.ISSUED and wanted.key in store.unanswered


def _values(held: Held, wanted: Intent, attempt: int, supersedes: int | None = None) -> dict[str, Any]:
    return {
        "run": held.run_id,
        "call_id": wanted.call_id,
        "attempt": attempt,
        "supersedes": supersedes,
        "tool": wanted.tool,
        "args": wanted.args,
        "args_digest": wanted.args_digest,
        "asked_args_digest": wanted.asked_args_digest,
        "idempotency_key": wanted.key,
        "key_scope": wanted.scope,
        "key_policy": wanted.policy or "",
        "side_effects": ",".join(sorted(wanted.side_effects)),
        "risk": wanted.risk,
        "sentence": wanted.sentence,
        "verifiable": wanted.verifiable,
        "approvals": wanted.approvals,
        "decide_within": wanted.decide_within,
        "status": transitions.ISSUE.after,
        "reason": "",
        "result_digest": "",
        "error_type": "",
        "verify_requested_by": "",
    }


def _issue_locked(store: Store, held: Held, wanted: Intent) -> Issued | ToolCall:
    """The slow path: something is in the way. Look under the session's lock at what it is."""
    with transaction.atomic(using=store.using):
        session = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
        if session is None or session.status in FINISHED_SESSION:
            raise lookup.fence_lost(store, held)
        step = session.latest_version if wanted.step is None else wanted.step
        last = _last_attempt(store, held, wanted, step)
        found = _live_call(store, session, wanted)
        rejected = None if found is not None else _rejection(store, held, wanted, last)
        if rejected is not None:
            return rejected
        if found is not None and _is_unanswered(store, held, found, wanted):
            return Issued(found.pk, found.call_id, found.step, found.attempt, found.args)
        if found is not None and found.status not in _CONSUMABLE:
            return found
        _require_open(store, held, session, wanted, found)
        attempt = 1 if last is None else 1 + last.attempt
        if found is not None and found.status == transitions.BEGIN.before:
            return _begin_approved(store, held, found, wanted)
        if found is None and wanted.requires_approval:
            return _ask_for_approval(store, held, session, wanted, step, attempt)
        return _issue_attempt(store, held, session, wanted, found, (step, attempt))


def _require_open(store: Store, held: Held, session: Session, wanted: Intent, found: ToolCall | None) -> None:
    """A mutating call may run now, and an approval that was found is this session's to use."""
    if found is not None and found.session_id != held.pk:
        raise CallInProgress(found.session.session_id, found.call_id, found.tool)
    unknown = calls.with_status(store, session, {CallStatus.INTERRUPTED})
    if unknown and wanted.mutates:
        raise calls.review_required(store, held.session_id, unknown)


def _issue_attempt(
    store: Store, held: Held, session: Session, wanted: Intent, approved: ToolCall | None, place: tuple[int, int]
) -> Issued | ToolCall:
    """Insert the attempt, using up the approval of a re-run where there is one."""
    step, attempt = place
    if approved is not None:
        wanted = _consume_approval(store, held, approved, wanted)
    values = _values(held, wanted, attempt, None if approved is None else approved.pk)
    under_review = session.status not in DISPATCHABLE_SESSION
    connection = connections[store.using]
    row = statements.issue(connection, held.pk, held.fence, step, values, under_review=under_review)
    if row is not None:
        return Issued(row[0], wanted.call_id, row[1], attempt, wanted.args)
    # Only a workspace-wide key can appear in spite of the lock, from another session.
    rival = _live_call(store, session, wanted)
    if rival is None:
        raise CallConflict(held.session_id, wanted.call_id, step)
    return rival


def _last_attempt(store: Store, held: Held, wanted: Intent, step: int) -> ToolCall | None:
    """The last attempt of this call in this step. Raises `CallConflict` where it was for something else.

    A model that is asked again after a crash may give the id to another call; who asks it again has said so by the
    policy `unanswered`.
    """
    mine = ToolCall.objects.using(store.using).filter(session_id=held.pk, step=step, call_id=wanted.call_id)
    others = mine.filter(run=held.run_id) if wanted.policy == KeyPolicy.UNANSWERED else mine
    if any(not _is_for(store, call, wanted) for call in others):
        raise CallConflict(held.session_id, wanted.call_id, step)
    return mine.select_related("run", "session").order_by("-attempt").first()


def _rejection(store: Store, held: Held, wanted: Intent, last: ToolCall | None) -> ToolCall | None:
    """What a person has said no to. It holds for the operation, also where it is asked for by another call id."""
    if wanted.policy == KeyPolicy.UNANSWERED:
        tried = ToolCall.objects.using(store.using).filter(session_id=held.pk, idempotency_key=wanted.key)
        last = tried.select_related("run", "session").order_by("-pk").first()
    if last is None or last.status != CallStatus.REJECTED or last.idempotency_key != wanted.key:
        return None
    return last


def _is_for(store: Store, call: ToolCall, wanted: Intent) -> bool:
    """Whether a logged call is this one: the same tool and arguments, unless a person has changed the arguments."""
    if call.tool != wanted.tool:
        return False
    return call.args_digest == wanted.args_digest or wanted.args_digest in calls.digests_of(store, call)


def _ask_for_approval(store: Store, held: Held, session: Session, wanted: Intent, step: int, attempt: int) -> ToolCall:
    """Log a call that a person has to approve before it runs; the session waits for that."""
    values = _values(held, wanted, attempt) | {"status": transitions.ASK.after, "step": step}
    values["run_id"], values["supersedes_id"] = values.pop("run"), values.pop("supersedes")
    call = ToolCall(session_id=held.pk, workspace_id=store.workspace_id, **values)
    try:
        with transaction.atomic(using=store.using):
            call.save(using=store.using, force_insert=True)
    except IntegrityError as error:  # only a workspace-wide key can appear in spite of the lock
        rival = _live_call(store, session, wanted)
        if rival is None:
            raise CallConflict(held.session_id, wanted.call_id, step) from error
        return rival
    Session.objects.using(store.using).filter(pk=held.pk).update(
        status=SessionStatus.NEEDS_REVIEW, revision=F("revision") + 1, updated_at=Now()
    )
    audit.record(
        store,
        AuditKind.APPROVAL_REQUESTED,
        session_pk=held.pk,
        actor=f"run {held.run.number}",
        call_id=wanted.call_id,
        tool=wanted.tool,
    )
    return ToolCall.objects.using(store.using).select_related("run", "session").get(pk=call.pk)


def _begin_approved(store: Store, held: Held, approved: ToolCall, wanted: Intent) -> Issued:
    """Use up an approval: the call runs once, now, with the arguments that were approved."""
    if not _is_for(store, approved, wanted):
        raise CallConflict(held.session_id, approved.call_id, approved.step)
    calls.require_intact(approved)
    ToolCall.objects.using(store.using).filter(pk=approved.pk, status=transitions.BEGIN.before).update(
        status=transitions.BEGIN.after, run=held.run_id, revision=F("revision") + 1, issued_at=Now()
    )
    revisions.touch(store, held.pk)
    return Issued(approved.pk, approved.call_id, approved.step, approved.attempt, approved.args)


def _live_call(store: Store, session: Session, wanted: Intent) -> ToolCall | None:
    live = ToolCall.objects.using(store.using).filter(
        idempotency_key=wanted.key, key_scope=wanted.scope, status__in=sorted(LIVE_CALL)
    )
    if wanted.scope == KeyScope.SESSION:
        live = live.filter(session=session)
    else:
        live = live.filter(workspace_id=session.workspace_id)
    return live.select_related("run", "session").first()


def _consume_approval(store: Store, held: Held, approved: ToolCall, wanted: Intent) -> Intent:
    """Use up the approval of a re-run: it allows one execution, of exactly what was approved. Returns that."""
    if not _is_for(store, approved, wanted):
        raise CallConflict(held.session_id, approved.call_id, approved.step)
    calls.require_intact(approved)
    ToolCall.objects.using(store.using).filter(pk=approved.pk, status=transitions.RERUN.before).update(
        status=transitions.RERUN.after, revision=F("revision") + 1, settled_at=Now()
    )
    return replace(wanted, args=approved.args, asked_args_digest=approved.asked_args_digest)


def count_replay(store: Store, held: Held, call: ToolCall) -> None:
    """Count that a stored result was given instead of running the call again."""
    with operation(store.using):
        ToolCall.objects.using(store.using).filter(pk=call.pk).update(replay_count=F("replay_count") + 1)
    held.replayed.add(call.pk)
