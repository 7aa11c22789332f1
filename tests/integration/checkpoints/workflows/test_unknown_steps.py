"""Steps that may have happened: the same gate, the same hooks, the same people as for any call."""

from typing import Any

import pytest

from checkpoints import Landed, NotLanded, SyncCheckpointer, Tool, ToolRegistry, Unknown
from checkpoints.calls.outcome_types import Answer
from checkpoints.exceptions import ApprovalRequired, CallNotFound, InvalidArguments, ReviewRequired, StepRejected
from checkpoints.models import Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps, call_statuses

CALL = "order-17/charge"


class PowerCut(BaseException):
    """Ends the process in the middle of a step."""


def half_done(cp: SyncCheckpointer, order_steps: OrderSteps, *, landed: bool = True) -> None:
    """The step is begun, perhaps has its effect, and nobody says how it ended."""

    def charge(order: int, amount: str = "40.00") -> str:
        if landed:
            order_steps.charge(order)
        raise PowerCut

    charge.__qualname__ = "Desk.charge"
    with pytest.raises(PowerCut):
        cp.workflow("s", "order-17").step("charge", charge, 17)


def asked_about(cp: SyncCheckpointer, function: Any) -> dict[str, Any]:
    with pytest.raises(ReviewRequired) as caught:
        cp.workflow("s", "order-17").step("charge", function, 17)
    (call,) = caught.value.calls
    return call


def decide(approver: SyncCheckpointer, call: dict[str, Any], decision: str, **more: Any) -> None:
    getattr(approver, decision)(
        "s", call["call_id"], actor="alice", reason="I looked.", revision=call["revision"], **more
    )


