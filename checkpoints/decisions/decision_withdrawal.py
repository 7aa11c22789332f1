"""Withdrawal of a decision that the run has not used yet.

A withdrawal undoes a wrong decision: the call waits for a decision again, as before. It is a decision of its own, with
a reason, and needs one person, because nothing runs because of it. It and the run that uses the decision exclude each
other: both change the call or its session in one conditional update under the session's lock, so exactly one of them
succeeds.

A decision is used
- to run a call (approval, re-run): when the agent makes the call again;
- to give the agent a result, or the answer to a question of its framework: when a run passes the gate after the
  decision, or the framework goes on without one, or when a run gets the result from the log;
- when there is a later attempt at the call, or another call of the same operation.

While several people have yet to agree, nothing is in force. Each of them can then take back what they said themselves.
That raises the call's revision, so a second person who decides at the same moment has to look again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import framework_interrupt_calls, insert_signed_decision, verify_calls_against_decisions
from checkpoints.calls.decision_signatures import require_signing_key_for_decision
from checkpoints.calls.insert_signed_decision import DecisionTerms
from checkpoints.decisions.actors import Actor, to_actor
from checkpoints.decisions.decide import RULES, dump_evidence, list_open_votes, require_and_clean_decision_reason
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.decisions.lock_session_for_decision import lock_session_and_get_call
from checkpoints.enums import (
    DECIDING_KINDS,
    WITHDRAWABLE_KINDS,
    AuditKind,
    CallStatus,
    DecisionKind,
    SessionStatus,
)
from checkpoints.exceptions import DecisionUsed, InvalidInput, NothingToWithdraw, StaleRevision
from checkpoints.formats import digests
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.store.database_client_state import Store

#: Statuses in which a decision lets the agent run the call; the decision is used when the call leaves them.
_PERMITTING_STATUSES = frozenset({CallStatus.APPROVED, CallStatus.RERUN_APPROVED})
#: Column values of a call without an outcome.
_NO_OUTCOME: dict[str, Any] = {"settled_at": None, "result": None, "exit_code": None}


def withdraw_decision(
    store: Store, target: DecisionTarget, *, actor: Actor | str, reason: object, evidence: object = None
) -> None:
    """Withdraw the decision about a call that is in force: the call waits for a decision again.

    If several people had to agree, all of them have to decide again. The deadline stays the same. While more people
    have to agree, the actor takes back their own decisions about the call, and those of the others stay.

    Args:
        store: State of the client.
        target: The call, and the revision of it that the actor saw.
        actor: Who withdraws: an `Actor`, or the name of a person.
        reason: Why, in a sentence.
        evidence: What the withdrawal rests on: text, or a JSON object.

    Raises:
        SessionNotFound: There is no such session.
        CallNotFound: There is no such call.
        NotPermitted: `actor` may not decide.
        ReasonRequired: There is no reason.
        NothingToWithdraw: No decision of a person is in force, nor one of the actor that waits for others.
        DecisionUsed: The run has used the decision.
        StaleRevision: The call has changed since `target.revision`.
        DecisionSigningKeyMissing: Decisions have to be signed, and this process has no key.
        NotRepresentable: The evidence has no exact JSON form.
        InvalidInput: An argument cannot be used as such.
    """
    actor = to_actor(actor)
    actor.require_may_decide("withdraw the decision about this call")
    require_signing_key_for_decision(DecisionKind.WITHDRAW, actor.kind)
    reason_text = require_and_clean_decision_reason(reason, actor)
    stored_evidence = dump_evidence(evidence)
    if isinstance(target.revision, bool) or not isinstance(target.revision, int):
        raise InvalidInput(f"{target.revision!r} is not a revision.")
    with lock_session_and_get_call(store, target) as (session, call):
        withdrawn = (
            _get_open_vote_to_withdraw(session, call, actor)
            if call.undecided
            else _get_decision_or_raise_used(session, call)
        )
        if call.revision != target.revision:
            raise StaleRevision(session.session_id, call.call_id, target.revision, call.revision)
        if withdrawn.final:
            _reopen_call_or_raise_used(store, session, call, withdrawn)
        else:
            _increment_call_revision_or_raise_stale(store, call)
        _insert_withdrawal(store, session, call, withdrawn, actor, reason_text, stored_evidence)
        _increment_session_revision_and_reopen_review(
            store, session, needs_review=withdrawn.final and not session.finished
        )
        _record_withdrawal_in_audit_trail(store, session, call, withdrawn, actor)


def _get_decision_or_raise_used(session: Session, call: ToolCall) -> Decision:
    """Return the decision that is in force. Raises `NothingToWithdraw`, `DecisionUsed`."""
    decision = get_withdrawable_decision_or_raise(call)
    if has_run_used_decision(call, decision):
        raise _build_decision_used_error(session, call, decision)
    return decision


def _get_open_vote_to_withdraw(session: Session, call: ToolCall, actor: Actor) -> Decision:
    """Return the actor's latest decision that waits for others to agree. Raises `NothingToWithdraw`."""
    rows = verify_calls_against_decisions.select_decisions_joined_for_signatures(str(call._state.db)).filter(
        tool_call=call, kind__in=sorted(DECIDING_KINDS)
    )
    decisions = list(rows.order_by(*Decision.IN_ORDER))
    verify_calls_against_decisions.verify_decisions(decisions)
    voters = actor.electorate(decisions)
    open_votes = list_open_votes(call.args_digest, decisions, voters)
    own = [vote for vote in open_votes if voters[vote.pk].person == actor.person]
    if not own:
        raise NothingToWithdraw(session.session_id, call.call_id, call.status)
    return own[-1]


