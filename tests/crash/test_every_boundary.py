"""Kill or disconnect a process at every write boundary of a run: the end is always the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.agent import act_with_approval, act_with_tools
from tests.crash.batch_agent import act_at_once
from tests.crash.conftest import Fresh
from tests.crash.simulated_world import decide, observe, observe_replays
from tests.support.exhaustive_mode import EXHAUSTIVE, choose_boundaries, choose_each, count_examples

#: Every operation that writes while a session runs.
WRITING = {
    "sessions.create_finish_release.create_session_if_missing",
    "sessions.take_and_release_ownership._take_ownership_in_transaction",
    "sessions.take_and_release_ownership.touch_session_if_still_owner",
    "sessions.take_and_release_ownership.release_ownership_if_still_owner",
    "resume.resume_gate.try_activate_session_after_decisions",
    "decisions.lock_session_for_decision.lock_session_and_get_call",
    "sessions.create_finish_release.finish_session",
    "versions.save_version.write_versions_if_session_at_base",
    "versions.save_version._save_version_under_session_lock",
    "calls.intent_log._insert_call_sealed_if_enabled",
    "calls.intent_log._issue_call_under_session_lock",
    "calls.write_outcomes_and_interruptions._write_outcome_sealed_if_enabled",
    "calls.write_outcomes_and_interruptions._write_outcome_with_value_or_interruption_event",
}


_varies = pytest.mark.unsealed("with seals, statements of threads are repeated with the head that another one wrote")


@pytest.fixture(params=[act_with_tools, act_with_approval, pytest.param(act_at_once, marks=_varies)])
def agent(request: pytest.FixtureRequest) -> Callable[..., object]:
    chosen: Callable[..., object] = request.param
    return chosen


def test_killed_at_every_boundary(agent: Callable[..., object], fresh_session: Fresh) -> None:
    with CrashPoints(Script(agent, observe_replays, decide), fresh_session) as points:
        points.check_each_boundary(Fault.KILL, choose_boundaries(points.boundaries))
        if EXHAUSTIVE or connection.vendor == "sqlite":
            # Each process is killed one boundary later than the one before.
            points.check_repeated_kills()
            points.check_random_kills(count_examples(1), seed=17)


def test_connection_lost_at_every_boundary(fresh_session: Fresh) -> None:
    # Here the agent may make a call again whose answer was lost on the way, so that it is replayed.
    with CrashPoints(Script(act_with_approval, observe, decide), fresh_session) as points:
        boundaries = choose_boundaries(points.boundaries)
        # PostgreSQL has connections that are lost.
        chosen = choose_each(2, boundaries) if connection.vendor == "sqlite" else boundaries
        points.check_each_boundary(Fault.DISCONNECT, chosen)


@pytest.mark.unsealed("with seals, another function writes outcomes")
def test_every_writing_operation_is_among_the_boundaries(fresh_session: Fresh) -> None:
    places = set()
    for agent in (act_with_tools, act_with_approval):
        with CrashPoints(Script(agent, observe, decide), fresh_session) as points:
            places |= {boundary.place for boundary in points.boundaries}
    assert places == WRITING
