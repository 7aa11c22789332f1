"""Steps with an unknown outcome pass the same gate, hooks and decisions as tool calls."""

from typing import Any

import pytest

from checkpoints import Landed, NotLanded, SyncCheckpointer, Tool, ToolRegistry, Unknown
from checkpoints.calls.tool_result_and_verify_answer_types import Answer
from checkpoints.exceptions import ApprovalRequired, CallNotFound, InvalidArguments, ReviewRequired, StepRejected
from checkpoints.models import Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps, call_statuses

CALL = "order-17/charge"


class PowerCut(BaseException):
    """Exception that stands for the end of the process in a step."""


def leave_step_unknown(cp: SyncCheckpointer, order_steps: OrderSteps, *, landed: bool = True) -> None:
    """Start a step that has its effect or not, without recording an outcome."""

    def charge(order: int, amount: str = "40.00") -> str:
        if landed:
            order_steps.charge(order)
        raise PowerCut

    charge.__qualname__ = "OrderSteps.charge"
    with pytest.raises(PowerCut):
        cp.workflow("s", "order-17").step("charge", charge, 17)


def undecided_steps(cp: SyncCheckpointer, function: Any) -> dict[str, Any]:
    with pytest.raises(ReviewRequired) as caught:
        cp.workflow("s", "order-17").step("charge", function, 17)
    (call,) = caught.value.calls
    return call


def decide(approver: SyncCheckpointer, call: dict[str, Any], decision: str, **more: Any) -> None:
    getattr(approver, decision)(
        "s", call["call_id"], actor="alice", reason="I looked.", revision=call["revision"], **more
    )