def get_withdrawable_decision_or_raise(call: ToolCall) -> Decision:
    """Return the decision of a person that is in force, used or not. Raises `NothingToWithdraw`."""
    decisions = verify_calls_against_decisions.select_decisions_joined_for_signatures(str(call._state.db)).filter(
        tool_call=call, final=True, kind__in=sorted(DECIDING_KINDS)
    )
    decision = decisions.order_by(*Decision.IN_ORDER).last()
    if decision is None or decision.kind not in WITHDRAWABLE_KINDS or call.undecided:
        raise NothingToWithdraw(call.session.session_id, call.call_id, call.status)
    verify_calls_against_decisions.verify_decisions([decision])
    return decision


def has_run_used_decision(call: ToolCall, decision: Decision) -> bool:
    """Return whether the run has used the decision about the call, as far as the log shows."""
    return not list_calls_with_unused_decision([(call, decision)])


def list_calls_with_unused_decision(decided: Sequence[tuple[ToolCall, Decision]]) -> list[ToolCall]:
    """List the calls whose decision no run has used, as far as the log shows; at most one query for all of them.

    Args:
        decided: Calls with their sessions, each with the decision that is in force about it.

    Returns:
        The calls that are left, in the order of `decided`.
    """
    unused = [call for call, decision in decided if not _does_call_show_use_of_decision(call, decision)]
    repeatable = [call for call in unused if call.status not in _PERMITTING_STATUSES]
    if not repeatable:
        return unused
    same_calls = ToolCall.objects.using(repeatable[0]._state.db).filter(
        session__in={call.session_id for call in repeatable}, call_id__in={call.call_id for call in repeatable}
    )
    attempts = same_calls.values_list("session_id", "step", "call_id").annotate(latest=Max("attempt")).order_by()
    latest_attempts = {(session, step, call_id): latest for session, step, call_id, latest in attempts}
    return [
        call
        for call in unused
        if call.status in _PERMITTING_STATUSES
        or latest_attempts.get((call.session_id, call.step, call.call_id), call.attempt) <= call.attempt
    ]


