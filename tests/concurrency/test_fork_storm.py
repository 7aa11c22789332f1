"""Concurrent forks, takeovers, calls and deletions of the same sessions raise only typed errors."""

from pathlib import Path

from checkpoints import SyncCheckpointer
from tests.concurrency import agent_processes
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.processes import database_url

PROCESSES = 5
ROUNDS = 8


def test_concurrent_operations_raise_only_typed_errors(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    start_session(cp, "origin").save_checkpoint("origin", conversation("ab"), None, 0)
    cp.close()
    children = [
        start_child(agent_processes.fork_and_dispatch, url=database_url(), number=number, rounds=ROUNDS)
        for number in range(PROCESSES)
    ]
    met = [error for child in children for error in child.result()]

    assert len(met) == PROCESSES * ROUNDS * 8
    assert met.count("") > 0
