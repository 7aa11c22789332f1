"""A process that is killed while it creates its database: the next one completes it."""

from __future__ import annotations

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.open_script import observe, open_and_use
from tests.support.exhaustive_mode import choose_boundaries


def test_killed_while_the_tables_are_created(fresh_database: Fresh) -> None:
    with CrashPoints(Script(open_and_use, observe), fresh_database) as points:
        points.check_each_boundary(Fault.KILL, choose_boundaries(points.boundaries))
