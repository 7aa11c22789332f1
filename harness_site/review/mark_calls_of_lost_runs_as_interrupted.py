"""Detection of lost runs on page load, ahead of the sweeper's next round.

A page that is opened right after a crash shows what the crash left undecided. If the database cannot be written at that
moment, the page shows the stored state and the sweeper follows up.
"""

import logging

from checkpoints.enums import CallStatus
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall, Workspace
from checkpoints.sessions import sweep_lost_runs
from checkpoints.store import run_liveness_check
from checkpoints.store.database_client_state import Store

logger = logging.getLogger(__name__)

#: Maximum number of sessions handled for one page load; the sweeper handles the rest.
LIMIT = 20


def mark_calls_of_lost_runs_as_interrupted(workspace: Workspace) -> None:
    """Interrupt the calls of lost runs in this workspace."""
    try:
        sweep_lost_runs.sweep_lost_runs(Store(workspace=workspace.slug, workspace_id=workspace.pk), limit=LIMIT)
    except CheckpointsError as error:
        logger.warning("Runs that are gone could not be looked for: %s", error)


def interrupt_call_if_run_lost(call: ToolCall) -> bool:
    """Interrupt this call if its run is lost; return True if the call may have changed."""
    if call.status != CallStatus.ISSUED or run_liveness_check.is_run_alive(call.run):
        return False
    store = Store(workspace=call.session.workspace.slug, workspace_id=call.workspace_id)
    try:
        sweep_lost_runs.lock_session_and_end_run_of_call_if_lost(store, call.session.session_id, call.pk)
    except CheckpointsError as error:
        logger.warning("A call of a run that is gone could not be interrupted: %s", error)
        return False
    return True
