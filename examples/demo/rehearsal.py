"""The story without a person: the decision is made here, and afterwards everything is held against the ledger."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from checkpoints.client import SyncCheckpointer
from checkpoints.enums import ActorKind, CallStatus, Role, SessionStatus
from checkpoints.models import Session, ToolCall
from checkpoints.resuming.actors import Actor
from checkpoints.serde import parse
from examples.demo.stages import Stage
from examples.demo.story import waits_for_a_person

#: Decision → how many refunds it leaves in the ledger. In this story the first one did land, whatever is decided.
REFUNDS: Final = {"landed": 1, "failed": 1, "rerun": 2}
#: Decision → what becomes of the attempts at the refund, in order.
_ATTEMPTS: Final = {
    "landed": [CallStatus.COMPLETED],
    "failed": [CallStatus.FAILED],
    "rerun": [CallStatus.SUPERSEDED, CallStatus.COMPLETED],
}
_ACTOR = Actor(ActorKind.PERSON, "rehearsal", Role.APPROVER)


def decide(stage: Stage, decision: str) -> None:
    """Make the decision on every call that a process waits for."""
    session = stage.session()
    if session is None or not waits_for_a_person(session):
        return
    for call in ToolCall.objects.filter(session=session, status=CallStatus.INTERRUPTED).order_by("pk"):
        _decide(session.session_id, call, decision)


def _decide(session_id: str, call: ToolCall, decision: str) -> None:
    checkpointer = SyncCheckpointer()
    why = f"Played by the demo with --decide={decision}."
    which: dict[str, Any] = {"revision": call.revision, "step": call.step, "attempt": call.attempt}
    if decision == "landed":
        seen = "Refunded 40.00 EUR, seen in the ledger."
        checkpointer.confirm_landed(session_id, call.call_id, seen, actor=_ACTOR, reason=why, **which)
    elif decision == "failed":
        checkpointer.mark_failed(session_id, call.call_id, actor=_ACTOR, reason=why, **which)
    else:
        checkpointer.approve_rerun(session_id, call.call_id, actor=_ACTOR, reason=why, **which)


def disagreements(stage: Stage, decision: str) -> list[str]:
    """Where the session does not say what the world says, in sentences; empty where all agree."""
    session = stage.session()
    if session is None:
        return [f"There is no session {stage.session_id}."]
    return [*_of_session(session, decision), *_of_world(stage, decision), *_of_transcript(session)]


def _of_session(session: Session, decision: str) -> Iterator[str]:
    if session.status != SessionStatus.COMPLETED:
        yield f"The session is {session.status}, not completed."
        return
    refunded = parse(session.result or "{}").get("refunded")
    if refunded is not (decision != "failed"):
        yield f"The result of the session says refunded: {refunded}."
    attempts = ToolCall.objects.filter(session=session, tool="refund_card").order_by("attempt")
    found = list(attempts.values_list("status", flat=True))
    if found != _ATTEMPTS[decision]:
        yield f"The attempts at refund_card are {found}, not {[status.value for status in _ATTEMPTS[decision]]}."


def _of_world(stage: Stage, decision: str) -> Iterator[str]:
    if len(stage.refunds) != REFUNDS[decision]:
        yield f"The ledger has {len(stage.refunds)} refunds, not {REFUNDS[decision]}."
    if len(stage.mails) != 1:
        yield f"The outbox has {len(stage.mails)} mails, not 1."


def _of_transcript(session: Session) -> Iterator[str]:
    latest = SyncCheckpointer().load_latest(session.session_id) or {"transcript": []}
    blocks = [block for message in latest["transcript"] for block in message["blocks"]]
    calls = Counter(block["id"] for block in blocks if block["kind"] == "tool_call")
    results = Counter(block["call_id"] for block in blocks if block["kind"] == "tool_result")
    if not calls or calls != results or set(calls.values()) != {1}:
        yield f"The transcript does not hold each call with its result once: {dict(calls)}, {dict(results)}."
