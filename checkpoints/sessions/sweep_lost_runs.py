"""Find lost runs before anybody resumes their sessions, so that people can decide about their calls without an
agent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from checkpoints import process_identity_and_liveness
from checkpoints.constants import BATCH_LIMIT
from checkpoints.db.keyset_pagination import iterate_distinct_session_pks
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import OWNING_RUN_STATUSES
from checkpoints.exceptions import CheckpointsError, SealError
from checkpoints.integrity import quarantine
from checkpoints.models import Run, Session, ToolCall
from checkpoints.seals import row_seals
from checkpoints.sessions import take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.checkpointer_state import list_live_client_states
from checkpoints.store.database_client_state import Store

#: Number of sessions whose rows are verified together before they are looked at one by one.
_VERIFIED_TOGETHER = 200


def sweep_lost_runs(store: Store, *, limit: int = BATCH_LIMIT) -> list[str]:
    """End lost runs and interrupt the calls they had issued. Returns the ids of their sessions.

    A run is lost when its lease has expired; a run of this machine also when its process is dead. Any number of
    processes may sweep at once: each session is checked under its own row lock, and on PostgreSQL a session that
    another process has locked is skipped. A sweep does not take sessions; a later resume does. A session with altered
    data is put under quarantine. `limit` is the number of runs that are ended: a session that is skipped, because it
    cannot be verified, does not keep the sweep from those after it. Such sessions are found by their rows, many in one
    statement.
    """
    with database_operation(store.using):
        lost: list[str] = []
        for pk in _skip_and_log_unverifiable_sessions(store.using, _iterate_session_keys_of_lost_runs(store, limit)):
            if len(lost) >= limit:
                break
            with quarantine.quarantine_and_skip_altered_session(store.using, pk):
                lost += _end_run_if_lost_and_list_session_id(store, pk)
        return lost


def _iterate_session_keys_of_lost_runs(store: Store, max_dead_processes: int) -> Iterator[int]:
    """Iterate over the keys of the sessions whose runs seem to be lost, first those with an expired lease.

    Runs of processes beyond `max_dead_processes` follow as soon as their leases have expired.
    """
    owning = Run.objects.using(store.using).filter(
        status__in=sorted(OWNING_RUN_STATUSES), session__workspace_id=store.workspace_id
    )
    yield from iterate_distinct_session_pks(owning.filter(lease_expires_at__lte=Now()), by="lease_expires_at")
    runs_of_dead_processes = _select_runs_of_dead_local_processes(owning, max_dead_processes)
    if runs_of_dead_processes is not None:
        unexpired = runs_of_dead_processes.filter(lease_expires_at__gt=Now())
        yield from iterate_distinct_session_pks(unexpired, by="lease_expires_at")


def _skip_and_log_unverifiable_sessions(using: str, session_pks: Iterator[int]) -> Iterator[int]:
    """Iterate over the keys of sessions, without those whose rows have no seal or one by a key that is not configured.

    They would be skipped anyway, after statements for each of them. Raises `SealKeyMissing` if there is no key at all.
    """
    while batch := list(islice(session_pks, _VERIFIED_TOGETHER)):
        sessions = Session.objects.using(using).filter(pk__in=batch)
        skipped: dict[int, CheckpointsError] = {}
        for pk, seal, *values in sessions.values_list("pk", "row_seal", *row_seals.get_sealed_fields(Session)):
            try:
                row_seals.verify_sealed_columns(Session, values, seal, str(pk))
            except SealError as error:
                if quarantine.is_unverifiable_session_error_or_raise(error):
                    skipped[pk] = error
        if skipped:
            first = min(skipped)
            quarantine.log_skipped_sessions_at_most_hourly(
                f"{len(skipped)} sessions were skipped, one of them with the key {first}: {skipped[first]}"
            )
        yield from (pk for pk in batch if pk not in skipped)


def lock_session_and_end_run_of_call_if_lost(store: Store, session_id: str, call_pk: int) -> None:
    """Interrupt a call whose run is lost, as a decision about it would, for a caller that only reads it."""
    with database_operation(store.using), transaction.atomic(using=store.using):
        row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        call = ToolCall.objects.using(store.using).filter(session=row, pk=call_pk).select_related("run").first()
        if call is not None:
            take_and_release_ownership.interrupt_call_and_end_run_if_lost(store, row, call)


def _select_runs_of_dead_local_processes(owning: QuerySet[Run], limit: int) -> QuerySet[Run] | None:
    """Select the runs of dead processes on this machine and of closed checkpointers of this process; None if there are
    none.

    Checks each process once, however many sessions it owned, and returns the runs of at most `limit` dead processes.
    """
    process = process_identity_and_liveness.get_identity_of_this_process()
    if not process.host_identity:
        return None
    on_this_machine = owning.filter(host_identity=process.host_identity)
    condition = Q()
    for pid, began in on_this_machine.values_list("pid", "process_started").distinct().order_by("pid"):
        if (pid, began) == (process.pid, process.started):
            condition |= Q(pid=pid, process_started=began) & ~Q(
                owner_token__in=[store.token for store in list_live_client_states()]
            )
        elif process_identity_and_liveness.is_process_known_dead(process.host_identity, pid, began):
            condition |= Q(pid=pid, process_started=began)
        if len(condition) >= limit:
            break
    return on_this_machine.filter(condition) if condition else None


def _end_run_if_lost_and_list_session_id(store: Store, session_pk: int) -> list[str]:
    """End the run of a session if it is lost. Returns the id of the session then."""
    with transaction.atomic(using=store.using):
        rows = Session.objects.using(store.using).select_for_update(skip_locked=True, of=("self",))
        row = rows.filter(pk=session_pk).select_related("owner").first()
        if (
            row is None
            or row.owner is None
            or not row.owner.has_owning_status
            or run_liveness_check.is_run_alive(row.owner)
        ):
            return []
        row_seals.verify_row(row)
        take_and_release_ownership.end_lost_owner_run_and_interrupt_calls(store, row, row.owner)
        return [row.session_id]
