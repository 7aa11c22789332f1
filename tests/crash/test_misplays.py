"""What the crash harness says to scripts that cannot be judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkpoints.exceptions import InvalidInput
from checkpoints.testing import CrashPoints, Diverged, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.misplays import act, act_wrongly, decide_nothing, give_up_review, observe_chance, observe_nothing


@pytest.mark.parametrize(
    ("agent", "observe", "said"),
    [
        (act, observe_chance, "do not come to the same end"),
        (act, act_wrongly, "The end could not be observed(.|\n)*this agent cannot act"),
        (act_wrongly, observe_nothing, "A process failed(.|\n)*this agent cannot act"),
        (give_up_review, observe_nothing, "After 50 processes the agent is not done"),
    ],
)
def test_script_without_an_end_to_compare_with_is_refused(
    fresh_session: Fresh, agent: Callable[..., Any], observe: Callable[..., Any], said: str
) -> None:
    with pytest.raises(Diverged, match=said), CrashPoints(Script(agent, observe, decide_nothing), fresh_session):
        pass


def test_function_that_no_other_process_finds_is_refused(fresh_session: Fresh) -> None:
    script = Script(lambda **_: None, observe_nothing)
    with pytest.raises(InvalidInput, match="Move it to a module"), CrashPoints(script, fresh_session):
        pass


def test_boundary_that_is_not_reached_is_said(fresh_session: Fresh) -> None:
    with CrashPoints(Script(act, observe_nothing), fresh_session) as points:
        last = points.boundaries[-1]
        points.boundaries.append(type(last)(last.number + 1, last.side, last.place))
        with pytest.raises(Diverged, match="That boundary was not reached"):
            points.check(Fault.DISCONNECT)
