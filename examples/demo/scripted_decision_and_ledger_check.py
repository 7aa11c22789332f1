"""Rehearsal of the demo without a person: make the decision, then check the session against the ledger."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, CallStatus, Role, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.models import Session, ToolCall
from checkpoints.sync_client import SyncCheckpointer
from examples.demo.demo_session_folder import DemoSession
from examples.demo.event_narration import is_waiting_for_person

#: Decision → expected number of refunds in the ledger. In this demo the first refund always landed.
EXPECTED_REFUNDS: Final = {"landed": 1, "failed": 1, "rerun": 2}
#: Decision → expected statuses of the attempts at the refund, in order.
_EXPECTED_ATTEMPTS: Final = {
    "landed": [CallStatus.COMPLETED],
    "failed": [CallStatus.FAILED],
    "rerun": [CallStatus.SUPERSEDED, CallStatus.COMPLETED],
}
_ACTOR = Actor(ActorKind.PERSON, "rehearsal", Role.APPROVER)


def decide_waiting_calls(stage: DemoSession, decision: str) -> None:
    """Apply the decision to every call that a process waits for."""
    session = stage.load_session_or_none()
    if session is None or not is_waiting_for_person(session):
        return
    for call in ToolCall.objects.filter(session=session, status=CallStatus.INTERRUPTED).order_by("pk"):
        _decide_call(session.session_id, call, decision)


def _decide_call(session_id: str, call: ToolCall, decision: str) -> None:
    checkpointer = SyncCheckpointer()
    reason = f"Played by the demo with --decide={decision}."
    call_reference: dict[str, Any] = {"revision": call.revision, "step": call.step, "attempt": call.attempt}
    if decision == "landed":
        result = "Refunded 40.00 EUR, seen in the ledger."
        checkpointer.confirm_landed(session_id, call.call_id, result, actor=_ACTOR, reason=reason, **call_reference)
    elif decision == "failed":
        checkpointer.mark_failed(session_id, call.call_id, actor=_ACTOR, reason=reason, **call_reference)
    else:
        checkpointer.approve_rerun(session_id, call.call_id, actor=_ACTOR, reason=reason, **call_reference)


def list_disagreements_with_ledger(stage: DemoSession, decision: str) -> list[str]:
    """Describe the differences between the session and the real effects; empty if they agree."""
    session = stage.load_session_or_none()
    if session is None:
        return [f"There is no session {stage.session_id}."]
    return [
        *_iterate_session_problems(session, decision),
        *_iterate_ledger_and_outbox_problems(stage, decision),
        *_iterate_transcript_result_problems(session),
    ]


def _iterate_session_problems(session: Session, decision: str) -> Iterator[str]:
    if session.status != SessionStatus.COMPLETED:
        yield f"The session is {session.status}, not completed."
        return
    refunded = parse_json(session.result or "{}").get("refunded")
    if refunded is not (decision != "failed"):
        yield f"The result of the session says refunded: {refunded}."
    attempts = ToolCall.objects.filter(session=session, tool="refund_card").order_by("attempt")
    statuses = list(attempts.values_list("status", flat=True))
    if statuses != _EXPECTED_ATTEMPTS[decision]:
        expected = [status.value for status in _EXPECTED_ATTEMPTS[decision]]
        yield f"The attempts at refund_card are {statuses}, not {expected}."


def _iterate_ledger_and_outbox_problems(stage: DemoSession, decision: str) -> Iterator[str]:
    if len(stage.refunds) != EXPECTED_REFUNDS[decision]:
        yield f"The ledger has {len(stage.refunds)} refunds, not {EXPECTED_REFUNDS[decision]}."
    if len(stage.mails) != 1:
        yield f"The outbox has {len(stage.mails)} mails, not 1."


def _iterate_transcript_result_problems(session: Session) -> Iterator[str]:
    version = SyncCheckpointer().load_latest(session.session_id) or {"transcript": []}
    blocks = [block for message in version["transcript"] for block in message["blocks"]]
    calls = Counter(block["id"] for block in blocks if block["kind"] == "tool_call")
    results = Counter(block["call_id"] for block in blocks if block["kind"] == "tool_result")
    if not calls or calls != results or set(calls.values()) != {1}:
        yield f"The transcript does not hold each call with its result once: {dict(calls)}, {dict(results)}."
