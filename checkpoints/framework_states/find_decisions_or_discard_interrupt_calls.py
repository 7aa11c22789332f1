"""Decisions of people about the interrupts of a framework, and interrupts that it continues without a decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from checkpoints.calls import framework_interrupt_calls, unfinished_call_queries, verify_calls_against_decisions
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import DecisionKind, SessionStatus
from checkpoints.exceptions import SessionNotFound
from checkpoints.framework_states import state_store
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions.framework_value_blobs import EncodedValue


def discard_all_undecided_calls(store: Store, session_id: str) -> None:
    """Discard the calls of interrupts that await a decision. Raises what `save_state_and_transcript_version` raises."""
    with suppress(SessionNotFound), state_store.lock_or_create_session(store, session_id, None) as (row, _):
        framework_interrupt_calls.discard_undecided_interrupt_calls(store, row)


def discard_undecided_calls_of_task(
    store: Store,
    row: Session,
    task_key: tuple[str, str, str],
    position: int,
    list_interrupt_keys: Callable[[Sequence[EncodedValue]], Collection[str]],
) -> None:
    """Discard the calls of interrupts that await a decision, and that a task has asked about.

    Args:
        store: State of the client.
        row: Session, locked.
        task_key: Namespace, identifier of the state, and identifier of the task.
        position: Position at which tasks write their interrupts.
        list_interrupt_keys: Function that lists the beginnings of the keys of the calls that such writes ask about.

    Raises what `state_store.save_state_and_transcript_version` raises.
    """
    value = state_store.load_value_of_task_write(store, row, *task_key, position)
    keys = [] if value is None else list_interrupt_keys([value])
    if keys:
        framework_interrupt_calls.discard_undecided_interrupt_calls(store, row, key_prefixes=keys)


def discard_interrupts_before_state_or_activate_session(
    store: Store,
    row: Session,
    state_id: str,
    channel: str,
    list_interrupt_keys: Callable[[Sequence[EncodedValue]], Collection[str]],
) -> None:
    """Discard the calls of interrupts that await a decision, and that no task of a state or a later one waits for.

    A session about whose calls people have decided is active again if no such task waits at all: the framework has
    continued with the decisions.

    Args:
        store: State of the client.
        row: Session, locked, whose change number the transaction has raised.
        state_id: Identifier of the state.
        channel: Channel to which tasks write their interrupts.
        list_interrupt_keys: Function that lists the beginnings of the keys of the calls that such writes ask about.

    Raises what `state_store.save_state_and_transcript_version` raises.
    """
    values = state_store.load_values_of_channel_writes_since_state(store, row, channel, state_id)
    if row.status == SessionStatus.NEEDS_REVIEW:
        kept = list_interrupt_keys(values)
        framework_interrupt_calls.discard_undecided_interrupt_calls(store, row, kept_key_prefixes=kept)
    elif not values:
        framework_interrupt_calls.activate_session_if_no_approval_unused(store, row)


def discard_undecided_calls_by_call_id(store: Store, session_id: str, call_ids: Collection[str]) -> bool:
    """Discard the calls of interrupts with these identifiers that await a decision.

    Returns whether there were any, or another thread has discarded them since the caller saw them. Errors are those
    of `state_store.save_state_and_transcript_version`.
    """
    with state_store.lock_or_create_session(store, session_id, None) as (row, _):
        if framework_interrupt_calls.discard_undecided_interrupt_calls(store, row, call_ids=call_ids):
            return True
        undecided = unfinished_call_queries.list_verified_undecided_calls_of_session(store, row)
        return bool(call_ids) and not any(call.call_id in call_ids for call in undecided)


def find_decisions_if_all_decided(
    store: Store, session_id: str, keys: Collection[str]
) -> dict[str, tuple[ToolCall, DecisionKind]] | None:
    """Find what people have decided about the calls of interrupts.

    Returns:
        The calls and the decisions by key; None while a person has to decide about any call of the session.

    Raises:
        IntegrityError: A call or a decision is not one that this library wrote.
    """
    with database_operation(store.using, writes=False):
        row = look_up_and_lock_rows.get_session(store, session_id)
        if unfinished_call_queries.list_verified_undecided_calls_of_session(store, row):
            return None
        calls = framework_interrupt_calls.load_interrupt_calls_by_key(store, row, keys)
        kinds = (DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND)
        decisions = verify_calls_against_decisions.select_decisions_joined_for_signatures(store.using).filter(
            tool_call__in=calls.values(), kind__in=kinds, final=True
        )
        verify_calls_against_decisions.verify_decisions(decisions)
        found = {
            decision.tool_call_id: DecisionKind(decision.kind) for decision in decisions.order_by(*Decision.IN_ORDER)
        }
    return {key: (call, found[call.pk]) for key, call in calls.items() if call.pk in found}
