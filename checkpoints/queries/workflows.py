"""The journals of a session: each step of each workflow, and the call of the log that says what became of it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Self

from checkpoints.enums import LIVE_CALL, KeyScope
from checkpoints.models import Session, ToolCall, WorkflowStep
from checkpoints.queries import calls, keyset
from checkpoints.queries.calls import CallRecord

PAGE = 100
_TOKEN = re.compile(r"([0-9]{1,18})~([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which step a page begins: the key of its workflow, and its position there."""

    workflow: int
    position: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """The place that `str` made, or None where `token` is something else."""
        found = _TOKEN.fullmatch(token)
        return None if found is None else cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.workflow}~{self.position}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The call of another session that is the same operation of the workspace, and so answers a step here."""

    session_pk: int
    call_pk: int
    status: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as the journal has it. `position` counts from 0; `generation` counts the identities it has had.

    `attempts` are its calls, oldest first; a step that has none may be answered `elsewhere`.
    """

    step_id: str
    position: int
    function: str
    version: str
    generation: int
    attempts: tuple[CallRecord, ...]
    elsewhere: Elsewhere | None

    @property
    def call(self) -> CallRecord | None:
        """The attempt that counts."""
        return self.attempts[-1] if self.attempts else None


@dataclass(frozen=True, slots=True)
class WorkflowPart:
    """A workflow, or as much of it as stands on a page; `begun` is False where its first steps are on another one."""

    workflow_id: str
    created_at: datetime
    begun: bool
    steps: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """Workflows in the order in which they were opened, their steps in that in which they were first asked for."""

    parts: tuple[WorkflowPart, ...]
    after: Place | None


def page(session_pk: int, *, after: Place | None = None, size: int = PAGE) -> WorkflowPage:
    found = WorkflowStep.objects.filter(workflow__session=session_pk).select_related("workflow")
    if after is not None:
        found = found.filter(keyset.following(("workflow", "position"), (after.workflow, after.position)))
    steps = list(found.order_by("workflow", "position")[: size + 1])
    shown = steps[:size]
    rows = _rows(session_pk, shown)
    parts = [list(group) for _, group in groupby(shown, key=lambda step: step.workflow_id)]
    last = Place(shown[-1].workflow_id, shown[-1].position) if len(steps) > size else None
    return WorkflowPage(tuple(_part(part, rows) for part in parts), last)


def _part(steps: list[WorkflowStep], rows: dict[int, StepRow]) -> WorkflowPart:
    workflow = steps[0].workflow
    told = tuple(rows[step.pk] for step in steps)
    return WorkflowPart(workflow.workflow_id, workflow.created_at, told[0].position == 0, told)


def _rows(session_pk: int, steps: list[WorkflowStep]) -> dict[int, StepRow]:
    attempts: defaultdict[str, list[CallRecord]] = defaultdict(list)
    for record in calls.named(session_pk, {step.call_id for step in steps}):
        attempts[record.call_id].append(record)
    elsewhere = _elsewhere(session_pk, [step.idempotency_key for step in steps if step.call_id not in attempts])
    return {
        step.pk: StepRow(
            step_id=step.step_id,
            position=step.position,
            function=step.function,
            version=step.version,
            generation=step.generation,
            attempts=tuple(attempts[step.call_id]),
            elsewhere=elsewhere.get(step.idempotency_key),
        )
        for step in steps
    }


def _elsewhere(session_pk: int, keys: list[str]) -> dict[str, Elsewhere]:
    """By its key: the workspace has one live call of such an operation."""
    workspace = Session.objects.filter(pk=session_pk).values("workspace")[:1]
    live = ToolCall.objects.filter(
        workspace=workspace, key_scope=KeyScope.WORKSPACE, status__in=sorted(LIVE_CALL), idempotency_key__in=keys
    )
    found = live.exclude(session=session_pk).values_list("idempotency_key", "session_id", "pk", "status")
    return {key: Elsewhere(owner, pk, status) for key, owner, pk, status in found}
