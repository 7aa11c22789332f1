"""The interface of the log of tool calls for loops that do not use the registry."""

from __future__ import annotations

from checkpoints.enums import (
    UNDECIDED_CALL,
    CallStatus,
)
from checkpoints.exceptions import (
    CallAlreadySettled,
    CallInProgress,
    InvalidInput,
)
from checkpoints.saving import calls, issuing, lookup, settling
from checkpoints.saving.intents import Intent, Issued, Outcome
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import canonical


def record_issued(store: Store, session_id: str, wanted: Intent) -> None:
    """Log an intent, or say why it cannot be."""
    with operation(store.using):
        held = lookup.owned(store, session_id)
        found = issuing.issue(store, held, wanted)
        if isinstance(found, Issued):
            held.issued_calls[wanted.call_id] = found
            return
        if found.status == CallStatus.ISSUED:
            raise CallInProgress(found.session.session_id, found.call_id, found.tool)
        if found.status in UNDECIDED_CALL:
            raise calls.review_required(store, session_id, [found])
        raise CallAlreadySettled(session_id, found.call_id, found.status)


def record_result(
    store: Store, session_id: str, call_id: str, result: str, success: bool, *, step: int | None = None
) -> None:
    """Write the result of an issued call. Raises `CallNotFound`, `LateResultRefused`."""
    if not isinstance(result, str):
        raise InvalidInput(f"The result of {call_id!r} is a {type(result).__name__}, not text.")
    outcome = Outcome(CallStatus.COMPLETED if success else CallStatus.FAILED, canonical(result, "result"))
    held = store.holds(session_id)
    with operation(store.using):
        issued = None if held is None or step is not None else held.issued_calls.pop(call_id, None)
        if held is not None and issued is not None:
            settling.settle(store, held, issued, outcome)
            return
        row = lookup.session(store, session_id)
        call = lookup.latest_call(store, row, call_id, step=step)
        if held is None:
            raise settling.keep_late(store, session_id, call.pk, None, outcome)
        settling.settle(store, held, Issued(call.pk, call.call_id, call.step, call.attempt), outcome)
