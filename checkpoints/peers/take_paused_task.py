"""Take a paused task: any process can continue it, one at a time, and again after a process was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Now

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import PAUSED_TASK_STATUSES, JoinStatus, PauseStatus
from checkpoints.exceptions import CheckpointCorrupted, NotPaused, OwnershipLost, SessionFinished, StillWaiting
from checkpoints.formats.canonical_json import parse_json
from checkpoints.integrity import quarantine
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.peers import nested_secret_encryption
from checkpoints.peers.agent_call_and_result_types import PeerResult, TakenJoin, TakenTask
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.resume.start_or_resume import resume_session_flow
from checkpoints.seals import row_seals
from checkpoints.sessions import peer_pause_blocking_and_closing, take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact


@dataclass(frozen=True)
class _TakenRows:
    """Rows that a run gets when it takes a task, read under the lock that they were marked under."""

    task: PausedTask
    joins: tuple[TakenJoin, ...]
    open: tuple[str, ...]


def take_paused_task_flow(
    store: Store, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
) -> Flow[TakenTask]:
    """Own the session, pass the gate as a resume does, and return the responses of the other agents.

    The task stays in the database until the run saves its next version or pauses again; before that another run
    can take it again. Raises what `resume` raises, `StillWaiting` and `NotPaused`.
    """
    state: dict[str, Any] = yield Transact(lambda: require_any_complete_join_and_load_pause_state(store, session_id))
    point: ResumePoint = yield from resume_session_flow(
        store, session_id, wait=wait, timeout=timeout, takeover=takeover, paused=True
    )
    task: TakenTask = yield Transact(lambda: take_paused_task_or_release_session(store, session_id, state, point))
    return task


def take_paused_task_or_release_session(
    store: Store, session_id: str, state: dict[str, Any], point: ResumePoint
) -> TakenTask:
    """Take the task for the run that has passed the gate at `point`. After an error the session is released."""
    try:
        taken_rows = _mark_task_taken_and_load_results(store, session_id)
    except OwnershipLost:
        raise
    except BaseException:
        _release_ownership_if_owned(store, session_id)
        raise
    return TakenTask(
        session_id,
        point,
        state,
        taken_rows.task.version,
        taken_rows.joins,
        taken_rows.open,
        times_taken=taken_rows.task.times_taken,
    )


def _release_ownership_if_owned(store: Store, session_id: str) -> None:
    owned_session = store.find_owned_session(session_id)
    if owned_session is not None:
        take_and_release_ownership.release_ownership_ignoring_storage_errors(store, owned_session)


def require_any_complete_join_and_load_pause_state(store: Store, session_id: str) -> dict[str, Any]:
    """Load and check the state of the newest pause, before anything is changed."""
    reading = database_operation(store.using, writes=False)
    with quarantine.quarantine_on_integrity_error(store, session_id), reading:
        row = look_up_and_lock_rows.get_session(store, session_id)
        if row.finished:
            raise SessionFinished(session_id, row.status)
        _require_any_join_complete(store, row)
        task = _get_and_verify_newest_paused_task(store, row)
    state = nested_secret_encryption.parse_json_and_decrypt_nested_secrets(task.state, session_id, "state")
    if not isinstance(state, dict):
        raise CheckpointCorrupted(session_id, "state", "it is not an object")
    return state


def _require_any_join_complete(store: Store, row: Session) -> None:
    if peer_pause_blocking_and_closing.select_complete_unsaved_joins(store, row).exists():
        return
    joins = Join.objects.using(store.using).filter(session=row, status=JoinStatus.WAITING)
    counts = joins.aggregate(completed=Sum("completed"), total=Sum("total"))
    if counts["total"] is None:
        raise NotPaused(row.session_id)
    raise StillWaiting(row.session_id, counts["completed"], counts["total"])


def _get_and_verify_newest_paused_task(store: Store, row: Session) -> PausedTask:
    task = PausedTask.objects.using(store.using).filter(session=row).order_by("-number").first()
    if task is None:
        raise NotPaused(row.session_id)
    row_seals.verify_row(task)
    return task


def _mark_task_taken_and_load_results(store: Store, session_id: str) -> _TakenRows:
    """Mark the task as taken by this run, under the run's own fence."""
    owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    with database_operation(store.using), transaction.atomic(using=store.using):
        row = look_up_and_lock_rows.lock_owned_session(store, owned_session)
        peer_pause_blocking_and_closing.close_taken_joins_and_tasks_after_save(store, row)
        joins = list(
            peer_pause_blocking_and_closing.select_complete_unsaved_joins(store, row)
            .order_by("pk")
            .select_related("task")
        )
        row_seals.verify_rows(joins)
        Join.objects.using(store.using).filter(pk__in=[join.pk for join in joins]).update(
            taken_version=row.latest_version
        )
        task = _get_and_verify_newest_paused_task(store, row)
        tasks = PausedTask.objects.using(store.using).filter(pk=task.pk)
        tasks.filter(status__in=sorted(PAUSED_TASK_STATUSES)).update(
            status=PauseStatus.TAKEN, taken_version=row.latest_version, taken_at=Now()
        )
        tasks.update(times_taken=F("times_taken") + 1)
        look_up_and_lock_rows.increment_session_revision(store, row.pk)
        task.refresh_from_db(using=store.using)
        open_joins = Join.objects.using(store.using).filter(session=row, status=JoinStatus.WAITING).order_by("pk")
        results = [TakenJoin(join.join_id, join.task.number, _load_join_results(store, join)) for join in joins]
        return _TakenRows(task, tuple(results), tuple(open_joins.values_list("join_id", flat=True)))


def _load_join_results(store: Store, join: Join) -> tuple[PeerResult, ...]:
    calls = list(PeerCall.objects.using(store.using).filter(join=join).order_by("pk"))
    row_seals.verify_rows(calls)
    return tuple(_build_agent_result(join, call) for call in calls)


def _build_agent_result(join: Join, call: PeerCall) -> PeerResult:
    assert call.settled_at is not None  # noqa: S101 - the join is complete
    try:
        value = None if call.result is None else parse_json(call.result)
    except ValueError as error:
        raise CheckpointCorrupted(join.session.session_id, f"result of {call.call_id}", str(error)) from error
    return PeerResult(call.call_id, call.peer, call.status, value, call.settled_at)
