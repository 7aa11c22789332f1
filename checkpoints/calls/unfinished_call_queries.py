"""Queries for unfinished calls: issued (running, or left by a run that died), interrupted, or awaiting approval.

A call that is approved and has not run yet is not among them: nothing of it runs, and nobody has to decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from django.db.models import QuerySet

from checkpoints.calls import convert_calls_to_dicts, require_unaltered_call
from checkpoints.db.clock import read_database_time
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    UNDECIDED_CALL_STATUSES,
    CallStatus,
)
from checkpoints.exceptions import SessionNotFound
from checkpoints.models import Run, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, MUTATING_CALLS
from checkpoints.seals import row_seals
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.database_client_state import Store


def list_unfinished_calls(store: Store, session_id: str) -> list[dict[str, Any]]:
    """List the unfinished calls of a session, oldest first, without those of an imported transcript.

    `alive` says whether the run that issued a call is alive. A session that does not exist yet has none.
    """
    with database_operation(store.using, writes=False):
        try:
            row = look_up_and_lock_rows.get_session(store, session_id)
        except SessionNotFound:
            return []
        unsettled = list_verified_calls_of_session_with_status(
            store, row, {CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES}
        )
        calls = [call for call in unsettled if not call.is_imported]
        alive = {run.pk: run_liveness_check.is_run_alive(run) for run in {call.run for call in calls}}
        reasons = convert_calls_to_dicts.load_verify_hook_unknown_reasons(store, calls)
        return [
            convert_calls_to_dicts.call_to_dict(
                call,
                alive=call.status == CallStatus.ISSUED and alive[call.run_id],
                verify_reason=reasons.get(call.pk),
            )
            for call in calls
        ]


def select_issued_mutating_calls_of_lost_runs(store: Store) -> QuerySet[ToolCall]:
    """Select the calls with side effects that lost runs of the workspace have left without an outcome.

    A person has to decide about them, although no process has declared the run lost yet.
    """
    issued_calls = ToolCall.objects.using(store.using).filter(workspace_id=store.workspace_id, status=CallStatus.ISSUED)
    issued_calls = issued_calls.filter(MUTATING_CALLS)
    now = read_database_time(store.using)
    runs = Run.objects.using(store.using).filter(pk__in=issued_calls.values("run"))
    return issued_calls.filter(run__in=[run.pk for run in runs if not run_liveness_check.is_run_alive(run, now)])


def list_verified_undecided_calls_of_session(store: Store, row: Session) -> list[ToolCall]:
    """List the calls of a session that wait for a decision, oldest first. Raises `IntegrityError`."""
    return list_verified_calls_of_session_with_status(store, row, UNDECIDED_CALL_STATUSES)


def list_verified_undecided_calls_holding_run(store: Store, row: Session) -> list[ToolCall]:
    """List the undecided calls that hold a run at the gate: all but those that a framework's own interrupt holds."""
    return [
        call
        for call in list_verified_undecided_calls_of_session(store, row)
        if call.status == CallStatus.INTERRUPTED or not call.idempotency_key.startswith(INTERRUPT_KEY_PREFIX)
    ]


def list_verified_calls_of_session_with_status(
    store: Store, row: Session, statuses: Iterable[CallStatus]
) -> list[ToolCall]:
    """List the calls of a session with one of `statuses`, oldest first. Raises `IntegrityError`."""
    rows = ToolCall.objects.using(store.using).filter(session=row.pk, status__in=sorted(statuses))
    calls = sorted(rows.select_related("run"), key=attrgetter("pk"))
    row_seals.verify_rows(calls)
    for call in calls:
        require_unaltered_call.require_matching_digests(call)
    return calls
