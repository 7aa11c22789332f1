"""Crashes of an agent that repeats the same call with new ids: the end is always the same."""

from __future__ import annotations

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.repeating_agent import ANSWERS, act_at_the_same_time, act_one_by_one, decide, observe
from tests.support.exhaustive_mode import choose_boundaries, choose_each


def test_what_happens_without_a_crash(fresh_session: Fresh) -> None:
    trial = fresh_session()
    act_one_by_one(**trial)

    assert observe(**trial)["effects"] == ["make test"] * sum(ANSWERS)
    assert observe(**trial)["answered"] == [1, 1, 2]


def test_faults_at_every_boundary(fresh_session: Fresh) -> None:
    with CrashPoints(Script(act_one_by_one, observe, decide), fresh_session) as points:
        points.check_each_boundary(Fault.KILL, choose_boundaries(points.boundaries))
        points.check_each_boundary(Fault.DISCONNECT, choose_each(2, choose_boundaries(points.boundaries)))


def test_each_process_killed_one_boundary_later(fresh_session: Fresh) -> None:
    with CrashPoints(Script(act_at_the_same_time, observe, decide), fresh_session) as points:
        points.check_repeated_kills()
