"""Number of statements of responses, pauses and idle sweeps, independent of the number of calls."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer
from tests.integration.checkpoints.peers.paused_agents import join, pause
from tests.integration.checkpoints.session_setups import start_session


def statements(work: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"] for query in captured if query["sql"].split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}]


@pytest.fixture(params=[2, 50])
def calls(request: pytest.FixtureRequest) -> list[str]:
    return [f"c{number}" for number in range(request.param)]


@pytest.mark.unsealed("its number of statements is that without seals")
def test_statements_of_an_accepted_response(cp: SyncCheckpointer, calls: list[str]) -> None:
    pause(cp, join("j", *calls))

    assert len(statements(lambda: cp.accept_response("c1", "yes"))) == 8


@pytest.mark.unsealed("its number of statements is that without seals")
def test_statements_of_a_pause(cp: SyncCheckpointer, calls: list[str]) -> None:
    start_session(cp)

    made = len(statements(lambda: cp.pause_for_peers("s", {}, [join("j", *calls)])))
    assert made == {"postgresql": 19, "sqlite": 18}[connection.vendor]


def test_idle_sweeps_write_nothing(cp: SyncCheckpointer, calls: list[str]) -> None:
    pause(cp, join("j", *calls))
    rounds: list[Callable[[], object]] = [
        cp.sweep_deadlines,
        lambda: cp.tell_peers(print),
        lambda: cp.list_paused(ready=True),
    ]
    made = [statements(each) for each in rounds]

    assert [len(each) for each in made] == [2, 1, 1]
    assert {sql.split()[0] for each in made for sql in each} == {"SELECT"}
