"""What people decide about a call: what became of it, or whether it may run at all. One transaction for each decision.

A decision is bound to the revision the person saw. The call's row moves in one conditional update, so of two
decisions at once exactly one counts and the other is told who was first. Where a tool needs several people, each says
so in a decision of their own, and the last of them moves the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.clock import database_now
from checkpoints.enums import (
    DECIDING,
    FINISHED_SESSION,
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
    EditorMayNotApprove,
    InvalidInput,
    NotRepresentable,
    NotUndecided,
    ReasonRequired,
    SecondPersonRequired,
    SessionFinished,
    StaleRevision,
)
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.resuming import ownership
from checkpoints.resuming.actors import Actor, as_actor
from checkpoints.resuming.electorate import Voice
from checkpoints.saving import audit, calls, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical


@dataclass(frozen=True)
class Rule:
    """From which status a decision moves a call to which, what it is called, and how many have to agree.

    `by_one` decisions are on the safe side: nothing runs because of them, so one person is enough. What is decided for
    the agent to act on (`goes_on`) has no sense in a session that has ended.
    """

    before: CallStatus
    after: CallStatus
    action: str
    by_one: bool = False
    goes_on: bool = False


RULES = {
    DecisionKind.CONFIRM_LANDED: Rule(CallStatus.INTERRUPTED, CallStatus.COMPLETED, "record that this call happened"),
    DecisionKind.MARK_FAILED: Rule(CallStatus.INTERRUPTED, CallStatus.FAILED, "mark this call as failed"),
    DecisionKind.APPROVE_RERUN: Rule(
        CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED, "approve a re-run of this call", goes_on=True
    ),
    DecisionKind.PROBE_LANDED: Rule(CallStatus.INTERRUPTED, CallStatus.COMPLETED, "settle this call", by_one=True),
    DecisionKind.PROBE_NOT_LANDED: Rule(CallStatus.INTERRUPTED, CallStatus.FAILED, "settle this call", by_one=True),
    DecisionKind.APPROVE: Rule(CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, "approve this call", goes_on=True),
    DecisionKind.EDIT: Rule(
        CallStatus.AWAITING_APPROVAL,
        CallStatus.AWAITING_APPROVAL,
        "change the arguments of this call",
        by_one=True,
        goes_on=True,
    ),
    DecisionKind.REJECT: Rule(CallStatus.AWAITING_APPROVAL, CallStatus.REJECTED, "reject this call", by_one=True),
    DecisionKind.RESPOND: Rule(
        CallStatus.AWAITING_APPROVAL, CallStatus.COMPLETED, "answer in place of this call", goes_on=True
    ),
}
#: Where people have to agree on the text that the agent gets, too.
_STATING = frozenset({DecisionKind.CONFIRM_LANDED, DecisionKind.RESPOND})
#: Decisions whose text for the agent is reason enough.
_SELF_EXPLAINING = frozenset({DecisionKind.REJECT, DecisionKind.RESPOND})
_SETTLING = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED})


@dataclass(frozen=True)
class Target:
    """Which call is decided, and the revision of it that the actor saw."""

    session_id: str
    call_id: str
    revision: int
    step: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Verdict:
    """A decision before it is checked. `result` is what the agent will see as the call's answer; `args` are the
    changed arguments of an edit."""

    kind: DecisionKind
    actor: Actor
    reason: object
    result: object = None
    evidence: object = None
    args: object = None


def decide(
    store: Store,
    target: Target,
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
        StaleRevision: The call has changed since `target.revision`.
        NotUndecided: The call does not wait for this kind of decision.
        DecisionExpired: Its deadline has passed, and `actor` is no admin.
        SecondPersonRequired: `actor` has decided so already, and another person has to agree.
        EditorMayNotApprove: `actor` has changed the arguments, and several people have to approve them.
        SessionFinished: The session has ended, and the decision is one the agent would act on.
        NotRepresentable: A value has no exact JSON form.
        InvalidInput: An argument cannot be used as such.
    """
    if kind == DecisionKind.MARK_FAILED:
        result = f"This call did not happen. {reason}"
    elif kind in _SELF_EXPLAINING:
        reason = reason or result
    _decide(store, target, Verdict(kind, as_actor(actor), reason, result, evidence, new_args))


