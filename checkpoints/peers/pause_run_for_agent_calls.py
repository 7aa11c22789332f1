"""Pause a run for its calls to other agents: store its state and the calls, and release its session.

`accept_agent_response` takes the responses, and `take_paused_task` the task with which any process continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import Max
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import AuditKind, NoticeKind, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidInput, NotRepresentable, PeerCallExists, StorageUnavailable
from checkpoints.formats import digests
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import EarlyResponse, Join, PausedTask, PeerCall, Session
from checkpoints.peers import (
    agent_call_and_result_types,
    agent_call_join_counters,
    lock_and_answer_agent_calls,
    nested_secret_encryption,
)
from checkpoints.peers.agent_call_and_result_types import Deadline, Paused
from checkpoints.seals import row_seals
from checkpoints.sessions import create_finish_release, peer_pause_blocking_and_closing, take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store


@dataclass(frozen=True)
class _PauseRequest:
    """Pause in its stored form, checked before anything is written."""

    state: str
    joins: Sequence[agent_call_and_result_types.Join]
    #: Calls by id.
    requests: dict[str, str]


def pause_run(
    store: Store, session_id: str, state: dict[str, Any], joins: Iterable[agent_call_and_result_types.Join]
) -> Paused:
    """Store the task, its joins and calls, and release the session: one transaction.

    Responses that came before are counted in it. Raises `NotOwner`, `OwnershipLost`, `SessionFinished`,
    `PeerCallExists`, `InvalidInput`, `NotRepresentable`, `SecretsLocked`, and as `finish_session` does
    `CallInProgress` and `ReviewRequired`.
    """
    request = _build_validated_pause_request(state, joins)
    owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    try:
        with database_operation(store.using):
            pause = _pause_run_in_transaction(store, owned_session, request)
    except StorageUnavailable as error:
        pause = _read_pause_after_lost_commit(store, owned_session, error)
    store.remove_owned_session(owned_session)
    return pause


def _build_validated_pause_request(state: object, joins: Iterable[agent_call_and_result_types.Join]) -> _PauseRequest:
    if not isinstance(state, dict):
        raise NotRepresentable("state", f"a {type(state).__name__} is not a dict; dataclasses.asdict makes one")
    valid_joins = [
        agent_call_and_result_types.Join(validate_id("join id", join.id), tuple(join.calls)) for join in joins
    ]
    if not valid_joins or not all(join.calls for join in valid_joins):
        raise InvalidInput("A pause waits for at least one join, and a join for at least one call.")
    _require_distinct_ids("join", [join.id for join in valid_joins])
    calls = [call for join in valid_joins for call in join.calls]
    _require_distinct_ids("call", [validate_id("peer call id", call.id) for call in calls])
    for call in calls:
        validate_id("peer", call.peer)
        parse_agent_call_deadline(call.deadline)
    requests = {
        call.id: nested_secret_encryption.dump_with_encrypted_secrets(call.request, f"request of {call.id}")
        for call in calls
    }
    return _PauseRequest(nested_secret_encryption.dump_with_encrypted_secrets(state, "state"), valid_joins, requests)


def _require_distinct_ids(what: str, ids: list[str]) -> None:
    for identifier, times in Counter(ids).items():
        if times > 1:
            raise InvalidInput(f"There is more than one {what} {identifier!r} in this pause. Nothing was written.")


def parse_agent_call_deadline(deadline: Deadline) -> Any:
    """Parse a deadline to an expression over the database's clock, or to the given time. Raises `InvalidInput`."""
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidInput(f"The deadline {deadline} has no time zone.")
        return deadline
    try:
        delay = deadline if isinstance(deadline, timedelta) else timedelta(seconds=deadline)
    except (TypeError, ValueError, OverflowError):  # not a number, NaN, infinite
        delay = timedelta(-1)
    if delay < timedelta(0) or delay > timedelta(days=36_500):
        raise InvalidInput(f"The deadline is {deadline!r}: give seconds or a duration from now, or a moment.")
    return clock.build_database_time_after(delay)


def _pause_run_in_transaction(store: Store, owned_session: OwnedSession, request: _PauseRequest) -> Paused:
    taken_id = _find_conflicting_call_id(store, request)
    if taken_id is not None:
        raise PeerCallExists(taken_id)
    try:
        with transaction.atomic(using=store.using):
            return _write_pause_rows_and_release_session(store, owned_session, request)
    except IntegrityError as error:
        taken_id = _find_conflicting_call_id(store, request)
        if taken_id is None:
            raise
        raise PeerCallExists(taken_id) from error


def _find_conflicting_call_id(store: Store, request: _PauseRequest) -> str | None:
    calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id)
    return calls.filter(call_id__in=list(request.requests)).values_list("call_id", flat=True).first()


