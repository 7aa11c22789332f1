"""Calls that a framework's own interrupts ask people about: logged in the review queue, and started by the framework.

The framework keeps the interrupted call from running, so these calls hold no run at the gate. Everything here is part
of a transaction that has locked the session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now

from checkpoints import call_transitions_by_agent_or_system
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import intent_log, require_unaltered_call, unfinished_call_queries
from checkpoints.db import clock
from checkpoints.enums import (
    FINISHED_SESSION_STATUSES,
    UNDECIDED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    SessionStatus,
)
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.models import Run, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.store.database_client_state import Store

#: Statuses of calls that wait for a decision, or that a person has approved and nobody has started.
_WAITING_STATUSES = UNDECIDED_CALL_STATUSES | {CallStatus.APPROVED, CallStatus.RERUN_APPROVED}


def insert_or_update_interrupt_calls(
    store: Store, row: Session, intents: Sequence[CallIntent], get_run: Callable[[], Run]
) -> None:
    """Log the calls of an interrupt that people have to decide about.

    Of those that are logged already, the ones that await a decision get the decisions that are allowed now.

    Args:
        store: State of the client.
        row: Session, locked.
        intents: Calls whose keys begin with `INTERRUPT_KEY_PREFIX`. One without a step is of the newest version.
        get_run: Function that returns the run which asks; called once if a call is new.
    """
    run: Run | None = None
    calls = _select_interrupt_calls(store, row).exclude(status=CallStatus.DISCARDED)
    known = {call.idempotency_key: call for call in calls.filter(idempotency_key__in=[each.key for each in intents])}
    for intent in intents:
        if intent.key in known:
            _update_allowed_decisions_if_undecided(calls, known[intent.key], ",".join(intent.allowed_decisions))
            continue
        step = row.latest_version if intent.step is None else intent.step
        attempts = ToolCall.objects.using(store.using).filter(session=row, step=step, call_id=intent.call_id)
        attempt = (attempts.aggregate(last=Max("attempt"))["last"] or 0) + 1
        run = run or get_run()
        intent_log.insert_call_and_request_approval(store, row, run, intent, step, attempt)


def _update_allowed_decisions_if_undecided(calls: QuerySet[ToolCall], call: ToolCall, allowed: str) -> None:
    if call.status == call_transitions_by_agent_or_system.WITHDRAW.before and call.allowed_decisions != allowed:
        calls.filter(pk=call.pk).update(allowed_decisions=allowed, revision=F("revision") + 1)


def find_newest_run_if_interrupt_is_undecided(store: Store, row: Session) -> Run | None:
    """Find the newest run of a locked session, if a call of an interrupt awaits a decision in it."""
    call = (
        _select_interrupt_calls(store, row)
        .filter(status=call_transitions_by_agent_or_system.WITHDRAW.before, run__fence=row.fence)
        .last()
    )
    return None if call is None else call.run


def load_interrupt_calls_by_key(store: Store, row: Session, keys: Collection[str]) -> dict[str, ToolCall]:
    """Return the newest call of each key, with what people have decided about it. Raises `IntegrityError`."""
    calls = {
        call.idempotency_key: call for call in _select_interrupt_calls(store, row).filter(idempotency_key__in=keys)
    }
    for call in calls.values():
        require_unaltered_call.require_call_unaltered(call)
    return calls


def discard_undecided_interrupt_calls(
    store: Store,
    row: Session,
    *,
    key_prefixes: Collection[str] | None = None,
    call_ids: Collection[str] | None = None,
    kept_key_prefixes: Collection[str] = (),
) -> int:
    """Discard the calls that still await a decision, because the framework continues without it.

    Args:
        store: State of the client.
        row: Session, locked.
        key_prefixes: Beginnings of their keys. None: any.
        call_ids: Identifiers of the calls. None: any.
        kept_key_prefixes: Beginnings of the keys of calls that stay.

    Returns:
        The number of discarded calls.
    """
    awaiting = _select_interrupt_calls(store, row).filter(status=call_transitions_by_agent_or_system.WITHDRAW.before)
    calls = [
        call
        for call in awaiting
        if (key_prefixes is None or call.idempotency_key.startswith(tuple(key_prefixes)))
        and (call_ids is None or call.call_id in call_ids)
        and not call.idempotency_key.startswith(tuple(kept_key_prefixes))
    ]
    for call in calls:
        awaiting.filter(pk=call.pk).update(
            status=call_transitions_by_agent_or_system.WITHDRAW.after, settled_at=Now(), revision=F("revision") + 1
        )
        insert_unchained_events.record_event(
            store,
            AuditKind.CALL_DISCARDED,
            session_pk=row.pk,
            actor=f"run {call.run.number}",
            call_id=call.call_id,
            tool=call.tool,
        )
    if (
        calls
        and row.status not in FINISHED_SESSION_STATUSES
        and not unfinished_call_queries.list_verified_undecided_calls_of_session(store, row)
    ):
        Session.objects.using(store.using).filter(pk=row.pk).update(
            status=SessionStatus.ACTIVE, revision=F("revision") + 1, updated_at=Now()
        )
    return len(calls)


def activate_session_if_no_approval_unused(store: Store, row: Session) -> None:
    """Set a session to active whose framework has continued as people decided.

    The session stays ready to resume while a call waits for a decision, or an approved call for its start. Else the
    decisions are used, as if a run had passed the gate.

    Args:
        store: State of the client.
        row: Session, locked, whose change number the transaction has raised.

    Raises:
        IntegrityError: A call is not one that this library wrote.
    """
    waiting = unfinished_call_queries.list_verified_calls_of_session_with_status(store, row, _WAITING_STATUSES)
    if all(call.status == CallStatus.APPROVED and is_interrupt_about_no_tool_call(call) for call in waiting):
        # A time that is sealed is read before, so that it is compared with what the database stores.
        opened_at = Now() if get_seal_keys() is None else clock.read_database_time(store.using)
        Session.objects.using(store.using).filter(pk=row.pk).update(
            status=SessionStatus.ACTIVE, gate_opened_at=opened_at
        )


def is_interrupt_about_no_tool_call(call: ToolCall) -> bool:
    """Return whether a call is one of an interrupt that is about no call of the transcript, so that neither the guard
    nor a result will say that it is made. Its identifier is the beginning of its key."""
    return call.idempotency_key.startswith(f"{INTERRUPT_KEY_PREFIX}{call.call_id}")


def complete_approved_interrupt_calls(store: Store, call_pks: Iterable[int], results: Mapping[str, str]) -> None:
    """Store the results of approved calls that the framework made without the guard, from its transcript.

    Args:
        store: State of the client.
        call_pks: Rows of calls that the transcript answers.
        results: Text of each result by call id.
    """
    approved = ToolCall.objects.using(store.using).filter(
        pk__in=call_pks,
        status=call_transitions_by_agent_or_system.REPORT.before,
        idempotency_key__startswith=INTERRUPT_KEY_PREFIX,
    )
    for call in approved:
        result = to_canonical_json(results.get(call.call_id, ""), "result")
        approved.filter(pk=call.pk).update(
            status=call_transitions_by_agent_or_system.REPORT.after,
            result=result,
            result_digest=digests.digest_text(result),
            exit_code=find_exit_code(call.tool, result),
            settled_at=Now(),
            revision=F("revision") + 1,
        )


def _select_interrupt_calls(store: Store, row: Session) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.using(store.using).filter(session=row, idempotency_key__startswith=INTERRUPT_KEY_PREFIX)
    return calls.select_related("run", "session").order_by("pk")
