"""Signs of life: one daemon thread for each process renews the leases of everything it owns."""

from __future__ import annotations

import logging
import threading
import time

from django.db import connections
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.enums import OWNING_RUN
from checkpoints.models import Run
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store, live_stores

logger = logging.getLogger(__name__)

#: A lease is renewed this many times before it would run out.
BEATS_PER_LEASE = 3

_lock = threading.Lock()
_thread: threading.Thread | None = None


def beat_for(store: Store) -> None:
    """Make sure that the leases of `store` are renewed while it lives."""
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():  # a fork leaves the name of a thread that is not there
            _thread = threading.Thread(target=_run, name="harness-heartbeat", daemon=True)
            _thread.start()


def renew(store: Store) -> int:
    """Renew the leases of all runs of `store`, by the database's clock. Returns how many it still owns."""
    ids = [held.run_id for held in store.all_held()]
    if not ids:
        return 0
    with operation(store.using):
        mine = Run.objects.using(store.using).filter(pk__in=ids, status__in=sorted(OWNING_RUN))
        return mine.update(heartbeat_at=Now(), lease_expires_at=clock.from_now(store.lease))


def _run() -> None:
    due: dict[str, float] = {}
    try:
        while pause := _beat(due):
            time.sleep(pause)
    finally:
        connections.close_all()  # of this thread


def _beat(due: dict[str, float]) -> float:
    """Renew what is due. Returns the seconds until the next look, or 0 when nothing is owned any more."""
    global _thread
    with _lock:
        owning = [store for store in live_stores() if store.all_held()]
        if not owning:
            _thread = None
            return 0
    for store in owning:
        interval = store.lease.total_seconds() / BEATS_PER_LEASE
        if time.monotonic() >= due.setdefault(store.token, time.monotonic() + interval):
            due[store.token] = time.monotonic() + interval
            _renew_quietly(store)
    return min(1.0, *(store.lease.total_seconds() / BEATS_PER_LEASE / 4 for store in owning))


def _renew_quietly(store: Store) -> None:
    """A lease that could not be renewed runs out by itself; the next beat tries again."""
    try:
        renew(store)
    except Exception as error:  # the thread has to outlive whatever this was
        logger.warning("The leases of %d sessions could not be renewed: %s", len(store.all_held()), error)
