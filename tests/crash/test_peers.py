"""An agent that waits for others can be killed, or lose its connection, at every write boundary of that."""

from collections.abc import Iterator

import pytest

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.asking import ask, observe
from tests.crash.conftest import Fresh

#: Every operation of waiting for other agents that writes.
WRITING = {
    "peers.response_acceptance.accept_response",
    "peers.cancel_task._cancel_task",
    "peers.deadlines._sweep_session",
    "peers.pause_run._pause_in_transaction",
    "peers.resume_task._mark_taken",
    "peers.outbox._claim_due_notices",
    "peers.outbox._clear_notice",
}


@pytest.fixture
def points(fresh_session: Fresh) -> Iterator[CrashPoints]:
    with CrashPoints(Script(ask, observe), fresh_session) as points:
        yield points


def test_killed_at_every_boundary(points: CrashPoints) -> None:
    points.check(Fault.KILL)


def test_connection_lost_at_every_boundary(points: CrashPoints) -> None:
    points.check(Fault.DISCONNECT)


def test_each_process_killed_one_boundary_later_than_the_one_before(points: CrashPoints) -> None:
    points.check_repeated_kills()


def test_every_writing_operation_is_among_the_boundaries(points: CrashPoints) -> None:
    places = {boundary.place for boundary in points.boundaries}

    assert {place for place in places if place.startswith("peers.")} == WRITING
    assert points.expected["result"] == {"weight": "early", "price": "answer of courier", "mood": "expired"}
