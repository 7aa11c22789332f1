"""Workflows of a session: their steps, each with the logged calls that determine its outcome."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Self

from checkpoints.db import keyset_pagination
from checkpoints.enums import LIVE_CALL_STATUSES, KeyScope
from checkpoints.models import Session, ToolCall, WorkflowStep
from checkpoints.seals import row_seals
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallRecord

PAGE = 100
_TOKEN = re.compile(r"([0-9]{1,18})~([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkflowCursor:
    """Cursor of a page: the key of the workflow and the position of the last step."""

    workflow: int
    position: int

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """Parse a cursor made by `str`; None if `token` is invalid."""
        match = _TOKEN.fullmatch(token)
        return None if match is None else cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.workflow}~{self.position}"


@dataclass(frozen=True, slots=True)
class OtherSessionCall:
    """A call of another session for the same operation of the workspace, whose result this step uses."""

    session_pk: int
    call_pk: int
    status: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. `position` counts from 0; `generation` is the number of identities it has had.

    `attempts` are its calls, oldest first; a step without any may be answered `elsewhere`.
    """

    step_id: str
    position: int
    function: str
    version: str
    generation: int
    attempts: tuple[CallRecord, ...]
    elsewhere: OtherSessionCall | None

    @property
    def newest_attempt(self) -> CallRecord | None:
        """Return the newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def has_named_function(self) -> bool:
        """Return whether the function has a name that tells more than the step: a lambda has none."""
        return not self.function.endswith("<lambda>")


@dataclass(frozen=True, slots=True)
class WorkflowPart:
    """A workflow, or the part of it on a page; `begun` is False if its first steps are on an earlier page."""

    workflow_id: str
    created_at: datetime
    begun: bool
    steps: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """A page of workflows in the order of creation, with their steps in the order of first request."""

    parts: tuple[WorkflowPart, ...]
    after: WorkflowCursor | None


def load_workflow_page(session_pk: int, *, after: WorkflowCursor | None = None, size: int = PAGE) -> WorkflowPage:
    steps_of_session = WorkflowStep.objects.filter(workflow__session=session_pk).select_related("workflow")
    if after is not None:
        steps_of_session = steps_of_session.filter(
            keyset_pagination.build_after_row_condition(("workflow", "position"), (after.workflow, after.position))
        )
    steps = list(steps_of_session.order_by("workflow", "position")[: size + 1])
    page_steps = steps[:size]
    row_seals.verify_rows(page_steps)
    row_seals.verify_rows({step.workflow_id: step.workflow for step in page_steps}.values())
    rows = _load_step_rows(session_pk, page_steps)
    parts = [list(group) for _, group in groupby(page_steps, key=lambda step: step.workflow_id)]
    last = WorkflowCursor(page_steps[-1].workflow_id, page_steps[-1].position) if len(steps) > size else None
    return WorkflowPage(tuple(_build_workflow_part(part, rows) for part in parts), last)


def _build_workflow_part(steps: list[WorkflowStep], rows: dict[int, StepRow]) -> WorkflowPart:
    workflow = steps[0].workflow
    step_rows = tuple(rows[step.pk] for step in steps)
    return WorkflowPart(workflow.workflow_id, workflow.created_at, step_rows[0].position == 0, step_rows)


def _load_step_rows(session_pk: int, steps: list[WorkflowStep]) -> dict[int, StepRow]:
    attempts: defaultdict[str, list[CallRecord]] = defaultdict(list)
    for record in call_records.load_calls_with_ids_and_open_or_since_step(session_pk, {step.call_id for step in steps}):
        attempts[record.call_id].append(record)
    other_calls = _load_live_workspace_calls_of_other_sessions(
        session_pk, [step.idempotency_key for step in steps if step.call_id not in attempts]
    )
    return {
        step.pk: StepRow(
            step_id=step.step_id,
            position=step.position,
            function=step.function,
            version=step.version,
            generation=step.generation,
            attempts=tuple(attempts[step.call_id]),
            elsewhere=other_calls.get(step.idempotency_key),
        )
        for step in steps
    }


def _load_live_workspace_calls_of_other_sessions(session_pk: int, keys: list[str]) -> dict[str, OtherSessionCall]:
    """Load the calls of other sessions by idempotency key; the workspace has one live call for each key."""
    workspace = Session.objects.filter(pk=session_pk).values("workspace")[:1]
    live_calls = ToolCall.objects.filter(
        workspace=workspace,
        key_scope=KeyScope.WORKSPACE,
        status__in=sorted(LIVE_CALL_STATUSES),
        idempotency_key__in=keys,
    )
    calls = live_calls.exclude(session=session_pk).values_list("idempotency_key", "session_id", "pk", "status")
    return {key: OtherSessionCall(owner, pk, status) for key, owner, pk, status in calls}
