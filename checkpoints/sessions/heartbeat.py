"""Heartbeat: a daemon thread for each database renews the leases of all runs of this process in it, and releases idle
sessions if that is configured.

A thread that waits for a locked or unreachable database thus delays no heartbeat in another one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from uuid import UUID

from django.db import connections
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import OWNING_RUN_STATUSES
from checkpoints.models import Run
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession, list_live_client_states
from checkpoints.store.database_client_state import Store

logger = logging.getLogger(__name__)

#: Number of times that a lease is renewed before it would expire.
BEATS_PER_LEASE = 3

#: Function that releases the idle sessions of a store.
ReleaseIdle = Callable[[Store], object]

_threads_lock = threading.Lock()
#: Threads by database alias.
_threads: dict[str, threading.Thread] = {}

if hasattr(os, "register_at_fork"):  # a child that was forked while another thread held the lock would wait for ever
    os.register_at_fork(
        before=_threads_lock.acquire, after_in_parent=_threads_lock.release, after_in_child=_threads_lock.release
    )


def start_heartbeat(store: Store, release_idle: ReleaseIdle) -> None:
    """Start renewing the leases of `store` and calling `release_idle` for it, until the store is garbage collected.

    A store whose sessions are owned for a process elsewhere is left out: that process renews its leases by requests.
    """
    if store.remote_process is not None:
        return
    using = store.using
    with _threads_lock:
        if using not in _threads or not _threads[using].is_alive():  # after a fork the entry's thread does not exist
            _threads[using] = threading.Thread(
                target=_run_heartbeat_thread, args=(using, release_idle), name=f"harness-heartbeat-{using}", daemon=True
            )
            _threads[using].start()


def renew_store_leases_and_count_owned_runs(store: Store) -> int:
    """Renew the leases of all runs of `store`, by the database's clock. Returns the number of runs it still owns."""
    ids = [owned_session.run_id for owned_session in store.list_owned_sessions()]
    if not ids:
        return 0
    with database_operation(store.using):
        owning_runs = Run.objects.using(store.using).filter(pk__in=ids, status__in=sorted(OWNING_RUN_STATUSES))
        return owning_runs.update(heartbeat_at=Now(), lease_expires_at=clock.build_database_time_after(store.lease))


def renew_leases_of_runs(using: str, ids: Collection[UUID], lease: timedelta) -> set[UUID]:
    """Renew the leases of runs whose processes are elsewhere, in one statement. Returns those that own their sessions.

    Args:
        using: Alias of the database.
        ids: Keys of the runs, each once.
        lease: Length of the leases from now.
    """
    if not ids:
        return set()
    with database_operation(using):
        runs = Run.objects.using(using).filter(
            pk__in=ids, status__in=sorted(OWNING_RUN_STATUSES), session__fence=F("fence")
        )
        renewed = runs.update(heartbeat_at=Now(), lease_expires_at=clock.build_database_time_after(lease))
        return set(ids) if renewed == len(ids) else set(runs.values_list("pk", flat=True))


def renew_lease_or_raise_ownership_lost(store: Store, owned_session: OwnedSession) -> None:
    """Renew the lease of one run whose process is elsewhere. Raises `OwnershipLost`, `SessionFinished`."""
    with database_operation(store.using):
        run = Run.objects.using(store.using).filter(
            pk=owned_session.run_id,
            status__in=sorted(OWNING_RUN_STATUSES),
            session__fence=owned_session.fence,
        )
        if not run.update(heartbeat_at=Now(), lease_expires_at=clock.build_database_time_after(store.lease)):
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)


def _run_heartbeat_thread(using: str, release_idle: ReleaseIdle) -> None:
    due_times: dict[str, float] = {}
    try:
        while pause := _renew_leases_release_idle_and_get_pause(using, due_times, release_idle):
            time.sleep(pause)
    finally:
        connections.close_all()  # of this thread


def _renew_leases_release_idle_and_get_pause(
    using: str, due_times: dict[str, float], release_idle: ReleaseIdle
) -> float:
    """Renew the leases that are due. Returns the seconds until the next check, or 0 if no run is owned any more."""
    with _threads_lock:
        owning = [
            store
            for store in list_live_client_states()
            if isinstance(store, Store)
            and store.using == using
            and store.remote_process is None
            and store.list_owned_sessions()
        ]
        if not owning:
            del _threads[using]
            return 0
    for store in owning:
        interval = store.lease.total_seconds() / BEATS_PER_LEASE
        if time.monotonic() >= due_times.setdefault(store.token, time.monotonic() + interval):
            due_times[store.token] = time.monotonic() + interval
            _run_and_log_errors(renew_store_leases_and_count_owned_runs, store, "renew the leases of")
        if store.idle_release_seconds is not None:
            _run_and_log_errors(release_idle, store, "release those that are idle of")
    return min(1.0, *(_get_seconds_between_lease_checks(store) for store in owning))


def _get_seconds_between_lease_checks(store: Store) -> float:
    """Seconds between two checks for due leases."""
    interval = store.lease.total_seconds() / BEATS_PER_LEASE / 4
    return interval if store.idle_release_seconds is None else min(interval, store.idle_release_seconds / 4)


def _run_and_log_errors(work: Callable[[Store], object], store: Store, what: str) -> None:
    """Run `work` and log its error. The next beat tries again; a lease that could not be renewed expires by itself."""
    try:
        work(store)
    except Exception as error:  # the thread has to survive every error
        logger.warning("Could not %s %d sessions: %s", what, len(store.list_owned_sessions()), error)