def test_unknown_step_refuses_the_session_at_the_gate(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    leave_step_unknown(start_session(cp), order_steps)
    call = undecided_steps(cp, order_steps.charge)

    assert (call["call_id"], call["tool_name"], call["reason"]) == (CALL, "OrderSteps.charge", "cancelled")
    with pytest.raises(ReviewRequired):
        cp.workflow("s", "order-17").step("ship", order_steps.ship, 17)
    with pytest.raises(ReviewRequired):
        cp.resume("s")
    assert (order_steps.done, Session.objects.get().status) == (["charge 17 40.00"], "needs_review")


def test_completed_steps_are_skipped_while_another_is_unknown(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp).workflow("s", "order-17").step("reserve", order_steps.reserve, 17)
    leave_step_unknown(cp, order_steps)

    assert cp.workflow("s", "order-17").step("reserve", order_steps.reserve, 17) == {"order": 17}


@pytest.mark.parametrize(
    ("told", "result"),
    [("receipt 5", "receipt 5"), ('{"id": 5}', {"id": 5}), ("[1, 2]", [1, 2]), ("{5", "{5"), ("5", "5")],
)
def test_confirmed_step_returns_the_result_of_the_person(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, told: str, result: object
) -> None:
    leave_step_unknown(start_session(cp), order_steps)
    decide(approver, undecided_steps(cp, order_steps.charge), "confirm_landed", result_text=told)

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", order_steps.charge, 17) == result
    assert order_steps.done == ["charge 17 40.00"]


@pytest.mark.parametrize("decision", ["mark_failed", "approve_rerun"])
def test_step_marked_failed_runs_once(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, decision: str
) -> None:
    leave_step_unknown(start_session(cp), order_steps, landed=False)
    decide(approver, undecided_steps(cp, order_steps.charge), decision)

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", order_steps.charge, 17) == "charged 40.00"
    assert order_steps.done == ["charge 17 40.00"]


def test_step_of_a_lost_run_needs_a_decision(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    first = start_session(open_checkpointer())
    taken: list[SyncCheckpointer] = []

    def charge(order: int, amount: str = "40.00") -> str:
        taken.append(lose_run(open_checkpointer))
        return order_steps.charge(order)

    charge.__qualname__ = "OrderSteps.charge"
    with pytest.raises(Exception, match="came too late"):
        first.workflow("s", "order-17").step("charge", charge, 17)

    assert undecided_steps(taken[0], order_steps.charge)["reason"] == "run_lost"
    assert call_statuses() == [(CALL, 1, "interrupted")]


@pytest.mark.parametrize(
    ("answer", "result", "done"),
    [
        (Landed("receipt 5"), "receipt 5", ["charge 17 40.00"]),
        (Landed('{"id": 5}'), {"id": 5}, ["charge 17 40.00"]),
        (NotLanded(), "charged 40.00", ["charge 17 40.00"] * 2),
    ],
)
def test_hook_of_the_step_is_called_before_a_person_decides(
    open_checkpointer: Open, order_steps: OrderSteps, answer: Answer, result: object, done: list[str]
) -> None:
    cp = start_session(open_checkpointer())
    leave_step_unknown(cp, order_steps)
    taker = lose_run(open_checkpointer)
    asked: list[dict[str, Any]] = []

    def was_charged(args: dict[str, Any]) -> Answer:
        asked.append(args)
        return answer

    tool = Tool("OrderSteps.charge", order_steps.charge, verify=was_charged)

    assert taker.workflow("s", "order-17").step("charge", tool, 17) == result
    assert (asked, order_steps.done) == ([{"order": 17}], done)
    assert Session.objects.get().status == "active" if len(done) == 2 else "ready"


def test_unknown_answer_of_a_hook_leaves_the_decision_to_a_person(
    cp: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    leave_step_unknown(start_session(cp), order_steps)

    assert undecided_steps(cp, Tool("OrderSteps.charge", order_steps.charge, verify=lambda args: Unknown("closed")))[
        "status"
    ] == ("interrupted")
    assert order_steps.done == ["charge 17 40.00"]


def test_resume_calls_the_hooks_of_steps(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        leave_step_unknown(start_session(first), order_steps)
    second = open_checkpointer()
    tool = Tool("OrderSteps.charge", order_steps.charge, verify=lambda args: Landed("receipt 5"))
    second.resume("s", ToolRegistry([tool]))

    assert second.workflow("s", "order-17").step("charge", tool, 17) == "receipt 5"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(Landed("receipt 5"), "receipt 5"), (NotLanded(), TimeoutError), (Unknown(), ReviewRequired)],
)
def test_ambiguous_error_of_a_step_calls_its_hook(cp: SyncCheckpointer, answer: Answer, outcome: Any) -> None:
    def charge(order: int) -> str:
        raise TimeoutError

    workflow = start_session(cp).workflow("s", "order-17")
    tool = Tool("charge", charge, verify=lambda args: answer)

    if isinstance(outcome, str):
        assert workflow.step("charge", tool, 17) == outcome
    else:
        with pytest.raises(outcome):
            workflow.step("charge", tool, 17)


def test_reading_step_runs_again_without_a_decision(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    first = start_session(open_checkpointer())

    def look(order: int) -> None:
        raise PowerCut

    with pytest.raises(PowerCut):
        first.workflow("s", "w").step("look", Tool("look", look, side_effects=frozenset({"read"})), 17)
    taker = lose_run(open_checkpointer)
    tool = Tool("look", lambda order: order + 1, side_effects=frozenset({"read"}))

    for _ in range(2):
        assert taker.workflow("s", "w").step("look", tool, 17) == 18


# approval before the first execution


def approving(order_steps: OrderSteps) -> Tool:
    return Tool("charge", order_steps.charge, requires_approval=True)


def awaited(cp: SyncCheckpointer, order_steps: OrderSteps) -> dict[str, Any]:
    with pytest.raises(ApprovalRequired) as caught:
        cp.workflow("s", "order-17").step("charge", approving(order_steps), 17)
    assert order_steps.done == []
    (call,) = caught.value.calls
    return call


def test_step_waits_for_approval(cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "approve_call")

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", approving(order_steps), 17) == "charged 40.00"
    assert order_steps.done == ["charge 17 40.00"]


def test_step_runs_with_the_arguments_that_were_approved(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "edit_call", new_args={"order": 17, "amount": "35.00"})
    (call,) = cp.pending_tool_calls("s")
    decide(approver, call, "approve_call")

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", approving(order_steps), 17) == "charged 35.00"
    assert order_steps.done == ["charge 17 35.00"]


@pytest.mark.parametrize("args", [{"amount": "35.00"}, {"order": 17, "colour": "red"}, {}])
def test_approved_invalid_arguments_run_nothing(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, args: dict[str, Any]
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "edit_call", new_args=args)
    (call,) = cp.pending_tool_calls("s")
    decide(approver, call, "approve_call")

    with pytest.raises(InvalidArguments):
        cp.workflow("s", "order-17").step("charge", approving(order_steps), 17)
    assert (order_steps.done, call_statuses()) == ([], [(CALL, 1, "failed")])


def test_rejected_step_raises_the_message_of_the_person(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "reject_call", message="Not today.")

    for _ in range(2):
        with pytest.raises(StepRejected) as caught:
            cp.workflow("s", "order-17").step("charge", approving(order_steps), 17)
        assert caught.value.message == "Not today."
    assert order_steps.done == []


def test_person_may_respond_instead_of_a_step(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "respond_call", message="paid in cash")

    assert cp.workflow("s", "order-17").step("charge", approving(order_steps), 17) == "paid in cash"
    assert order_steps.done == []


def test_verification_of_a_step_can_be_repeated(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    leave_step_unknown(start_session(cp), order_steps)
    answers: list[Answer] = [Landed("receipt 5"), Unknown("closed")]
    tool = Tool("OrderSteps.charge", order_steps.charge, verify=lambda args: answers.pop())
    workflow = cp.workflow("s", "order-17")
    with pytest.raises(ReviewRequired):
        workflow.step("charge", tool, 17)

    assert cp.verify_call("s", CALL, actor="alice") == "landed"
    assert workflow.step("charge", tool, 17) == "receipt 5"
    with pytest.raises(CallNotFound):
        cp.verify_call("s", "order-17/ship", actor="alice")
