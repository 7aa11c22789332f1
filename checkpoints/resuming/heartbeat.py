"""Signs of life: a daemon thread for each database renews the leases of everything that this process owns in it, and
releases what nobody uses any more where that was chosen.

One that waits for its database, which is locked or away, thus holds back no sign of life in another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

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

#: What releases the sessions of a store that are not used any more.
ReleaseIdle = Callable[[Store], object]

_lock = threading.Lock()
#: By the alias of the database.
_threads: dict[str, threading.Thread] = {}


def beat_for(store: Store, release_idle: ReleaseIdle) -> None:
    """Make sure that the leases of `store` are renewed while it lives, and that `release_idle` is called for it."""
    using = store.using
    with _lock:
        if using not in _threads or not _threads[using].is_alive():  # a fork leaves the name of one that is not there
            _threads[using] = threading.Thread(
                target=_run, args=(using, release_idle), name=f"harness-heartbeat-{using}", daemon=True
            )
            _threads[using].start()


def renew(store: Store) -> int:
    """Renew the leases of all runs of `store`, by the database's clock. Returns how many it still owns."""
    ids = [held.run_id for held in store.all_held()]
    if not ids:
        return 0
    with operation(store.using):
        mine = Run.objects.using(store.using).filter(pk__in=ids, status__in=sorted(OWNING_RUN))
        return mine.update(heartbeat_at=Now(), lease_expires_at=clock.from_now(store.lease))


def _run(using: str, release_idle: ReleaseIdle) -> None:
    due: dict[str, float] = {}
    try:
        while pause := _beat(using, due, release_idle):
            time.sleep(pause)
    finally:
        connections.close_all()  # of this thread


def _beat(using: str, due: dict[str, float], release_idle: ReleaseIdle) -> float:
    """Renew what is due. Returns the seconds until the next look, or 0 when nothing is owned any more."""
    with _lock:
        owning = [store for store in live_stores() if store.using == using and store.all_held()]
        if not owning:
            del _threads[using]
            return 0
    for store in owning:
        interval = store.lease.total_seconds() / BEATS_PER_LEASE
        if time.monotonic() >= due.setdefault(store.token, time.monotonic() + interval):
            due[store.token] = time.monotonic() + interval
            _quietly(renew, store, "renew the leases of")
        if store.idle_release_seconds is not None:
            _quietly(release_idle, store, "release those that are idle of")
    return min(1.0, *(_look_every(store) for store in owning))


def _look_every(store: Store) -> float:
    """Seconds between two looks at what is due."""
    beat = store.lease.total_seconds() / BEATS_PER_LEASE / 4
    return beat if store.idle_release_seconds is None else min(beat, store.idle_release_seconds / 4)


def _quietly(work: Callable[[Store], object], store: Store, what: str) -> None:
    """The next beat tries again what failed. A lease that could not be renewed runs out by itself."""
    try:
        work(store)
    except Exception as error:  # the thread has to outlive whatever this was
        logger.warning("Could not %s %d sessions: %s", what, len(store.all_held()), error)
