"""Many processes fork, take, use and delete the same sessions at once: every refusal is an error of this library."""

from pathlib import Path

from checkpoints import SyncCheckpointer
from tests.concurrency import agents
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.processes import database_url

PROCESSES = 5
ROUNDS = 8


def test_errors_of_a_storm_are_typed(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    start_session(cp, "origin").save_checkpoint("origin", conversation("ab"), None, 0)
    cp.close()
    children = [
        start_child(agents.fork_and_dispatch, url=database_url(), number=number, rounds=ROUNDS)
        for number in range(PROCESSES)
    ]
    met = [error for child in children for error in child.result()]

    assert len(met) == PROCESSES * ROUNDS * 8
    assert met.count("") > 0
