"""Errors of the crash harness for invalid scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkpoints.exceptions import InvalidInput
from checkpoints.testing import CrashPoints, Diverged, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.invalid_scripts import (
    act,
    act_wrongly,
    decide_nothing,
    give_up_review,
    observe_chance,
    observe_nothing,
)
from tests.support.exhaustive_mode import mark_all_but_each


@pytest.mark.parametrize(
    ("agent", "observe", "said"),
    mark_all_but_each(
        2,
        [
            (act, observe_chance, "do not come to the same end"),
            (act, act_wrongly, "The end could not be observed(.|\n)*this agent cannot act"),
            (act_wrongly, observe_nothing, "A process failed(.|\n)*this agent cannot act"),
            (give_up_review, observe_nothing, "After 50 processes the agent is not done"),
        ],
    ),
)
def test_script_without_a_comparable_end_is_refused(
    fresh_session: Fresh, agent: Callable[..., Any], observe: Callable[..., Any], said: str
) -> None:
    with pytest.raises(Diverged, match=said), CrashPoints(Script(agent, observe, decide_nothing), fresh_session):
        pass


def test_function_that_cannot_be_imported_is_refused(fresh_session: Fresh) -> None:
    script = Script(lambda **_: None, observe_nothing)
    with pytest.raises(InvalidInput, match="Move it to a module"), CrashPoints(script, fresh_session):
        pass


def test_unreached_boundary_is_reported(fresh_session: Fresh) -> None:
    with CrashPoints(Script(act, observe_nothing), fresh_session) as points:
        last = points.boundaries[-1]
        points.boundaries.append(type(last)(last.number + 1, last.side, last.place))
        with pytest.raises(Diverged, match="That boundary was not reached"):
            points.check_each_boundary(Fault.DISCONNECT)
