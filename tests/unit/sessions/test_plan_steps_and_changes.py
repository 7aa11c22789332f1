import pytest

from checkpoints.formats import to_canonical_json
from harness_site.sessions import plan_steps_and_changes
from harness_site.sessions.plan_steps_and_changes import Plan, PlanStep, StepChange, StepChangeKind, StepState


def read(plan: object) -> Plan:
    found = plan_steps_and_changes.parse_checkpoint_plan(to_canonical_json(plan))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("item", "step"),
    [
        ({"description": "Pay", "status": "in_progress"}, PlanStep("Pay", StepState.DOING, "in progress", {})),
        ({"title": "Pay", "state": "In-Progress"}, PlanStep("Pay", StepState.DOING, "in progress", {})),
        ({"text": "Pay", "done": True}, PlanStep("Pay", StepState.DONE, "done", {})),
        ({"text": "Pay", "completed": False}, PlanStep("Pay", StepState.TODO, "to do", {})),
        ({"task": "Pay", "status": "on fire"}, PlanStep("Pay", None, "on fire", {})),
        ("Pay", PlanStep("Pay", None, "", {})),
        (
            {"description": "Pay", "status": "done", "evidence": ["re_1"]},
            PlanStep("Pay", StepState.DONE, "done", {"evidence": ["re_1"]}),
        ),
    ],
)
def test_steps_are_parsed_in_common_shapes(item: object, step: PlanStep) -> None:
    assert read({"steps": [item]}).steps == (step,)


def test_plan_keeps_entries_that_are_not_steps() -> None:
    plan = read({"goal": "Refund", "tasks": [{"name": "Pay", "done": True}, {"name": "Mail", "done": False}]})
    assert plan.rest == {"goal": "Refund"}
    assert (plan.goal, plan.rest_without_goal) == ("Refund", {})
    other = read({"goal": ["Refund"], "note": "x", "steps": []})
    assert (other.goal, other.rest_without_goal) == ("", other.rest)
    assert plan.done_count == 1


@pytest.mark.parametrize("value", [{"a": 1}, {}, {"steps": []}, {"steps": [7]}, {"steps": {"a": 1}}])
def test_plan_without_steps_is_kept_completely(value: dict[str, object]) -> None:
    assert read(value) == Plan((), value, to_canonical_json(value))


def test_steps_that_are_to_do_or_begun_are_open() -> None:
    states = ("pending", "in progress", "done", "skipped", "failed")
    plan = read({"steps": [{"text": "a", "status": state} for state in states]})
    assert (plan.open_count, plan.done_count) == (2, 1)


def test_missing_plan_differs_from_an_empty_plan() -> None:
    assert plan_steps_and_changes.parse_checkpoint_plan(None) is None


def test_damaged_plan_is_shown_as_text() -> None:
    assert plan_steps_and_changes.parse_checkpoint_plan('{"steps"') == Plan((), {"unreadable": '{"steps"'}, '{"steps"')


def test_comparison_shows_the_change_of_each_step() -> None:
    old = read({"steps": [{"text": "Find", "done": False}, {"text": "Ask", "done": False}, "Pay"]})
    new = read({"steps": [{"text": "Find", "done": True}, "Pay", "Mail"]})
    assert plan_steps_and_changes.compare_plan_steps(old, new) == (
        StepChange(StepChangeKind.CHANGED, old.steps[0], new.steps[0]),
        StepChange(StepChangeKind.REMOVED, old.steps[1], None),
        StepChange(StepChangeKind.SAME, old.steps[2], new.steps[1]),
        StepChange(StepChangeKind.ADDED, None, new.steps[2]),
    )


def test_comparison_matches_a_reworded_step() -> None:
    old, new = read({"steps": ["Find", "Pay", "Mail"]}), read({"steps": ["Find", "Refund", "Mail"]})
    assert plan_steps_and_changes.compare_plan_steps(old, new)[1] == StepChange(
        StepChangeKind.CHANGED, old.steps[1], new.steps[1]
    )


def test_comparison_without_a_plan() -> None:
    new = read({"steps": ["Find"]})
    assert plan_steps_and_changes.compare_plan_steps(None, new) == (
        StepChange(StepChangeKind.ADDED, None, new.steps[0]),
    )
    assert plan_steps_and_changes.compare_plan_steps(None, None) == ()
