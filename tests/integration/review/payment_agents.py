"""A payment that awaits approval, and form data for decisions about it."""

from typing import Any

from checkpoints.enums import CallStatus, RunStatus, SessionStatus
from checkpoints.models import ToolCall
from tests.support.factories import make_call, make_run, make_session

APPROVE = {"kind": "approve", "reason": "The contract says so.", "revision": 1}
REJECT = {"kind": "reject", "message": "Ask the supplier first.", "revision": 1}
RESPOND = {"kind": "respond", "answer": "I paid it by hand.", "revision": 1}


def awaiting(**fields: Any) -> ToolCall:
    """Create a payment of run 1 that awaits approval."""
    session = make_session(session_id="inv/17", agent="accounts", status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session, status=RunStatus.WAITING)
    fields = {"tool": "pay", "args": {"amount": "40.00", "order": 17}, "status": CallStatus.AWAITING_APPROVAL, **fields}
    return make_call(session=session, **fields)


def url(call: ToolCall) -> str:
    return f"/review/calls/{call.pk}/"