def _write_pause_rows_and_release_session(store: Store, owned_session: OwnedSession, request: _PauseRequest) -> Paused:
    lock_and_answer_agent_calls.lock_call_ids(connections[store.using], store.workspace_id, request.requests)
    row = look_up_and_lock_rows.lock_owned_session(store, owned_session)
    create_finish_release.require_no_running_or_undecided_call(store, owned_session, row)
    peer_pause_blocking_and_closing.close_taken_joins_and_tasks_after_save(store, row, saved_now=True)
    task = _create_paused_task_and_supersede_others(store, owned_session, row, request.state)
    receipt = owned_session.run_id.hex
    complete = [
        join.join_id
        for join in _create_joins_and_calls(store, task, request)
        if _consume_early_responses_and_complete_join(store, join, receipt)
    ]
    take_and_release_ownership.end_ownership_in_transaction_if_owner(
        store, owned_session, RunStatus.RELEASED, status=SessionStatus.PAUSED
    )
    insert_unchained_events.record_event(
        store,
        AuditKind.PAUSED_FOR_PEERS,
        session_pk=owned_session.pk,
        actor=f"run {owned_session.run.number}",
        pause=task.number,
        joins=[join.id for join in request.joins],
    )
    return Paused(
        owned_session.session_id,
        task.number,
        tuple(complete),
        peer_pause_blocking_and_closing.select_complete_unsaved_joins(store, row).exists(),
    )


def _create_paused_task_and_supersede_others(
    store: Store, owned_session: OwnedSession, row: Session, state: str
) -> PausedTask:
    tasks = PausedTask.objects.using(store.using).filter(session=row)
    peer_pause_blocking_and_closing.supersede_paused_tasks(tasks)
    number = tasks.aggregate(last=Max("number"))["last"] or 0
    return tasks.create(session=row, number=number + 1, run=owned_session.run, version=row.latest_version, state=state)


def _create_joins_and_calls(store: Store, task: PausedTask, request: _PauseRequest) -> list[Join]:
    joins = []
    for join in request.joins:
        join_row = Join.objects.using(store.using).create(
            session_id=task.session_id, task=task, join_id=join.id, total=len(join.calls)
        )
        PeerCall.objects.using(store.using).bulk_create(
            [_build_agent_call(store, join_row, call, request.requests[call.id]) for call in join.calls]
        )
        joins.append(join_row)
    return joins


def _build_agent_call(store: Store, join: Join, call: agent_call_and_result_types.PeerCall, request: str) -> PeerCall:
    return PeerCall(
        workspace_id=store.workspace_id,
        session_id=join.session_id,
        join=join,
        call_id=call.id,
        peer=call.peer,
        request=request,
        token_digest=digests.digest_token(call.token),
        deadline=parse_agent_call_deadline(call.deadline),
        notice="" if call.sent else NoticeKind.REQUEST,
        tell_after=None if call.sent else Now(),
    )


def _consume_early_responses_and_complete_join(store: Store, join: Join, receipt: str) -> bool:
    """Count the responses that came before the pause. Returns True if they complete the join."""
    calls = list(PeerCall.objects.using(store.using).filter(join=join))
    early_responses = EarlyResponse.objects.using(store.using).filter(
        workspace_id=store.workspace_id, call_id__in=[call.call_id for call in calls]
    )
    responses = list(early_responses.order_by("pk"))
    row_seals.verify_rows(responses)
    count = 0
    for call in calls:
        matching_responses = [
            response
            for response in responses
            if response.call_id == call.call_id and _does_response_have_peer_and_token_of_call(call, response)
        ]
        if matching_responses:
            lock_and_answer_agent_calls.write_result_of_open_agent_call(
                store, call, matching_responses[0].result, receipt
            )
            count += 1
    early_responses.delete()
    return bool(count) and agent_call_join_counters.add_closed_calls_and_complete_join_if_last(
        store, join, count, receipt
    )


def _does_response_have_peer_and_token_of_call(call: PeerCall, response: EarlyResponse) -> bool:
    peer_fits = response.peer in ("", call.peer)
    return peer_fits and call.token_digest in ("", response.token_digest)


def _read_pause_after_lost_commit(store: Store, owned_session: OwnedSession, error: StorageUnavailable) -> Paused:
    """Read back a pause after a commit whose answer was lost: a run pauses once, so a task of this run is that one."""
    with open_transaction_to_read_back_lost_commit(store.using, error):
        look_up_and_lock_rows.get_session(store, owned_session.session_id, lock=True)
        task = (
            PausedTask.objects.using(store.using).filter(run_id=owned_session.run_id).select_related("session").first()
        )
        if task is not None:
            return _load_stored_pause(store, task)
    raise StorageUnavailable(error.what, may_have_happened=False) from error


def find_own_pause_by_fence(store: Store, session_id: str, fence: int) -> Paused | None:
    """Find the pause of the run of this store's token that had this fence: a run pauses once."""
    with database_operation(store.using, writes=False):
        tasks = PausedTask.objects.using(store.using).filter(
            session__workspace_id=store.workspace_id,
            session__session_id=session_id,
            run__fence=fence,
            run__owner_token=store.token,
        )
        task = tasks.select_related("session").first()
        return None if task is None else _load_stored_pause(store, task)


def _load_stored_pause(store: Store, task: PausedTask) -> Paused:
    """Build what the run that paused was told."""
    complete = Join.objects.using(store.using).filter(task=task, completed_by=task.run_id.hex)
    return Paused(
        task.session.session_id,
        task.number,
        tuple(complete.order_by("pk").values_list("join_id", flat=True)),
        peer_pause_blocking_and_closing.select_complete_unsaved_joins(store, task.session).exists(),
    )
