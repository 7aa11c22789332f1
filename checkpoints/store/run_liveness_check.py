"""Liveness of a run."""

from __future__ import annotations

from datetime import datetime

from checkpoints import process_identity_and_liveness
from checkpoints.db.clock import read_database_time
from checkpoints.enums import OWNING_RUN_STATUSES
from checkpoints.models import Run
from checkpoints.store.checkpointer_state import is_client_state_with_token_alive


def is_run_alive(run: Run, now: datetime | None = None) -> bool:
    """Return whether a run may still act: it owns its session, its process may exist, its lease has not expired.

    The lease is compared with the database's clock: `now`, or its time at the call if that is None. On the same machine
    a dead process is noticed at once, and so is a checkpointer of this process that no longer exists.
    """
    if run.status not in OWNING_RUN_STATUSES or is_run_process_known_dead(run):
        return False
    return run.lease_expires_at > (now or read_database_time(run._state.db or "default"))


def is_run_process_known_dead(run: Run) -> bool:
    """Return True only if this process can tell for certain that the run's process is dead."""
    if process_identity_and_liveness.is_process_known_dead(run.host_identity, run.pid, run.process_started):
        return True
    process = process_identity_and_liveness.get_identity_of_this_process()
    is_own = (run.host_identity, run.pid, run.process_started) == (process.host_identity, process.pid, process.started)
    return is_own and bool(process.host_identity) and not is_client_state_with_token_alive(run.owner_token)