def _does_call_show_use_of_decision(call: ToolCall, decision: Decision) -> bool:
    """Return whether the row of a call and that of its session show that a run has used the decision."""
    rule = RULES[DecisionKind(decision.kind)]
    if call.status != rule.after:
        return True
    if call.status in _PERMITTING_STATUSES and not framework_interrupt_calls.is_interrupt_about_no_tool_call(call):
        return False
    opened_at = call.session.gate_opened_at
    given_at_gate = opened_at is not None and opened_at >= decision.created_at
    return bool(given_at_gate or call.replay_count or call.answered_version is not None)


def _reopen_call_or_raise_used(store: Store, session: Session, call: ToolCall, decision: Decision) -> None:
    """Set the call back to the status before its decision, unless the decision is used at this moment."""
    before = RULES[DecisionKind(decision.kind)].before
    unused_call = ToolCall.objects.using(store.using).filter(
        pk=call.pk, status=call.status, revision=call.revision, replay_count=0, answered_version=None
    )
    try:
        with transaction.atomic(using=store.using):
            changed = unused_call.update(
                status=before,
                revision=F("revision") + 1,
                result_digest=digests.digest_outcome(None, call.error_message),
                **_NO_OUTCOME,
            )
    except IntegrityError as error:  # another call of the same operation is under way
        raise _build_decision_used_error(session, call, decision) from error
    if changed != 1:
        raise _build_decision_used_error(session, call, decision)


def _increment_call_revision_or_raise_stale(store: Store, call: ToolCall) -> None:
    """Raise the revision of a call that stays as it is, so that others look again before they decide."""
    rows = ToolCall.objects.using(store.using).filter(pk=call.pk, status=call.status, revision=call.revision)
    if rows.update(revision=F("revision") + 1) != 1:
        raise StaleRevision(call.session.session_id, call.call_id, call.revision, call.revision + 1)


def _insert_withdrawal(
    store: Store, session: Session, call: ToolCall, withdrawn: Decision, actor: Actor, reason: str, evidence: str | None
) -> None:
    """Insert the withdrawal as a decision of its own. `evidence` is canonical JSON."""
    withdrawal = Decision(
        session=session,
        tool_call=call,
        kind=DecisionKind.WITHDRAW,
        actor_kind=actor.kind,
        actor=actor.name,
        reason=reason,
        evidence=evidence,
        final=withdrawn.final,
        args_digest=call.args_digest,
        revision=call.revision,
    )
    terms = DecisionTerms(call.approvals, [actor.person], call.asked_args_digest)
    insert_signed_decision.insert_decision_signed_if_enabled(withdrawal, terms, using=store.using)


def _increment_session_revision_and_reopen_review(store: Store, session: Session, *, needs_review: bool) -> None:
    """Raise the revision of a session, and let it wait for a decision again if it `needs_review`."""
    changes: dict[str, Any] = {"revision": F("revision") + 1, "updated_at": Now()}
    if needs_review:
        changes["status"] = SessionStatus.NEEDS_REVIEW
    Session.objects.using(store.using).filter(pk=session.pk).update(**changes)


def _record_withdrawal_in_audit_trail(
    store: Store, session: Session, call: ToolCall, withdrawn: Decision, actor: Actor
) -> None:
    insert_unchained_events.record_event(
        store,
        AuditKind.DECIDED,
        session_pk=session.pk,
        actor=actor.name,
        actor_kind=actor.kind,
        decision=DecisionKind.WITHDRAW,
        withdrawn=withdrawn.kind,
        decided_by=withdrawn.actor,
        call_id=call.call_id,
        step=call.step,
        attempt=call.attempt,
        args_digest=call.args_digest,
        **actor.audit_details,
    )


def _build_decision_used_error(session: Session, call: ToolCall, decision: Decision) -> DecisionUsed:
    label = str(translate_label(DecisionKind(decision.kind)))
    return DecisionUsed(session.session_id, call.call_id, label, decision.actor, decision.created_at)
