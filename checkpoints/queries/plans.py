"""Plans as lists of steps, and how one differs from another.

A plan is whatever its agent saved. A list of steps under one of the usual names is read as such; everything else
stays available as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from checkpoints.serde import canonical, parse

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
class Step:
    """`state` is None where the plan says none; `word` is the plan's own word for it. `rest` is everything else."""

    text: str
    state: StepState | None
    word: str
    rest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` is empty where no list of steps was recognised; `rest` is what else the plan holds, `source` all of it
    as canonical JSON text."""

    steps: tuple[Step, ...]
    rest: dict[str, Any]
    source: str

    @property
    def done(self) -> int:
        return sum(step.state is StepState.DONE for step in self.steps)


class Change(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class StepChange:
    """`old` is None for an added step, `new` for a removed one."""

    change: Change
    old: Step | None
    new: Step | None


def read(stored: str | None) -> Plan | None:
    """The plan of a checkpoint; None where it has none. A damaged one comes back as text in `rest`."""
    if stored is None:
        return None
    try:
        value = parse(stored)
    except ValueError:
        return Plan((), {"unreadable": stored}, stored)
    if not isinstance(value, dict):
        return Plan((), {"plan": value}, stored)
    key = next((key for key in _LISTS if _is_steps(value.get(key))), None)
    if key is None:
        return Plan((), value, stored)
    return Plan(tuple(map(_step, value[key])), {name: item for name, item in value.items() if name != key}, stored)


def compare(old: Plan | None, new: Plan | None) -> tuple[StepChange, ...]:
    """The steps of both in order. A step is the same one if its text is; what is left over is paired in place."""
    before, after = old.steps if old else (), new.steps if new else ()
    matcher = SequenceMatcher(None, [step.text for step in before], [step.text for step in after], autojunk=False)
    changes: list[StepChange] = []
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        changes += _paired(before[i1:i2], after[j1:j2])
    return tuple(changes)


def _paired(old: Sequence[Step], new: Sequence[Step]) -> list[StepChange]:
    both = min(len(old), len(new))
    changes = [
        StepChange(Change.SAME if was == now else Change.CHANGED, was, now)
        for was, now in zip(old[:both], new[:both], strict=True)
    ]
    changes += [StepChange(Change.REMOVED, was, None) for was in old[both:]]
    return changes + [StepChange(Change.ADDED, None, now) for now in new[both:]]


def _is_steps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) or _text_key(item) for item in value)


def _text_key(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    return next((key for key in _TEXTS if isinstance(item.get(key), str) and item[key]), None)


def _step(item: Any) -> Step:
    key = _text_key(item)
    if key is None:
        return Step(item, None, "", {})
    found = next((name for name in _STATES if isinstance(item.get(name), str | bool) and name != key), None)
    state, word = _state(item[found]) if found else (None, "")
    return Step(item[key], state, word, {name: value for name, value in item.items() if name not in {key, found}})


def _state(value: str | bool) -> tuple[StepState | None, str]:
    if isinstance(value, bool):
        state = StepState.DONE if value else StepState.TODO
        return state, state.value
    state_of = _WORDS.get(value.strip().lower().replace("-", "_").replace(" ", "_"))
    return state_of, state_of.value if state_of else value


def text_of(plan: Plan | None) -> str:
    """What a plan holds beside its steps, as canonical text."""
    return canonical(plan.rest) if plan and plan.rest else ""