def _decide(store: Store, target: Target, verdict: Verdict) -> None:
    rule = RULES[verdict.kind]
    verdict.actor.require_deciding(rule.action)
    reason = _reason(verdict)
    evidence = _evidence(verdict.evidence)
    changes = _changes(verdict, rule)
    with operation(store.using), transaction.atomic(using=store.using):
        session = lookup.session(store, target.session_id, lock=True)
        seen = lookup.latest_call(store, session, target.call_id, step=target.step, attempt=target.attempt)
        call = ownership.interrupt_if_lost(store, session, seen)
        require_undecided(store, session, call, _revision_meant(store, target, seen, call), rule.before)
        if rule.goes_on and session.finished:
            raise SessionFinished(session.session_id, session.status)
        _require_in_time(store, session, call, verdict.actor)
        final = rule.by_one or _enough_agree(store, session, call, verdict)
        if verdict.kind == DecisionKind.EDIT:
            evidence = canonical({"args_before": call.args, **_as_dict(verdict.evidence)}, "evidence")
            changes["asked_args_digest"] = call.asked_args_digest or call.args_digest
        _move(store, call, changes if final else {})
        Decision.objects.using(store.using).create(
            session=session,
            tool_call=call,
            kind=verdict.kind,
            actor_kind=verdict.actor.kind,
            actor=verdict.actor.name,
            reason=reason,
            evidence=evidence,
            result=None if verdict.result is None else canonical(verdict.result, "result"),
            final=final,
            args_digest=changes.get("args_digest", call.args_digest),
            revision=call.revision,
        )
        _audit(store, session, call, verdict)
        _settle_session(store, session)


def _reason(verdict: Verdict) -> str:
    if not isinstance(verdict.reason, str):
        raise ReasonRequired
    words = verdict.reason.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if not words and verdict.actor.kind in {ActorKind.PERSON, ActorKind.TOKEN}:
        raise ReasonRequired
    return words


def _evidence(evidence: object) -> str | None:
    return None if evidence is None else canonical(_as_dict(evidence), "evidence")


def _as_dict(evidence: object) -> dict[str, Any]:
    if evidence is None:
        return {}
    if isinstance(evidence, str):
        return {"text": evidence}
    if not isinstance(evidence, Mapping):
        raise NotRepresentable("evidence", f"a {type(evidence).__name__} is neither text nor a dict")
    return dict(evidence)


def _changes(verdict: Verdict, rule: Rule) -> dict[str, Any]:
    """What a final decision writes on the call."""
    changes: dict[str, Any] = {"status": rule.after, "verify_requested_by": ""}
    if rule.after in _SETTLING:
        if not isinstance(verdict.result, str):
            raise InvalidInput("The result has to be text: it is what the agent sees as the call's answer.")
        result = canonical(verdict.result, "result")
        changes |= {"settled_at": Now(), "result": result, "result_digest": digests.text_digest(result)}
    if verdict.kind == DecisionKind.EDIT:
        if not isinstance(verdict.args, dict):
            raise InvalidInput("The changed arguments have to be a dict; json.loads makes one of JSON text.")
        args = canonical(verdict.args, "args")
        changes |= {"args": args, "args_digest": digests.text_digest(args), "sentence": ""}
    return changes


def require_undecided(
    store: Store, session: Session, call: ToolCall, revision: object, status: CallStatus = CallStatus.INTERRUPTED
) -> None:
    """Raises `AlreadyDecided`, `StaleRevision` or `NotUndecided`, whichever is true of a call that is not in `status`
    at `revision`."""
    if isinstance(revision, bool) or not isinstance(revision, int):
        raise InvalidInput(f"{revision!r} is not a revision; check_pending_tool_calls names the one to decide on.")
    if call.status == status:
        if call.revision != revision:
            raise StaleRevision(session.session_id, call.call_id, revision, call.revision)
        return
    made = (
        Decision.objects.using(store.using)
        .filter(tool_call=call, kind__in=sorted(DECIDING), final=True, revision__gte=revision)
        .order_by("pk")
        .first()
    )
    if made is None:
        raise NotUndecided(session.session_id, call.call_id, call.status)
    said = DecisionKind(made.kind).label
    raise AlreadyDecided(session.session_id, call.call_id, said, made.actor, made.created_at)


