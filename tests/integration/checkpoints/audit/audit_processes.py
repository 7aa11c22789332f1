"""Functions for child processes that record and seal audit events."""

from checkpoints import SyncCheckpointer, audit
from tests.support.processes import heed, say


def run_sessions(url: str, name: str, rounds: int) -> None:
    """Start, take over and finish sessions; each operation writes audit events inside a transaction with locks."""
    with SyncCheckpointer.open(url) as cp:
        say("ready")
        heed()
        for number in range(rounds):
            session_id = f"{name}-{number}"
            cp.start_session(session_id, "Work", agent=name)
            cp.finish_session(session_id, "completed")


def seal_repeatedly(url: str, workspace: int) -> int:
    """Seal in a loop; return the number of sealed events."""
    with SyncCheckpointer.open(url) as cp:
        say("ready")
        heed()
        sealed = 0
        for _ in range(40):
            sealed += audit.seal_events(workspace, using=cp.store.using)
        return sealed
