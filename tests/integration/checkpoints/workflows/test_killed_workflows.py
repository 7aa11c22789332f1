"""SIGKILL at every point of a workflow: every step runs once, and unknown outcomes need decisions."""

import signal
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import ReviewRequired
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import start_session, take_session_past_gate
from tests.integration.checkpoints.workflows import order_workflow
from tests.integration.checkpoints.workflows.order_workflow import STEPS, OrderSteps, call_statuses, run_order_workflow
from tests.support.processes import database_url

RESULTS = [{"order": 17}, "charged 40.00", [17]]
EFFECTS = ["reserve 17", "charge 17 40.00", "ship 17"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_between_two_steps_continues_with_the_next(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, step: str
) -> None:
    order_steps = OrderSteps(effects)
    child = start_child(
        order_workflow.die_in_step, url=database_url(), effects=str(effects), step=step, point="after the record"
    )
    assert child.died_by() == signal.SIGKILL
    assert order_steps.done == EFFECTS[: STEPS.index(step) + 1]

    assert run_order_workflow(start_session(cp).workflow("s", "order-17"), order_steps) == RESULTS
    assert order_steps.done == EFFECTS


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("point", ["before the effect", "after the effect"])
def test_killed_inside_a_step_needs_a_decision(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, step: str, point: str
) -> None:
    order_steps = OrderSteps(effects)
    child = start_child(order_workflow.die_in_step, url=database_url(), effects=str(effects), step=step, point=point)
    assert child.died_by() == signal.SIGKILL
    happened = point == "after the effect"
    left = EFFECTS[: STEPS.index(step) + happened]

    asked = [undecided_steps(cp, order_steps) for _ in range(2)]
    assert (order_steps.done, asked[0]) == (left, asked[1])
    call = asked[0]
    assert (call["call_id"], call["reason"]) == (f"order-17/{step}", "run_lost")

    how = {"actor": "alice", "reason": "I looked.", "revision": call["revision"]}
    if happened:
        cp.confirm_landed("s", call["call_id"], "seen", **how)
    else:
        cp.mark_failed("s", call["call_id"], **how)
    results = run_order_workflow(start_session(cp).workflow("s", "order-17"), order_steps)
    assert results == [("seen" if happened and name == step else RESULTS[at]) for at, name in enumerate(STEPS)]
    assert order_steps.done == EFFECTS


def undecided_steps(cp: SyncCheckpointer, order_steps: OrderSteps) -> dict[str, Any]:
    with pytest.raises(ReviewRequired) as caught:
        run_order_workflow(start_session(cp).workflow("s", "order-17"), order_steps)
    (call,) = caught.value.calls
    return call


def test_only_the_unfinished_of_two_concurrent_steps_needs_a_decision(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(order_workflow.die_in_parallel_steps, url=database_url(), effects=str(effects))
    assert child.died_by() == signal.SIGKILL

    order_steps = OrderSteps(effects)
    workflow = take_session_past_gate(cp).workflow("s", "order-17")
    assert workflow.step("reserve", order_steps.reserve, 17) == {"order": 17}
    with pytest.raises(ReviewRequired) as caught:
        workflow.step("ship", order_steps.ship, 17)
    assert [call["call_id"] for call in caught.value.calls] == ["order-17/ship"]
    assert sorted(order_steps.done) == ["reserve 17", "ship 17"]
    assert sorted(call_statuses()) == [("order-17/reserve", 1, "completed"), ("order-17/ship", 1, "interrupted")]
