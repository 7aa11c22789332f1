"""A worker of a web application can be killed, or lose its connection, at every write boundary of its requests."""

from __future__ import annotations

import pytest

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.requests import answer_requests
from tests.crash.world import decide, observe

SCRIPT = Script(answer_requests, observe, decide)


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.DISCONNECT])
def test_at_every_boundary(fresh_session: Fresh, fault: Fault) -> None:
    with CrashPoints(SCRIPT, fresh_session) as points:
        assert "sessions.append_without_lease._append_without_run" in {boundary.place for boundary in points.boundaries}
        points.check(fault)


def test_each_process_killed_one_boundary_later_than_the_one_before(fresh_session: Fresh) -> None:
    with CrashPoints(SCRIPT, fresh_session) as points:
        points.check_repeated_kills()
