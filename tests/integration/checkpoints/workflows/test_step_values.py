"""Arguments, results and ids of workflow steps."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    InvalidArguments,
    InvalidIdentifier,
    NotRepresentable,
)
from checkpoints.models import ToolCall, WorkflowStep
from tests.integration.checkpoints.session_setups import start_session
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps

RESULTS = [{"order": 17}, "charged 40.00", [17]]
EFFECTS = ["reserve 17", "charge 17 40.00", "ship 17"]


# values


@pytest.mark.parametrize(
    ("value", "kept"),
    [(None, None), ((1, 2), [1, 2]), ("{", "{"), ('{"a": 1}', '{"a": 1}'), ({"a": [None, 1.5]}, {"a": [None, 1.5]})],
    ids=repr,
)
def test_result_is_equal_at_first_and_when_replayed(cp: SyncCheckpointer, value: object, kept: object) -> None:
    def act() -> object:
        return value

    start_session(cp)

    assert [cp.workflow("s", "w").step("act", act) for _ in range(2)] == [kept, kept]


def test_result_without_a_json_form_is_stored_as_text(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert [cp.workflow("s", "w").step("act", complex, 1, 2) for _ in range(2)] == ["(not JSON) (1+2j)"] * 2


@pytest.mark.parametrize("argument", [float("nan"), b"bytes", {1: 2}, object], ids=["nan", "bytes", "key", "type"])
def test_argument_without_a_json_form_runs_nothing(cp: SyncCheckpointer, argument: object) -> None:
    ran: list[object] = []
    workflow = start_session(cp).workflow("s", "w")

    with pytest.raises(NotRepresentable):
        workflow.step("act", ran.append, argument)
    assert (ran, WorkflowStep.objects.count(), ToolCall.objects.count()) == ([], 0, 0)


def test_invalid_arguments_run_nothing(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    with pytest.raises(InvalidArguments):
        start_session(cp).workflow("s", "w").step("charge", order_steps.charge)
    assert (order_steps.done, ToolCall.objects.count()) == ([], 0)


def test_every_kind_of_parameter_reaches_the_function(cp: SyncCheckpointer) -> None:
    def act(first: int, /, second: int, *rest: int, third: int = 3, **more: int) -> list[Any]:
        return [first, second, rest, third, more]

    start_session(cp)

    assert [cp.workflow("s", "w").step("act", act, 1, 2, 5, 6, third=7, fourth=8) for _ in range(2)] == [
        [1, 2, [5, 6], 7, {"fourth": 8}]
    ] * 2


@pytest.mark.parametrize(("workflow_id", "step_id"), [("", "a"), ("w", ""), ("w", "a\0"), ("w" * 256, "a")])
def test_malformed_ids_are_refused(cp: SyncCheckpointer, workflow_id: str, step_id: str) -> None:
    with pytest.raises(InvalidIdentifier):
        start_session(cp).workflow("s", workflow_id).step(step_id, int)


def test_long_ids_are_distinguished(cp: SyncCheckpointer) -> None:
    workflow = start_session(cp).workflow("s", "w" * 255)
    for end in ("a", "b"):
        workflow.step("s" * 254 + end, str, end)

    assert [step["result"] for step in workflow.journal()] == ["a", "b"]
    assert ToolCall.objects.values("call_id").distinct().count() == 2
