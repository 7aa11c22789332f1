"""Noticing runs that are gone when somebody looks, instead of in the sweeper's next round.

A page that is opened right after a crash shows what it left undecided. Where the database cannot take that just now,
the page shows what it has, and the sweeper is next.
"""

import logging

from checkpoints.client import SyncCheckpointer
from checkpoints.enums import CallStatus
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall, Workspace
from checkpoints.resuming import sweeping
from checkpoints.saving import liveness

logger = logging.getLogger(__name__)

#: Sessions that one look at the queue handles at most; the sweeper handles the rest.
LIMIT = 20


def interrupt_lost_calls(workspace: Workspace) -> None:
    """Interrupt the calls of runs in this workspace that are gone."""
    try:
        SyncCheckpointer(workspace=workspace.slug).sweep_lost_runs(limit=LIMIT)
    except CheckpointsError as error:
        logger.warning("Runs that are gone could not be looked for: %s", error)


def interrupt_if_lost(call: ToolCall) -> bool:
    """Interrupt this call where its run is gone. Returns whether it may have changed."""
    if call.status != CallStatus.ISSUED or liveness.is_alive(call.run):
        return False
    store = SyncCheckpointer(workspace=call.session.workspace.slug).store
    try:
        sweeping.interrupt_lost_call(store, call.session.session_id, call.pk)
    except CheckpointsError as error:
        logger.warning("A call of a run that is gone could not be interrupted: %s", error)
        return False
    return True
