"""Decisions of people about a call: its outcome, or whether it may run at all. One transaction for each decision.

A decision is bound to the revision the person saw. The call's row moves in one conditional update, so of two
concurrent decisions exactly one counts and the other gets an error that names the first. If a tool needs several
people, each of them records a decision, and the last of these moves the call; equal decisions that others have recorded
meanwhile do not make the next one stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from checkpoints import tracing
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import (
    call_log_tampering_detection,
    insert_signed_decision,
    require_unaltered_call,
    unfinished_call_queries,
    verify_calls_against_decisions,
)
from checkpoints.calls.decision_signatures import require_signing_key_for_decision
from checkpoints.calls.insert_signed_decision import DecisionTerms
from checkpoints.calls.sentence_templates import format_sentence_if_harmless
from checkpoints.db.clock import read_database_time
from checkpoints.decisions.actors import Actor, to_actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.decisions.lock_session_for_decision import lock_session_and_get_call
from checkpoints.decisions.vote_and_electorate_types import Vote
from checkpoints.enums import (
    APPROVAL_KINDS,
    DECIDING_KINDS,
    FINISHED_SESSION_STATUSES,
    ActorKind,
    AuditKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    Role,
    SessionStatus,
)
from checkpoints.exceptions import (
    AlreadyDecided,
    DecisionExpired,
    DecisionNotAccepted,
    EditorMayNotApprove,
    InvalidInput,
    NotRepresentable,
    NotUndecided,
    ReasonRequired,
    SecondPersonRequired,
    SessionFinished,
    StaleRevision,
)
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.formats.storable_text import replace_unstorable_characters
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.models.decision import ARGS_BEFORE_EDIT
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.sessions import take_and_release_ownership
from checkpoints.store.database_client_state import Store


@dataclass(frozen=True)
class DecisionRule:
    """Rule of one kind of decision: source status, target status, audit event, and the number of people.

    `by_one` decisions are on the safe side: nothing runs because of them, so one person is enough. Decisions that the
    agent acts on (`goes_on`) are refused in a session that has ended.
    """

    before: CallStatus
    after: CallStatus
    action: str
    by_one: bool = False
    goes_on: bool = False


RULES = {
    DecisionKind.CONFIRM_LANDED: DecisionRule(
        CallStatus.INTERRUPTED, CallStatus.COMPLETED, "record that this call happened"
    ),
    DecisionKind.MARK_FAILED: DecisionRule(
        CallStatus.INTERRUPTED, CallStatus.FAILED, "record that this call did not happen"
    ),
    DecisionKind.APPROVE_RERUN: DecisionRule(
        CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED, "approve a re-run of this call", goes_on=True
    ),
    DecisionKind.PROBE_LANDED: DecisionRule(
        CallStatus.INTERRUPTED, CallStatus.COMPLETED, "settle this call", by_one=True
    ),
    DecisionKind.PROBE_NOT_LANDED: DecisionRule(
        CallStatus.INTERRUPTED, CallStatus.FAILED, "settle this call", by_one=True
    ),
    DecisionKind.APPROVE: DecisionRule(
        CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, "approve this call", goes_on=True
    ),
    DecisionKind.EDIT: DecisionRule(
        CallStatus.AWAITING_APPROVAL,
        CallStatus.AWAITING_APPROVAL,
        "change the arguments of this call",
        by_one=True,
        goes_on=True,
    ),
    DecisionKind.REJECT: DecisionRule(
        CallStatus.AWAITING_APPROVAL, CallStatus.REJECTED, "reject this call", by_one=True
    ),
    DecisionKind.RESPOND: DecisionRule(
        CallStatus.AWAITING_APPROVAL, CallStatus.COMPLETED, "answer in place of this call", goes_on=True
    ),
}
#: Decisions for which people also have to agree on the text that the agent gets.
RESULT_GIVING_KINDS = frozenset({DecisionKind.CONFIRM_LANDED, DecisionKind.RESPOND})
#: Decisions whose text for the agent is a sufficient reason.
_SELF_EXPLAINING = frozenset({DecisionKind.REJECT, DecisionKind.RESPOND})
_SETTLING_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED})


@dataclass(frozen=True)
class DecisionVerdict:
    """Decision before it is checked.

    `result` is what the agent will see as the call's answer; `args` are the changed arguments of an edit.
    """

    kind: DecisionKind
    actor: Actor
    reason: object
    result: object = None
    evidence: object = None
    args: object = None


def record_decision(
    store: Store,
    target: DecisionTarget,
    kind: DecisionKind,
    *,
    actor: Actor | str,
    reason: object,
    result: object = None,
    evidence: object = None,
    new_args: object = None,
) -> None:
    """Record a decision about a call, and change the call's status once enough people agree.

    A call that a lost run left behind is interrupted first, in the same transaction. A refused decision changes
    nothing.

    Args:
        store: State of the client.
        target: The call, and the revision of it that the actor saw.
        kind: Kind of the decision.
        actor: Who decides: an `Actor`, or the name of a person.
        reason: Why, in a sentence. Verify hooks may leave it empty; for `REJECT` and `RESPOND` it is then the result.
        result: Text the agent gets as the call's answer. For `MARK_FAILED` it is made from the reason.
        evidence: What the decision rests on: text, or a JSON object.
        new_args: For `EDIT`: the arguments the call is to have, a JSON object.

    Raises:
        SessionNotFound: There is no such session.
        CallNotFound: There is no such call.
        NotPermitted: `actor` may not decide.
        ReasonRequired: There is no reason.
        AlreadyDecided: Somebody else has decided.
        StaleRevision: The call has changed since `target.revision`, by more than equal decisions of others.
        NotUndecided: The call does not wait for this kind of decision.
        DecisionNotAccepted: The agent's framework does not accept this kind of decision about the call.
        DecisionExpired: Its deadline has passed, and `actor` is no admin.
        SecondPersonRequired: `actor` has decided so already, and another person has to agree.
        EditorMayNotApprove: `actor` has changed the arguments, and several people have to approve them.
        SessionFinished: The session has ended, and the decision is one the agent would act on.
        DecisionSigningKeyMissing: Decisions have to be signed, and this process has no key.
        IntegrityError: The call is not one that this library wrote.
        NotRepresentable: A value has no exact JSON form.
        InvalidInput: An argument cannot be used as such.
    """
    if kind == DecisionKind.MARK_FAILED:
        result = f"This call did not happen. {reason}"
    elif kind in _SELF_EXPLAINING:
        reason = reason or result
    verdict = DecisionVerdict(kind, to_actor(actor), reason, result, evidence, new_args)
    about = {
        tracing.SESSION: str(target.session_id),
        tracing.CALL: str(target.call_id),
        "harness.decision.kind": str(kind),
        "harness.decision.actor_kind": str(verdict.actor.kind),
    }
    with tracing.open_span(tracing.DECIDE, about):
        _record_decision_in_transaction(store, target, verdict)


def _record_decision_in_transaction(store: Store, target: DecisionTarget, verdict: DecisionVerdict) -> None:
    rule = RULES[verdict.kind]
    verdict.actor.require_may_decide(rule.action)
    require_signing_key_for_decision(verdict.kind, verdict.actor.kind)
    reason = require_and_clean_decision_reason(verdict.reason, verdict.actor)
    evidence = dump_evidence(verdict.evidence)
    changes = _build_call_changes(verdict, rule)
    with lock_session_and_get_call(store, target) as (session, seen_call):
        require_unaltered_call.require_matching_digests(seen_call)
        call = take_and_release_ownership.interrupt_call_and_end_run_if_lost(store, session, seen_call)
        revision = _get_revision_to_decide_on_after_run_loss(store, target, seen_call, call)
        revision = _get_revision_after_equal_votes(store, call, verdict, revision)
        require_undecided_at_revision(store, session, call, revision, rule.before)
        if rule.goes_on and session.finished:
            raise SessionFinished(session.session_id, session.status)
        _require_decision_kind_allowed(session, call, verdict.kind)
        _require_admin_after_deadline(store, session, call, verdict.actor)
        people = (
            [verdict.actor.person]
            if rule.by_one
            else _list_agreeing_people_or_refuse_actor(store, session, call, verdict)
        )
        final = rule.by_one or len(people) >= call.approvals
        if verdict.kind == DecisionKind.EDIT:
            evidence = to_canonical_json(
                {ARGS_BEFORE_EDIT: call.args, **_evidence_to_dict(verdict.evidence)}, "evidence"
            )
            changes["asked_args_digest"] = call.asked_args_digest or call.args_digest
            changes["sentence"] = format_sentence_if_harmless(call.sentence_template, parse_json(changes["args"]))
        if "result" in changes:
            changes["result_digest"] = digests.digest_outcome(changes["result"], call.error_message)
            ran = verdict.kind != DecisionKind.RESPOND
            changes["exit_code"] = find_exit_code(call.tool, changes["result"]) if ran else None
        _update_call_or_raise_stale(store, call, changes if final else {})
        decision = Decision(
            session=session,
            tool_call=call,
            kind=verdict.kind,
            actor_kind=verdict.actor.kind,
            actor=verdict.actor.name,
            reason=reason,
            evidence=evidence,
            result=None if verdict.result is None else to_canonical_json(verdict.result, "result"),
            final=final,
            args_digest=changes.get("args_digest", call.args_digest),
            revision=call.revision,
        )
        asked_args_digest = changes.get("asked_args_digest", call.asked_args_digest)
        terms = DecisionTerms(call.approvals, people, asked_args_digest, call.deadline)
        insert_signed_decision.insert_decision_signed_if_enabled(decision, terms, using=store.using)
        is_restoring = verdict.kind == DecisionKind.EDIT and decision.args_digest == asked_args_digest
        _record_decision_in_audit_trail(store, session, call, verdict, is_restoring=is_restoring)
        _mark_session_ready_if_all_decided(store, session)


def require_and_clean_decision_reason(given: object, actor: Actor) -> str:
    """Return the reason as it is stored. Raises `ReasonRequired`; hooks and the machine need none."""
    if not isinstance(given, str):
        raise ReasonRequired
    reason = replace_unstorable_characters(given).strip()
    if not reason and actor.kind in {ActorKind.PERSON, ActorKind.TOKEN}:
        raise ReasonRequired
    return reason


def dump_evidence(evidence: object) -> str | None:
    """Return the canonical JSON text of the evidence, None without any. Raises `NotRepresentable`."""
    return None if evidence is None else to_canonical_json(_evidence_to_dict(evidence), "evidence")


def _evidence_to_dict(evidence: object) -> dict[str, Any]:
    if evidence is None:
        return {}
    if isinstance(evidence, str):
        return {"text": evidence}
    if not isinstance(evidence, Mapping):
        raise NotRepresentable("evidence", f"a {type(evidence).__name__} is neither text nor a dict")
    return dict(evidence)


def _build_call_changes(verdict: DecisionVerdict, rule: DecisionRule) -> dict[str, Any]:
    """Build the column changes of a final decision on the call."""
    changes: dict[str, Any] = {"status": rule.after, "verify_requested_by": ""}
    if rule.after in _SETTLING_STATUSES:
        if not isinstance(verdict.result, str):
            raise InvalidInput("The result has to be text: it is what the agent sees as the call's answer.")
        result = to_canonical_json(verdict.result, "result")
        changes |= {"settled_at": Now(), "result": result}
    if verdict.kind == DecisionKind.EDIT:
        if not isinstance(verdict.args, dict):
            raise InvalidInput("The changed arguments have to be a dict; json.loads makes one of JSON text.")
        args = to_canonical_json(verdict.args, "args")
        changes |= {"args": args, "args_digest": digests.digest_text(args)}
    return changes


def require_undecided_at_revision(
    store: Store, session: Session, call: ToolCall, revision: object, status: CallStatus = CallStatus.INTERRUPTED
) -> None:
    """Raise `AlreadyDecided`, `StaleRevision` or `NotUndecided` for a call that is not in `status` at `revision`."""
    if isinstance(revision, bool) or not isinstance(revision, int):
        raise InvalidInput(f"{revision!r} is not a revision; check_pending_tool_calls names the one to decide on.")
    if call.status == status:
        if call.revision != revision:
            raise StaleRevision(session.session_id, call.call_id, revision, call.revision)
        return
    decisions = Decision.objects.using(store.using).filter(
        tool_call=call, kind__in=sorted(DECIDING_KINDS), final=True, revision__gte=revision
    )
    withdrawal = decisions.filter(kind=DecisionKind.WITHDRAW).order_by(*Decision.IN_ORDER).last()
    in_force = decisions if withdrawal is None else decisions.filter(revision__gt=withdrawal.revision)
    decision = in_force.order_by(*Decision.IN_ORDER).first()
    if decision is None:
        raise NotUndecided(session.session_id, call.call_id, call.status)
    label = str(translate_label(DecisionKind(decision.kind)))
    raise AlreadyDecided(session.session_id, call.call_id, label, decision.actor, decision.created_at)


def _get_revision_to_decide_on_after_run_loss(
    store: Store, target: DecisionTarget, seen_call: ToolCall, call: ToolCall
) -> int:
    """Return the revision of `call` that a decision is bound to.

    The actor may have seen the call as its run left it: that the run was then declared lost, in this transaction or
    before it, changes nothing that the actor has to know. Raises `StaleRevision`.
    """
    if type(target.revision) is not int:
        return target.revision
    if call is not seen_call:
        if target.revision != seen_call.revision:
            raise StaleRevision(target.session_id, target.call_id, target.revision, seen_call.revision)
        return call.revision
    is_lost = (call.status, call.reason) == (CallStatus.INTERRUPTED, InterruptReason.RUN_LOST)
    if not is_lost or target.revision != call.revision - 1:
        return target.revision
    decisions = Decision.objects.using(store.using).filter(tool_call=call, kind__in=sorted(DECIDING_KINDS))
    return target.revision if decisions.filter(revision=target.revision).exists() else call.revision


def _get_revision_after_equal_votes(store: Store, call: ToolCall, verdict: DecisionVerdict, revision: int) -> int:
    """Return the current revision of the call if it only counts votes equal to `verdict` since `revision`.

    Those leave everything as the actor saw it. Each other change has a revision without such a vote: an edit, a
    withdrawal, a vote of another kind or about other arguments, and the end of a run. Then `revision` is returned.
    """
    if type(revision) is not int or revision >= call.revision:
        return revision
    result = _get_result_to_agree_on(verdict)
    votes = Decision.objects.using(store.using).filter(
        tool_call=call, revision__gte=revision, kind=verdict.kind, final=False, args_digest=call.args_digest
    )
    equal = {vote.revision for vote in votes if result is None or vote.result == result}
    is_unchanged = all(each in equal for each in range(revision, call.revision))
    return call.revision if is_unchanged else revision


def _get_result_to_agree_on(verdict: DecisionVerdict) -> str | None:
    """Return the text for the agent on which people have to agree, as it is stored; None if there is none."""
    return to_canonical_json(verdict.result, "result") if verdict.kind in RESULT_GIVING_KINDS else None


def _require_decision_kind_allowed(session: Session, call: ToolCall, kind: DecisionKind) -> None:
    """Raise `DecisionNotAccepted` for a decision before the call runs that its framework does not accept."""
    allowed = call.list_allowed_approval_decisions()
    if kind in APPROVAL_KINDS and kind not in allowed:
        raise DecisionNotAccepted(session.session_id, call.call_id, kind.value, [each.value for each in allowed])


def _require_admin_after_deadline(store: Store, session: Session, call: ToolCall, actor: Actor) -> None:
    """Require an admin after the deadline. Hooks establish facts and have no deadline."""
    if actor.kind == ActorKind.HOOK or actor.role == Role.ADMIN or call.deadline is None:
        return
    if read_database_time(store.using) > call.deadline:
        raise DecisionExpired(session.session_id, call.call_id, call.deadline)


def _list_agreeing_people_or_refuse_actor(
    store: Store, session: Session, call: ToolCall, verdict: DecisionVerdict
) -> list[str]:
    """List the people who take the same decision about the same arguments, with the same result text.

    The person of the verdict is the last of them. A decision counts while its person may decide. A person who has
    changed the arguments cannot approve them.
    """
    if call.approvals <= 1:
        return [verdict.actor.person]
    decisions = _list_decisions_and_require_none_missing(store, session, call)
    verify_calls_against_decisions.verify_decisions(decisions)
    voters = verdict.actor.electorate(decisions)
    person = verdict.actor.person
    if verdict.kind == DecisionKind.APPROVE and person in _find_people_who_edited(decisions, voters):
        raise EditorMayNotApprove(session.session_id, call.call_id, verdict.actor.name)
    people = {
        voters[decision.pk].person
        for decision in _list_equal_open_votes(call, decisions, voters, verdict)
        if voters[decision.pk].counts
    }
    if person in people:
        raise SecondPersonRequired(session.session_id, call.call_id, verdict.actor.name)
    return [*sorted(people), person]


def _list_decisions_and_require_none_missing(store: Store, session: Session, call: ToolCall) -> list[Decision]:
    """List the decisions about a call, in their order, so that nobody can hide a withdrawal or an edit.

    Raises `IntegrityError` if a row of the session does not match, or is missing.
    """
    decisions, keys = (
        verify_calls_against_decisions.select_decisions_joined_for_signatures(store.using).filter(session=session),
        get_seal_keys(),
    )
    if keys is None:
        about_call = decisions.filter(tool_call=call, kind__in=sorted(DECIDING_KINDS))
        return list(about_call.order_by(*Decision.IN_ORDER))
    found = call_log_tampering_detection.verify_all_rows_and_list_wanted(
        decisions,
        session.pk,
        keys,
        lambda decision: decision.tool_call_id == call.pk and decision.kind in DECIDING_KINDS,
    )
    return sorted(found, key=attrgetter(*Decision.IN_ORDER))


def _find_people_who_edited(decisions: list[Decision], voters: Mapping[int, Vote]) -> set[str]:
    return {voters[decision.pk].person for decision in decisions if decision.kind == DecisionKind.EDIT}


def _list_equal_open_votes(
    call: ToolCall, decisions: list[Decision], voters: Mapping[int, Vote], verdict: DecisionVerdict
) -> list[Decision]:
    """Find the decisions equal to `verdict` that wait for others to agree."""
    result = _get_result_to_agree_on(verdict)
    return [
        decision
        for decision in list_open_votes(call.args_digest, decisions, voters)
        if decision.kind == verdict.kind and (result is None or decision.result == result)
    ]


def list_open_votes(args_digest: str, decisions: Sequence[Decision], voters: Mapping[int, Vote]) -> list[Decision]:
    """List the decisions of single people about a call that wait for others to agree, oldest first.

    Each person has one vote: a new decision replaces the earlier one, and a withdrawal ends it. A decision that moves
    the call ends all of them.

    Args:
        args_digest: Digest of the arguments of the call; decisions about other arguments are left out.
        decisions: Decisions about the call that count or move it, in their order.
        voters: Person of each decision by its primary key; a decision without one has no vote.
    """
    votes: list[Decision] = []
    for decision in decisions:
        voter = voters.get(decision.pk)
        if decision.final:
            votes = []
        elif voter is not None:
            votes = [vote for vote in votes if voters[vote.pk].person != voter.person]
            if decision.kind != DecisionKind.WITHDRAW and decision.args_digest == args_digest:
                votes.append(decision)
    return votes


def _update_call_or_raise_stale(store: Store, call: ToolCall, changes: dict[str, Any]) -> None:
    unchanged_call = ToolCall.objects.using(store.using).filter(pk=call.pk, status=call.status, revision=call.revision)
    if unchanged_call.update(revision=F("revision") + 1, **changes) != 1:
        raise StaleRevision(call.session.session_id, call.call_id, call.revision, call.revision + 1)


def _record_decision_in_audit_trail(
    store: Store, session: Session, call: ToolCall, verdict: DecisionVerdict, *, is_restoring: bool
) -> None:
    """Record a decision; `is_restoring` is whether it gives the call the arguments that the agent asked for."""
    details = {"args_restored": True} if is_restoring else {}
    insert_unchained_events.record_event(
        store,
        AuditKind.DECIDED,
        session_pk=session.pk,
        actor=verdict.actor.name,
        actor_kind=verdict.actor.kind,
        decision=verdict.kind,
        call_id=call.call_id,
        step=call.step,
        attempt=call.attempt,
        args_digest=call.args_digest,
        **verdict.actor.audit_details,
        **details,
    )


def _mark_session_ready_if_all_decided(store: Store, session: Session) -> None:
    """Set a session under review to ready after the last decision."""
    changes: dict[str, Any] = {"revision": F("revision") + 1, "updated_at": Now()}
    if (
        session.status not in FINISHED_SESSION_STATUSES
        and not unfinished_call_queries.list_verified_undecided_calls_of_session(store, session)
    ):
        changes["status"] = SessionStatus.READY
        insert_unchained_events.record_event(store, AuditKind.SESSION_READY, session_pk=session.pk, actor="gate")
    Session.objects.using(store.using).filter(pk=session.pk).update(**changes)