def test_unknown_step_holds_the_session(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    half_done(start_session(cp), order_steps)
    call = asked_about(cp, order_steps.charge)

    assert (call["call_id"], call["tool_name"], call["reason"]) == (CALL, "Desk.charge", "cancelled")
    with pytest.raises(ReviewRequired):
        cp.workflow("s", "order-17").step("ship", order_steps.ship, 17)
    with pytest.raises(ReviewRequired):
        cp.resume("s")
    assert (order_steps.done, Session.objects.get().status) == (["charge 17 40.00"], "needs_review")


def test_completed_steps_are_skipped_while_another_is_unknown(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    start_session(cp).workflow("s", "order-17").step("reserve", order_steps.reserve, 17)
    half_done(cp, order_steps)

    assert cp.workflow("s", "order-17").step("reserve", order_steps.reserve, 17) == {"order": 17}


@pytest.mark.parametrize(
    ("told", "result"),
    [("receipt 5", "receipt 5"), ('{"id": 5}', {"id": 5}), ("[1, 2]", [1, 2]), ("{5", "{5"), ("5", "5")],
)
def test_step_that_happened_returns_what_a_person_says(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, told: str, result: object
) -> None:
    half_done(start_session(cp), order_steps)
    decide(approver, asked_about(cp, order_steps.charge), "confirm_landed", result_text=told)

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", order_steps.charge, 17) == result
    assert order_steps.done == ["charge 17 40.00"]


@pytest.mark.parametrize("decision", ["mark_failed", "approve_rerun"])
def test_step_that_did_not_happen_runs_once(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, decision: str
) -> None:
    half_done(start_session(cp), order_steps, landed=False)
    decide(approver, asked_about(cp, order_steps.charge), decision)

    for _ in range(2):
        assert cp.workflow("s", "order-17").step("charge", order_steps.charge, 17) == "charged 40.00"
    assert order_steps.done == ["charge 17 40.00"]


def test_step_of_a_lost_run_is_asked_about(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    first = start_session(open_checkpointer())
    taken: list[SyncCheckpointer] = []

    def charge(order: int, amount: str = "40.00") -> str:
        taken.append(lose_run(open_checkpointer))
        return order_steps.charge(order)

    charge.__qualname__ = "Desk.charge"
    with pytest.raises(Exception, match="came too late"):
        first.workflow("s", "order-17").step("charge", charge, 17)

    assert asked_about(taken[0], order_steps.charge)["reason"] == "run_lost"
    assert call_statuses() == [(CALL, 1, "interrupted")]


@pytest.mark.parametrize(
    ("answer", "result", "done"),
    [
        (Landed("receipt 5"), "receipt 5", ["charge 17 40.00"]),
        (Landed('{"id": 5}'), {"id": 5}, ["charge 17 40.00"]),
        (NotLanded(), "charged 40.00", ["charge 17 40.00"] * 2),
    ],
)
def test_hook_of_the_step_is_asked_before_a_person(
    open_checkpointer: Open, order_steps: OrderSteps, answer: Answer, result: object, done: list[str]
) -> None:
    cp = start_session(open_checkpointer())
    half_done(cp, order_steps)
    taker = lose_run(open_checkpointer)
    asked: list[dict[str, Any]] = []

    def was_charged(args: dict[str, Any]) -> Answer:
        asked.append(args)
        return answer

    tool = Tool("Desk.charge", order_steps.charge, verify=was_charged)

    assert taker.workflow("s", "order-17").step("charge", tool, 17) == result
    assert (asked, order_steps.done) == ([{"order": 17}], done)
    assert Session.objects.get().status == "active" if len(done) == 2 else "ready"


def test_hook_that_cannot_tell_leaves_it_to_a_person(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    half_done(start_session(cp), order_steps)

    assert asked_about(cp, Tool("Desk.charge", order_steps.charge, verify=lambda args: Unknown("closed")))[
        "status"
    ] == ("interrupted")
    assert order_steps.done == ["charge 17 40.00"]


def test_resume_asks_the_hooks_of_steps(open_checkpointer: Open, order_steps: OrderSteps) -> None:
    with open_checkpointer() as first:
        half_done(start_session(first), order_steps)
    second = open_checkpointer()
    tool = Tool("Desk.charge", order_steps.charge, verify=lambda args: Landed("receipt 5"))
    second.resume("s", ToolRegistry([tool]))

    assert second.workflow("s", "order-17").step("charge", tool, 17) == "receipt 5"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(Landed("receipt 5"), "receipt 5"), (NotLanded(), TimeoutError), (Unknown(), ReviewRequired)],
)
def test_error_that_leaves_the_step_unknown_asks_the_hook_at_once(
    cp: SyncCheckpointer, answer: Answer, outcome: Any
) -> None:
    def charge(order: int) -> str:
        raise TimeoutError

    workflow = start_session(cp).workflow("s", "order-17")
    tool = Tool("charge", charge, verify=lambda args: answer)

    if isinstance(outcome, str):
        assert workflow.step("charge", tool, 17) == outcome
    else:
        with pytest.raises(outcome):
            workflow.step("charge", tool, 17)


def test_step_that_only_reads_runs_again_by_itself(open_checkpointer: Open, order_steps: OrderSteps) -> None:
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
def test_approved_arguments_that_do_not_fit_run_nothing(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps, args: dict[str, Any]
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "edit_call", new_args=args)
    (call,) = cp.pending_tool_calls("s")
    decide(approver, call, "approve_call")

    with pytest.raises(InvalidArguments):
        cp.workflow("s", "order-17").step("charge", approving(order_steps), 17)
    assert (order_steps.done, call_statuses()) == ([], [(CALL, 1, "failed")])


def test_step_that_is_rejected_raises_what_the_person_said(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "reject_call", message="Not today.")

    for _ in range(2):
        with pytest.raises(StepRejected) as caught:
            cp.workflow("s", "order-17").step("charge", approving(order_steps), 17)
        assert caught.value.message == "Not today."
    assert order_steps.done == []


def test_person_may_answer_in_place_of_a_step(
    cp: SyncCheckpointer, approver: SyncCheckpointer, order_steps: OrderSteps
) -> None:
    decide(approver, awaited(start_session(cp), order_steps), "respond_call", message="paid in cash")

    assert cp.workflow("s", "order-17").step("charge", approving(order_steps), 17) == "paid in cash"
    assert order_steps.done == []


def test_probe_of_a_step_can_be_asked_for_again(cp: SyncCheckpointer, order_steps: OrderSteps) -> None:
    half_done(start_session(cp), order_steps)
    answers: list[Answer] = [Landed("receipt 5"), Unknown("closed")]
    tool = Tool("Desk.charge", order_steps.charge, verify=lambda args: answers.pop())
    workflow = cp.workflow("s", "order-17")
    with pytest.raises(ReviewRequired):
        workflow.step("charge", tool, 17)

    assert cp.verify_call("s", CALL, actor="alice") == "landed"
    assert workflow.step("charge", tool, 17) == "receipt 5"
    with pytest.raises(CallNotFound):
        cp.verify_call("s", "order-17/ship", actor="alice")
