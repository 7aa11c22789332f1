"""Versions in which the steps of a plan got the states that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from checkpoints.models import Checkpoint
from harness_site.sessions.plan_steps_and_changes import Plan, PlanStep, StepState, parse_checkpoint_plan

#: Largest number of versions that are read, from the newest back.
_MAX_VERSIONS: Final = 200

#: Text of a step, and how many steps before it have the same text.
_StepKey: TypeAlias = tuple[str, int]


def add_state_versions_to_plan_steps(session_pk: int, version: int, plan: Plan) -> Plan:
    """Return the plan of a version with the version that gave each step its state. One query.

    A step that is to do since its plan was first saved has none, nor one whose state is older than the versions read.
    """
    if not plan.steps:
        return plan
    checkpoints = Checkpoint.objects.filter(session=session_pk, version__lte=version).order_by("-version")
    rows = list(checkpoints.values_list("version", "created_at", "plan")[: _MAX_VERSIONS + 1])
    unresolved = dict(_iterate_keyed_steps(plan))
    since: dict[_StepKey, tuple[int, datetime]] = {}
    for number, saved_at, stored in rows[:_MAX_VERSIONS]:
        if (earlier := parse_checkpoint_plan(stored)) is None:
            continue  # this version states no plan
        steps = dict(_iterate_keyed_steps(earlier))
        unresolved = {
            key: step
            for key, step in unresolved.items()
            if key in steps and (steps[key].state, steps[key].word) == (step.state, step.word)
        }
        since |= dict.fromkeys(unresolved, (number, saved_at))
    for key, step in unresolved.items():  # had its state in the oldest version that was read
        if len(rows) > _MAX_VERSIONS or step.state in {StepState.TODO, None}:
            since.pop(key, None)
    changes = ((step, *since.get(key, (None, None))) for key, step in _iterate_keyed_steps(plan))
    changed = (replace(step, changed_version=number, changed_at=at) for step, number, at in changes)
    return replace(plan, steps=tuple(changed))


def _iterate_keyed_steps(plan: Plan) -> Iterator[tuple[_StepKey, PlanStep]]:
    seen: Counter[str] = Counter()
    for step in plan.steps:
        yield (step.text, seen[step.text]), step
        seen[step.text] += 1
