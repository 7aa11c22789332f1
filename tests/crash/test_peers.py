"""An agent that waits for others can be killed, or lose its connection, at every write boundary of that."""

from collections.abc import Iterator

import pytest

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.asking import ask, observe
from tests.crash.conftest import Fresh

#: Every operation of waiting for other agents that writes.
WRITING = {
    "peers.accepting.accept",
    "peers.cancelling._cancel",
    "peers.deadlines._sweep_session",
    "peers.pausing._pause_in_one",
    "peers.taking._mark",
    "peers.telling._claim",
    "peers.telling._cross_out",
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