def _revision_meant(store: Store, target: Target, seen: ToolCall, call: ToolCall) -> int:
    """The revision of `call` that a decision is bound to, which the actor may have made on the call as its run left it:
    that the run was then declared lost, in this transaction or before it, tells nobody anything new about the call.
    Raises `StaleRevision`."""
    if type(target.revision) is not int:
        return target.revision
    if call is not seen:
        if target.revision != seen.revision:
            raise StaleRevision(target.session_id, target.call_id, target.revision, seen.revision)
        return call.revision
    lost = (call.status, call.reason) == (CallStatus.INTERRUPTED, InterruptReason.RUN_LOST)
    if not lost or target.revision != call.revision - 1:
        return target.revision
    voices = Decision.objects.using(store.using).filter(tool_call=call, kind__in=sorted(DECIDING))
    return target.revision if voices.filter(revision=target.revision).exists() else call.revision


def _require_in_time(store: Store, session: Session, call: ToolCall, actor: Actor) -> None:
    """After the deadline only an admin may decide. Hooks find out facts, for which it is never too late."""
    if actor.kind == ActorKind.HOOK or actor.role == Role.ADMIN or call.deadline is None:
        return
    if database_now(store.using) > call.deadline:
        raise DecisionExpired(session.session_id, call.call_id, call.deadline)


def _enough_agree(store: Store, session: Session, call: ToolCall, verdict: Verdict) -> bool:
    """Whether this is the last of the people who have to say the same about the same arguments: for what the agent
    gets to read, in the same words.

    A voice counts while its person may decide. Who has changed the arguments is not one of those who approve them.
    """
    if call.approvals <= 1:
        return True
    decided = Decision.objects.using(store.using).filter(tool_call=call, kind__in=sorted(DECIDING)).order_by("pk")
    decisions = list(decided)
    voices = verdict.actor.electorate(decisions)
    person = verdict.actor.person
    if verdict.kind == DecisionKind.APPROVE and person in _editors(decisions, voices):
        raise EditorMayNotApprove(session.session_id, call.call_id, verdict.actor.name)
    people = {voices[made.pk].person for made in _same(call, decisions, verdict) if voices[made.pk].counts}
    if person in people:
        raise SecondPersonRequired(session.session_id, call.call_id, verdict.actor.name)
    return len(people) + 1 >= call.approvals


def _editors(decisions: list[Decision], voices: Mapping[int, Voice]) -> set[str]:
    return {voices[made.pk].person for made in decisions if made.kind == DecisionKind.EDIT}


def _same(call: ToolCall, decisions: list[Decision], verdict: Verdict) -> list[Decision]:
    """What was decided as `verdict` decides, since the last decision that moved the call."""
    last_final = max((made.pk for made in decisions if made.final), default=0)
    result = canonical(verdict.result, "result") if verdict.kind in _STATING else None
    return [
        made
        for made in decisions
        if made.pk > last_final
        and (made.kind, made.args_digest) == (verdict.kind, call.args_digest)
        and (result is None or made.result == result)
    ]


def _move(store: Store, call: ToolCall, changes: dict[str, Any]) -> None:
    undecided = ToolCall.objects.using(store.using).filter(pk=call.pk, status=call.status, revision=call.revision)
    if undecided.update(revision=F("revision") + 1, **changes) != 1:
        raise StaleRevision(call.session.session_id, call.call_id, call.revision, call.revision + 1)


def _audit(store: Store, session: Session, call: ToolCall, verdict: Verdict) -> None:
    audit.record(
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
    )


def _settle_session(store: Store, session: Session) -> None:
    """The last decision opens the gate: a session under review becomes ready."""
    changes: dict[str, Any] = {"revision": F("revision") + 1, "updated_at": Now()}
    if session.status not in FINISHED_SESSION and not calls.undecided(store, session):
        changes["status"] = SessionStatus.READY
        audit.record(store, AuditKind.SESSION_READY, session_pk=session.pk, actor="gate")
    Session.objects.using(store.using).filter(pk=session.pk).update(**changes)
