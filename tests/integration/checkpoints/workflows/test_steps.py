"""Workflow steps: each runs once and keeps its identity."""

from functools import partial
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, Tool, ToolRegistry
from checkpoints.enums import KeyScope
from checkpoints.exceptions import (
    DuplicateStep,
    IntegrityError,
    NotOwner,
    OwnershipLost,
    SchemaFromFuture,
    StepIdentityChanged,
)
from checkpoints.models import Session, ToolCall, Workflow, WorkflowStep
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps, call_statuses, run_order_workflow

RESULTS = [{"order": 17}, "charged 40.00", [17]]
EFFECTS = ["reserve 17", "charge 17 40.00", "ship 17"]


def test_completed_steps_are_skipped_and_return_their_results(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp)

    assert run_order_workflow(cp.workflow("s", "order-17"), order_steps) == RESULTS
    assert run_order_workflow(cp.workflow("s", "order-17"), order_steps) == RESULTS
    assert order_steps.done == EFFECTS


def test_another_run_continues_after_the_last_completed_step(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        workflow = start_session(first).workflow("s", "order-17")
        workflow.step("reserve", order_steps.reserve, 17)
        workflow.step("charge", order_steps.charge, 17)
    second = start_session(open_checkpointer())

    assert run_order_workflow(second.workflow("s", "order-17"), order_steps) == RESULTS
    assert order_steps.done == EFFECTS


def test_step_log_keeps_the_order_of_steps(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp)
    run_order_workflow(cp.workflow("s", "order-17"), order_steps)
    again = cp.workflow("s", "order-17")
    again.step("ship", order_steps.ship, 17)
    again.step("thank", str.upper, "thanks")

    assert [(step["step_id"], step["function"], step["status"], step["result"]) for step in again.journal()] == [
        ("reserve", "OrderSteps.reserve", "completed", {"order": 17}),
        ("charge", "OrderSteps.charge", "completed", "charged 40.00"),
        ("ship", "OrderSteps.ship", "completed", [17]),
        ("thank", "str.upper", "completed", "THANKS"),
    ]


def test_step_that_fails_raises_its_error_and_runs_again(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    missing = [ValueError("no such order")]

    def charge(order: int) -> str:
        if missing:
            raise missing.pop()
        return order_steps.charge(order)

    start_session(cp)
    workflow = cp.workflow("s", "order-17")
    workflow.step("reserve", order_steps.reserve, 17)
    with pytest.raises(ValueError, match="no such order"):
        workflow.step("charge", charge, 17)

    assert workflow.step("charge", charge, 17) == "charged 40.00"
    assert (order_steps.done, call_statuses()) == (
        EFFECTS[:2],
        [
            ("order-17/reserve", 1, "completed"),
            ("order-17/charge", 1, "failed"),
            ("order-17/charge", 2, "completed"),
        ],
    )
    assert [step["attempts"] for step in workflow.journal()] == [1, 2]


@pytest.mark.parametrize(
    ("function", "args", "version", "changed"),
    [
        ("reserve", (17,), 1, ["function"]),
        ("charge", (18,), 1, ["arguments"]),
        ("charge", (17, "41.00"), 1, ["arguments"]),
        ("charge", (17,), 2, ["version"]),
        ("reserve", (18,), "b", ["function", "arguments", "version"]),
    ],
)
def test_completed_step_cannot_be_changed(
    cp: SyncCheckpointer,
    order_steps: OrderSteps,
    function: str,
    args: tuple[Any, ...],
    version: int | str,
    changed: list[str],
) -> None:
    start_session(cp)
    cp.workflow("s", "order-17").step("charge", order_steps.charge, 17)

    with pytest.raises(StepIdentityChanged) as caught:
        cp.workflow("s", "order-17").step("charge", getattr(order_steps, function), *args, version=version)
    assert (caught.value.changed, caught.value.status) == (changed, "completed")
    assert (order_steps.done, call_statuses()) == (["charge 17 40.00"], [("order-17/charge", 1, "completed")])


def test_step_with_an_unknown_outcome_cannot_be_changed(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    def hang(order: int) -> None:
        raise TimeoutError

    cp = start_session(open_checkpointer())
    with pytest.raises(Exception, match="unknown"):
        cp.workflow("s", "order-17").step("charge", hang, 17)

    with pytest.raises(StepIdentityChanged) as caught:
        cp.workflow("s", "order-17").step("charge", order_steps.charge, 17)
    assert (caught.value.status, order_steps.done) == ("interrupted", [])


def test_failed_step_may_be_changed(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    def charge(order: str) -> None:
        raise ValueError

    start_session(cp)
    with pytest.raises(ValueError, match=r"^$"):
        cp.workflow("s", "order-17").step("charge", charge, "17")
    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", order_steps.charge, 17, version=2) == "charged 40.00"

    assert (order_steps.done, call_statuses()) == (
        ["charge 17 40.00"],
        [("order-17/charge", 1, "failed"), ("order-17/charge#2", 1, "completed")],
    )


def test_equal_arguments_written_differently_are_the_same_step(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp)
    for function in (partial(order_steps.charge, 17), partial(partial(order_steps.charge), 17)):
        cp.workflow("s", "order-17").step("charge", function, amount="5")

    assert order_steps.done == ["charge 17 5"]


def test_step_runs_once_in_a_pass(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    workflow = start_session(cp).workflow("s", "order-17")
    workflow.step("charge", order_steps.charge, 17)

    with pytest.raises(DuplicateStep):
        workflow.step("charge", order_steps.charge, 17)
    with pytest.raises(DuplicateStep):
        workflow.step("charge", order_steps.charge, 18)
    assert order_steps.done == ["charge 17 40.00"]


def test_workflows_of_a_session_do_not_share_steps(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp)
    for name in ("first", "second", "first"):
        cp.workflow("s", name).step("charge", order_steps.charge, 17)

    assert (order_steps.done, Workflow.objects.count()) == (["charge 17 40.00"] * 2, 2)


def test_sessions_do_not_share_workflows(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    for session_id in ("s", "t"):
        start_session(cp, session_id).workflow(session_id, "order-17").step("charge", order_steps.charge, 17)

    assert order_steps.done == ["charge 17 40.00"] * 2


def test_fork_does_not_repeat_the_steps_of_its_origin(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp).save_checkpoint("s", [], None, 0)
    cp.workflow("s", "order-17").step("charge", order_steps.charge, 17)
    cp.fork_session("s", "fork")
    workflow = start_session(cp, "fork").workflow("fork", "order-17")

    assert workflow.step("charge", order_steps.charge, 17) == "charged 40.00"
    with pytest.raises(StepIdentityChanged):
        cp.workflow("fork", "order-17").step("charge", order_steps.charge, 18)
    assert (order_steps.done, len(workflow.journal())) == (["charge 17 40.00"], 1)


def test_steps_are_not_replayed_as_tool_calls(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        start_session(first).workflow("s", "order-17").step("charge", order_steps.charge, 17)

    assert open_checkpointer().resume("s").replayable == {}


def test_replays_are_counted(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp)
    for _ in range(3):
        cp.workflow("s", "order-17").step("charge", order_steps.charge, 17)

    assert ToolCall.objects.get().replay_count == 2


# what cannot be read


def test_damaged_step_log_runs_nothing(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        workflow = start_session(first).workflow("s", "order-17")
        workflow.step("reserve", order_steps.reserve, 17)
        workflow.step("charge", order_steps.charge, 17)
    ToolCall.objects.filter(call_id="order-17/charge").update(result='"charged 0.01"')
    second = start_session(open_checkpointer())

    with pytest.raises(IntegrityError, match=r"order-17/charge.*its result does not match its digest"):
        second.workflow("s", "order-17")
    assert len(order_steps.done) == 2


def test_step_log_damaged_after_it_was_opened_runs_nothing(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp).workflow("s", "order-17").step("charge", order_steps.charge, 17)
    workflow = cp.workflow("s", "order-17")
    ToolCall.objects.update(result='"charged 0.01"')

    with pytest.raises(IntegrityError):
        workflow.step("charge", order_steps.charge, 17)
    assert order_steps.done == ["charge 17 40.00"]


def test_step_log_of_a_newer_version_runs_nothing(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        start_session(first).workflow("s", "order-17").step("charge", order_steps.charge, 17)
    WorkflowStep.objects.update(schema_version=99)
    before = Session.objects.values("status", "latest_version").get()

    with pytest.raises(SchemaFromFuture):
        start_session(open_checkpointer()).workflow("s", "order-17")
    assert Session.objects.values("status", "latest_version").get() == before


# who may


def test_workflow_requires_ownership(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())

    with pytest.raises(NotOwner):
        open_checkpointer().workflow("s", "w")


def test_run_that_lost_its_session_runs_no_step(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    first = start_session(open_checkpointer())
    workflow = first.workflow("s", "order-17")
    lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        workflow.step("charge", order_steps.charge, 17)
    assert order_steps.done == []


def test_custom_key_is_one_operation_for_model_and_workflow(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    tool = Tool(
        "charge", order_steps.charge, idempotency=lambda args: f"order {args['order']}", scope=KeyScope.WORKSPACE
    )
    registry = ToolRegistry([tool], start_session(cp), "s")
    registry.dispatch("charge", {"order": 17}, "call_1")

    assert cp.workflow("s", "w").step("charge", tool, 17) == "charged 40.00"
    assert order_steps.done == ["charge 17 40.00"]
