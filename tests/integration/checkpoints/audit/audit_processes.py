"""Functions for child processes that record and seal audit events."""

from checkpoints import SyncCheckpointer, audit
from tests.support.processes import send_to_parent, wait_for_parent


def run_sessions(url: str, name: str, rounds: int) -> None:
    """Start, take over and finish sessions; each operation writes audit events inside a transaction with locks."""
    with SyncCheckpointer.open(url) as cp:
        send_to_parent("ready")
        wait_for_parent()
        for number in range(rounds):
            session_id = f"{name}-{number}"
            cp.start_session(session_id, "Work", agent=name)
            cp.finish_session(session_id, "completed")


def seal_repeatedly(url: str, workspace: int) -> int:
    """Seal in a loop; return the number of sealed events."""
    with SyncCheckpointer.open(url) as cp:
        send_to_parent("ready")
        wait_for_parent()
        sealed = 0
        for _ in range(40):
            sealed += audit.seal_events_of_workspace(workspace, using=cp.store.using)
        return sealed
