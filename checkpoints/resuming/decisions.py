"""What people decide about a call whose outcome nobody knows. One transaction for each decision.

A decision is bound to the revision the person saw. The call's row moves from `interrupted` in one conditional
update, so of two decisions at once exactly one counts and the other is told who was first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.enums import DECIDING, FINISHED_SESSION, AuditKind, CallStatus, DecisionKind, SessionStatus
from checkpoints.exceptions import (
    AlreadyDecided,
    InvalidInput,
    NotRepresentable,
    NotUndecided,
    ReasonRequired,
    StaleRevision,
)
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.resuming.actors import Actor
from checkpoints.saving import audit, calls, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical

_MOVES_TO = {
    DecisionKind.CONFIRM_LANDED: CallStatus.COMPLETED,
    DecisionKind.PROBE_LANDED: CallStatus.COMPLETED,
    DecisionKind.MARK_FAILED: CallStatus.FAILED,
    DecisionKind.PROBE_NOT_LANDED: CallStatus.FAILED,
    DecisionKind.APPROVE_RERUN: CallStatus.RERUN_APPROVED,
}
_ACTION = {
    DecisionKind.CONFIRM_LANDED: "record that this call happened",
    DecisionKind.MARK_FAILED: "mark this call as failed",
    DecisionKind.APPROVE_RERUN: "approve a re-run of this call",
}


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
    """A decision before it is checked. `result` is what the agent will see as the call's answer."""

    kind: DecisionKind
    actor: Actor
    reason: object
    result: str | None = None
    evidence: Mapping[str, Any] | str | None = None


def decide(store: Store, target: Target, verdict: Verdict) -> None:
    """Record `verdict` and move the call.

    Raises `NotPermitted`, `ReasonRequired`, `CallNotFound`, `AlreadyDecided`, `StaleRevision`, `NotUndecided`.
    Nothing is changed by a refused decision.
    """
    verdict.actor.require_deciding(_ACTION.get(verdict.kind, "decide this call"))
    reason = _reason(verdict)
    evidence = _evidence(verdict.evidence)
    result = None if verdict.result is None else canonical(verdict.result, "result")
    with operation(store.using), transaction.atomic(using=store.using):
        session = lookup.session(store, target.session_id, lock=True)
        call = lookup.latest_call(store, session, target.call_id, step=target.step, attempt=target.attempt)
        require_undecided(store, session, call, target.revision)
        _move(store, call, verdict.kind, result)
        Decision.objects.using(store.using).create(
            session=session,
            tool_call=call,
            kind=verdict.kind,
            actor_kind=verdict.actor.kind,
            actor=verdict.actor.name,
            reason=reason,
            evidence=evidence,
            result=result,
            args_digest=call.args_digest,
            revision=call.revision,
        )
        _audit(store, session, call, verdict)
        _settle_session(store, session)


def _reason(verdict: Verdict) -> str:
    if not isinstance(verdict.reason, str):
        raise ReasonRequired
    words = verdict.reason.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if not words and verdict.kind in _ACTION:
        raise ReasonRequired
    return words


def _evidence(evidence: object) -> str | None:
    if evidence is None:
        return None
    if isinstance(evidence, str):
        evidence = {"text": evidence}
    if not isinstance(evidence, Mapping):
        raise NotRepresentable("evidence", f"a {type(evidence).__name__} is neither text nor a dict")
    return canonical(dict(evidence), "evidence")


def require_undecided(store: Store, session: Session, call: ToolCall, revision: object) -> None:
    if isinstance(revision, bool) or not isinstance(revision, int):
        raise InvalidInput(f"{revision!r} is not a revision; check_pending_tool_calls names the one to decide on.")
    if call.status == CallStatus.INTERRUPTED:
        if call.revision != revision:
            raise StaleRevision(session.session_id, call.call_id, revision, call.revision)
        return
    made = (
        Decision.objects.using(store.using)
        .filter(tool_call=call, kind__in=sorted(DECIDING), revision__gte=revision)
        .order_by("pk")
        .first()
    )
    if made is None:
        raise NotUndecided(session.session_id, call.call_id, call.status)
    said = DecisionKind(made.kind).label
    raise AlreadyDecided(session.session_id, call.call_id, said, made.actor, made.created_at)


def _move(store: Store, call: ToolCall, kind: DecisionKind, result: str | None) -> None:
    to = _MOVES_TO[kind]
    changes: dict[str, Any] = {"status": to, "revision": F("revision") + 1, "verify_requested_by": ""}
    if to != CallStatus.RERUN_APPROVED:
        changes |= {
            "settled_at": Now(),
            "result": result,
            "result_digest": "" if result is None else digests.text_digest(result),
        }
    undecided = ToolCall.objects.using(store.using).filter(
        pk=call.pk, status=CallStatus.INTERRUPTED, revision=call.revision
    )
    if undecided.update(**changes) != 1:
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
