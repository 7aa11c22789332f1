"""Interface to the log of tool calls for loops that do not use the registry."""

from __future__ import annotations

from checkpoints.calls import call_queries, issue_call, settle_call
from checkpoints.db.errors import database_operation
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.exceptions import (
    CallAlreadySettled,
    CallInProgress,
    InvalidInput,
)
from checkpoints.formats.canonical import to_canonical_json
from checkpoints.store import row_lookups
from checkpoints.store.call_records import CallIntent, CallOutcome, IssuedCall
from checkpoints.store.store import Store


def record_issued_call(store: Store, session_id: str, intent: CallIntent) -> None:
    """Log an intent, or raise the error that forbids it."""
    with database_operation(store.using):
        owned_session = row_lookups.get_owned_session(store, session_id)
        call = issue_call.issue_call(store, owned_session, intent)
        if isinstance(call, IssuedCall):
            owned_session.issued_calls[intent.call_id] = call
            return
        if call.status == CallStatus.ISSUED:
            raise CallInProgress(call.session.session_id, call.call_id, call.tool)
        if call.status in UNDECIDED_CALL_STATUSES:
            raise call_queries.build_review_required(store, session_id, [call])
        raise CallAlreadySettled(session_id, call.call_id, call.status)


def record_call_result(
    store: Store, session_id: str, call_id: str, result: str, success: bool, *, step: int | None = None
) -> None:
    """Write the result of an issued call. Raises `CallNotFound`, `LateResultRefused`."""
    if not isinstance(result, str):
        raise InvalidInput(f"The result of {call_id!r} is a {type(result).__name__}, not text.")
    outcome = CallOutcome(CallStatus.COMPLETED if success else CallStatus.FAILED, to_canonical_json(result, "result"))
    owned_session = store.find_owned(session_id)
    with database_operation(store.using):
        issued_call = (
            None if owned_session is None or step is not None else owned_session.issued_calls.pop(call_id, None)
        )
        if owned_session is not None and issued_call is not None:
            settle_call.settle_call(store, owned_session, issued_call, outcome)
            return
        row = row_lookups.get_session(store, session_id)
        call = row_lookups.get_latest_attempt(store, row, call_id, step=step)
        if owned_session is None:
            raise settle_call.keep_late_result(store, session_id, call.pk, None, outcome)
        settle_call.settle_call(
            store, owned_session, IssuedCall(call.pk, call.call_id, call.step, call.attempt), outcome
        )
