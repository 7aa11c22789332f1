"""What runs in processes of its own."""

from checkpoints import SyncCheckpointer, audit
from tests.support.processes import heed, say


def work(url: str, name: str, rounds: int) -> None:
    """Sessions begin, are taken over and end: each writes several entries inside transactions with locks."""
    with SyncCheckpointer.open(url) as cp:
        say("ready")
        heed()
        for number in range(rounds):
            session_id = f"{name}-{number}"
            cp.start_session(session_id, "Work", agent=name)
            cp.finish_session(session_id, "completed")


def seal(url: str, workspace: int) -> int:
    """Seal again and again; returns how many."""
    with SyncCheckpointer.open(url) as cp:
        say("ready")
        heed()
        sealed = 0
        for _ in range(40):
            sealed += audit.seal_events(workspace, using=cp.store.using)
        return sealed
