"""Decisions of people about the interrupts of a framework, and interrupts that it continues without a decision."""

from __future__ import annotations

from collections.abc import Collection

from checkpoints.calls import call_queries, interrupt_requests, signed_decisions
from checkpoints.db.operation_context import database_operation
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import SessionNotFound
from checkpoints.framework_states import state_store
from checkpoints.models import ToolCall
from checkpoints.store import row_lookups
from checkpoints.store.store import Store


def withdraw_requests(
    store: Store, session_id: str, *, keys: Collection[str] | None = None, call_ids: Collection[str] | None = None
) -> bool:
    """Discard the calls of interrupts that await a decision and that the framework continues without.

    Arguments and errors are those of `interrupt_requests.withdraw_requests` and `state_store.save_state`. Returns
    whether there were any.
    """
    try:
        with state_store.lock_session(store, session_id, None) as (row, _):
            return bool(interrupt_requests.withdraw_requests(store, row, keys=keys, call_ids=call_ids))
    except SessionNotFound:
        return False


def find_decisions(
    store: Store, session_id: str, keys: Collection[str]
) -> dict[str, tuple[ToolCall, DecisionKind]] | None:
    """Find what people have decided about the calls of interrupts.

    Returns:
        The calls and the decisions by key; None while a person has to decide about any call of the session.

    Raises:
        IntegrityError: A call or a decision is not one that this library wrote.
        CheckpointCorrupted: The arguments or the result of a call do not match their digests.
    """
    with database_operation(store.using, writes=False):
        row = row_lookups.get_session(store, session_id)
        if call_queries.list_undecided_calls(store, row):
            return None
        calls = interrupt_requests.list_requests(store, row, keys)
        kinds = (DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND)
        decisions = signed_decisions.select_decisions(store.using).filter(
            tool_call__in=calls.values(), kind__in=kinds, final=True
        )
        signed_decisions.verify_decisions(decisions)
        found = {decision.tool_call_id: DecisionKind(decision.kind) for decision in decisions.order_by("pk")}
    return {key: (call, found[call.pk]) for key, call in calls.items() if call.pk in found}
