"""Pauses between two checks of an agent that waits for a person."""

import pytest

from checkpoints.decisions.decision_poll_interval import compute_decision_poll_interval


@pytest.mark.parametrize(("waited", "pause"), [(-5, 0.25), (0, 0.25), (30, 0.25), (60, 0.5), (120, 1.0), (86_400, 1.0)])
def test_pause_grows_to_a_second_within_two_minutes(waited: float, pause: float) -> None:
    assert compute_decision_poll_interval(waited) == pause
