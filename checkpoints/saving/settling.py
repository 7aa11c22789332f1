"""Outcomes of tool calls: written once, by the run that issued the call, or kept as late evidence."""

from __future__ import annotations

from django.db import transaction

from checkpoints.enums import (
    SETTLED_CALL,
    AuditKind,
    CallStatus,
    InterruptReason,
)
from checkpoints.exceptions import (
    LateResultRefused,
    SessionNotFound,
    StorageUnavailable,
)
from checkpoints.models import LateResult, ToolCall
from checkpoints.saving import audit, calls, lookup, revisions, statements, transitions
from checkpoints.saving.intents import Issued, Outcome
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.store import Held, Store
from checkpoints.serde import digests


def settle(store: Store, held: Held, call: Issued, outcome: Outcome) -> None:
    """Write the outcome of a call that this run issued.

    Raises `LateResultRefused` where the call or the session is no longer this run's; the result is then kept as
    late evidence. Raises `SessionNotFound` where the session was deleted.
    """
    values = {
        "status": outcome.status,
        "result": outcome.result,
        "result_digest": "" if outcome.result is None else digests.text_digest(outcome.result),
        "error_type": outcome.error_type[:200],
        "reason": outcome.reason,
    }
    try:
        with operation(store.using) as connection:
            settled = statements.settle(connection, held.pk, held.fence, call.pk, held.run_id, values)
            if not settled:
                raise keep_late(store, held.session_id, call.pk, held, outcome)
    except StorageUnavailable as error:
        _read_back_outcome(store, held, call, outcome, error)
    store.issued.discard(call.pk)
    if outcome.status in SETTLED_CALL:
        held.operations.settled(call.pk)


def _read_back_outcome(store: Store, held: Held, call: Issued, outcome: Outcome, error: StorageUnavailable) -> None:
    """After a commit whose answer was lost: only this run may settle the call, so its outcome there is this one."""
    with reading_back(store.using, error):
        lookup.session(store, held.session_id, lock=True)
        row = calls.get(store, held.session_id, call.pk)
    if (row.status, row.result) != (outcome.status, outcome.result):
        raise StorageUnavailable(error.what, may_have_happened=False) from error


def keep_late(store: Store, session_id: str, call_pk: int, held: Held | None, outcome: Outcome) -> LateResultRefused:
    """Keep a result that cannot count as evidence. Returns what to raise; raises `SessionNotFound`."""
    with transaction.atomic(using=store.using):
        session = lookup.session(store, session_id, lock=True)
        call = ToolCall.objects.using(store.using).select_for_update().filter(pk=call_pk).first()
        if call is None:
            raise SessionNotFound(session_id)
        LateResult.objects.using(store.using).create(
            session=session,
            tool_call=call,
            run_id=held.run_id if held else None,
            success=outcome.status == CallStatus.COMPLETED,
            result=outcome.result,
        )
        revisions.touch(store, session.pk)
        audit.record(
            store,
            AuditKind.LATE_RESULT,
            session_pk=session.pk,
            actor=f"run {held.run.number}" if held else "unknown run",
            call_id=call.call_id,
            step=call.step,
            attempt=call.attempt,
            status=call.status,
        )
    return LateResultRefused(session.session_id, call.call_id, call.status)


def interrupt_abandoned(store: Store, held: Held, *, running_too: bool = False) -> None:
    """Interrupt the calls that this run has issued and that nothing in this process executes any more.

    With `running_too`, those it executes as well: their results will come too late.
    """
    with operation(store.using):
        mine = ToolCall.objects.using(store.using).filter(
            session_id=held.pk, run_id=held.run_id, status=CallStatus.ISSUED
        )
        for call in list(mine):
            if running_too or call.pk not in store.executing:
                interrupt(store, held, call)


def interrupt(store: Store, held: Held, call: ToolCall) -> None:
    """Nobody will report how this call of this run ended: say so."""
    reason = InterruptReason.ABANDONED if call.mutates else ""
    values = {"status": transitions.lost(mutates=call.mutates).after, "reason": reason}
    with operation(store.using) as connection:
        statements.settle(connection, held.pk, held.fence, call.pk, held.run_id, values)
