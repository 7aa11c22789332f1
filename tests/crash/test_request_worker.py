"""Kill or disconnect a worker of a web application at every write boundary of its requests."""

from __future__ import annotations

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.request_worker import answer_requests
from tests.crash.simulated_world import decide, observe
from tests.support.exhaustive_mode import choose_boundaries, choose_each

SCRIPT = Script(answer_requests, observe, decide)


def test_faults_at_every_boundary(fresh_session: Fresh) -> None:
    with CrashPoints(SCRIPT, fresh_session) as points:
        assert "sessions.append_without_lease._append_without_run" in {boundary.place for boundary in points.boundaries}
        points.check_each_boundary(Fault.KILL, choose_boundaries(points.boundaries))
        points.check_each_boundary(Fault.DISCONNECT, choose_each(2, choose_boundaries(points.boundaries)))
        # Each process is killed one boundary later than the one before.
        points.check_repeated_kills()
