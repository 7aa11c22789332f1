"""Whether a run still lives."""

from __future__ import annotations

from datetime import datetime

from checkpoints import process
from checkpoints.clock import database_now
from checkpoints.enums import OWNING_RUN
from checkpoints.models import Run
from checkpoints.saving.store import live_in_this_process


def is_alive(run: Run, now: datetime | None = None) -> bool:
    """Whether a run may still act: it owns its session, its process may exist, its lease has not run out.

    The lease is held against the database's clock: `now`, or what it says when it is asked here. On the same machine a
    dead process is noticed at once, and so is a checkpointer of this process that no longer exists.
    """
    if run.status not in OWNING_RUN or process_gone(run):
        return False
    return run.lease_expires_at > (now or database_now(run._state.db or "default"))


def process_gone(run: Run) -> bool:
    """True only where this process can tell for certain."""
    if process.known_dead(run.host_identity, run.pid, run.process_started):
        return True
    here = process.this_process()
    mine = (run.host_identity, run.pid, run.process_started) == (here.host_identity, here.pid, here.started)
    return mine and bool(here.host_identity) and not live_in_this_process(run.owner_token)
