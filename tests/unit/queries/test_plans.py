import pytest

from checkpoints.queries import plans
from checkpoints.queries.plans import Change, Plan, Step, StepChange, StepState
from checkpoints.serde import canonical


def read(plan: object) -> Plan:
    found = plans.read(canonical(plan))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("item", "step"),
    [
        ({"description": "Pay", "status": "in_progress"}, Step("Pay", StepState.DOING, "in progress", {})),
        ({"title": "Pay", "state": "In-Progress"}, Step("Pay", StepState.DOING, "in progress", {})),
        ({"text": "Pay", "done": True}, Step("Pay", StepState.DONE, "done", {})),
        ({"text": "Pay", "completed": False}, Step("Pay", StepState.TODO, "to do", {})),
        ({"task": "Pay", "status": "on fire"}, Step("Pay", None, "on fire", {})),
        ("Pay", Step("Pay", None, "", {})),
        (
            {"description": "Pay", "status": "done", "evidence": ["re_1"]},
            Step("Pay", StepState.DONE, "done", {"evidence": ["re_1"]}),
        ),
    ],
)
def test_steps_are_read_in_the_usual_shapes(item: object, step: Step) -> None:
    assert read({"steps": [item]}).steps == (step,)


def test_a_plan_keeps_what_is_no_step() -> None:
    plan = read({"goal": "Refund", "tasks": [{"name": "Pay", "done": True}, {"name": "Mail", "done": False}]})
    assert plan.rest == {"goal": "Refund"}
    assert plan.done == 1


@pytest.mark.parametrize("value", [{"a": 1}, {}, {"steps": []}, {"steps": [7]}, {"steps": {"a": 1}}])
def test_a_plan_without_steps_is_kept_whole(value: dict[str, object]) -> None:
    assert read(value) == Plan((), value, canonical(value))


def test_no_plan_is_not_an_empty_plan() -> None:
    assert plans.read(None) is None


def test_a_damaged_plan_is_shown_as_text() -> None:
    assert plans.read('{"steps"') == Plan((), {"unreadable": '{"steps"'}, '{"steps"')


def test_compare_says_what_became_of_each_step() -> None:
    old = read({"steps": [{"text": "Find", "done": False}, {"text": "Ask", "done": False}, "Pay"]})
    new = read({"steps": [{"text": "Find", "done": True}, "Pay", "Mail"]})
    assert plans.compare(old, new) == (
        StepChange(Change.CHANGED, old.steps[0], new.steps[0]),
        StepChange(Change.REMOVED, old.steps[1], None),
        StepChange(Change.SAME, old.steps[2], new.steps[1]),
        StepChange(Change.ADDED, None, new.steps[2]),
    )


def test_compare_takes_a_reworded_step_for_the_same_one() -> None:
    old, new = read({"steps": ["Find", "Pay", "Mail"]}), read({"steps": ["Find", "Refund", "Mail"]})
    assert plans.compare(old, new)[1] == StepChange(Change.CHANGED, old.steps[1], new.steps[1])


def test_compare_with_no_plan() -> None:
    new = read({"steps": ["Find"]})
    assert plans.compare(None, new) == (StepChange(Change.ADDED, None, new.steps[0]),)
    assert plans.compare(None, None) == ()
