"""Plans as lists of steps, and the differences between two plans.

Agents save plans in any form. A list of steps under a common name is parsed; everything else stays available as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from checkpoints.formats import parse_json, to_canonical_json

_LISTS = ("steps", "items", "tasks", "todos")
_TEXTS = ("description", "title", "text", "content", "name", "task", "step", "goal", "summary")
_STATES = ("status", "state", "done", "completed")


class StepState(StrEnum):
    TODO = "to do"
    DOING = "in progress"
    DONE = "done"
    BLOCKED = "blocked"
    FAILED = "failed"
    SKIPPED = "skipped"


_WORDS = {
    **dict.fromkeys(("todo", "to_do", "pending", "not_started", "open", "planned", "new", "queued"), StepState.TODO),
    **dict.fromkeys(("doing", "in_progress", "active", "running", "started", "current", "working"), StepState.DOING),
    **dict.fromkeys(("done", "complete", "completed", "finished", "success", "succeeded"), StepState.DONE),
    **dict.fromkeys(("blocked", "waiting", "on_hold", "paused"), StepState.BLOCKED),
    **dict.fromkeys(("failed", "error", "errored"), StepState.FAILED),
    **dict.fromkeys(("skipped", "cancelled", "canceled", "dropped", "abandoned"), StepState.SKIPPED),
}


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step. `state` is None if the plan has none; `word` is the plan's own word for one that is unknown; `rest`
    holds the other fields.

    `changed_version` is the version that gave the step its state, saved at `changed_at`; None if it is not known.
    """

    text: str
    state: StepState | None
    word: str
    rest: dict[str, Any]
    changed_version: int | None = field(default=None, compare=False)
    changed_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `steps` is empty if no list of steps was recognized; `rest` holds the other fields.

    `source` is the complete plan as canonical JSON text.
    """

    steps: tuple[PlanStep, ...]
    rest: dict[str, Any]
    source: str

    @property
    def goal(self) -> str:
        """Return the goal if it is a text, else an empty text."""
        goal = self.rest.get("goal", "")
        return goal if isinstance(goal, str) else ""

    @property
    def rest_without_goal(self) -> dict[str, Any]:
        return {name: value for name, value in self.rest.items() if name != "goal"} if self.goal else self.rest

    @property
    def done_count(self) -> int:
        return sum(step.state is StepState.DONE for step in self.steps)

    @property
    def open_count(self) -> int:
        """Number of steps that are to do or begun."""
        return sum(step.state in {StepState.TODO, StepState.DOING} for step in self.steps)


class StepChangeKind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class StepChange:
    """Change of a step: `old` is None for an added step, `new` for a removed one."""

    change: StepChangeKind
    old: PlanStep | None
    new: PlanStep | None


def parse_checkpoint_plan(stored: str | None) -> Plan | None:
    """Parse the plan of a checkpoint; None if it has none. Damaged JSON is returned as text in `rest`."""
    if stored is None:
        return None
    try:
        value = parse_json(stored)
    except ValueError:
        return Plan((), {"unreadable": stored}, stored)
    if not isinstance(value, dict):
        return Plan((), {"plan": value}, stored)
    key = next((key for key in _LISTS if _is_step_list(value.get(key))), None)
    if key is None:
        return Plan((), value, stored)
    return Plan(
        tuple(map(_parse_step, value[key])), {name: item for name, item in value.items() if name != key}, stored
    )


def compare_plan_steps(old: Plan | None, new: Plan | None) -> tuple[StepChange, ...]:
    """List the steps of both plans in order, matched by text; the remaining ones are paired by position."""
    before, after = old.steps if old else (), new.steps if new else ()
    matcher = SequenceMatcher(None, [step.text for step in before], [step.text for step in after], autojunk=False)
    changes: list[StepChange] = []
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        changes += _pair_steps_by_position(before[i1:i2], after[j1:j2])
    return tuple(changes)


def _pair_steps_by_position(old: Sequence[PlanStep], new: Sequence[PlanStep]) -> list[StepChange]:
    common_length = min(len(old), len(new))
    changes = [
        StepChange(StepChangeKind.SAME if old_step == new_step else StepChangeKind.CHANGED, old_step, new_step)
        for old_step, new_step in zip(old[:common_length], new[:common_length], strict=True)
    ]
    changes += [StepChange(StepChangeKind.REMOVED, old_step, None) for old_step in old[common_length:]]
    return changes + [StepChange(StepChangeKind.ADDED, None, new_step) for new_step in new[common_length:]]


def _is_step_list(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(item, str) or _find_text_key(item) for item in value)
    )


def _find_text_key(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    return next((key for key in _TEXTS if isinstance(item.get(key), str) and item[key]), None)


def _parse_step(item: Any) -> PlanStep:
    key = _find_text_key(item)
    if key is None:
        return PlanStep(item, None, "", {})
    state_name = next((name for name in _STATES if isinstance(item.get(name), str | bool) and name != key), None)
    state, word = _parse_step_state_and_word(item[state_name]) if state_name else (None, "")
    return PlanStep(
        item[key], state, word, {name: value for name, value in item.items() if name not in {key, state_name}}
    )


def _parse_step_state_and_word(value: str | bool) -> tuple[StepState | None, str]:
    if isinstance(value, bool):
        state = StepState.DONE if value else StepState.TODO
        return state, state.value
    state_of = _WORDS.get(value.strip().lower().replace("-", "_").replace(" ", "_"))
    return state_of, state_of.value if state_of else value


def format_other_plan_fields(plan: Plan | None) -> str:
    """Return the fields of a plan other than its steps as canonical JSON text."""
    return to_canonical_json(plan.rest) if plan and plan.rest else ""
