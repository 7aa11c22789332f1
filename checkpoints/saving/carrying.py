"""What a fork takes along: the call log, in one statement, and the journals of workflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.enums import CallStatus, InterruptReason, KeyScope
from checkpoints.models import ToolCall, Workflow, WorkflowStep
from checkpoints.saving.naming import column, columns, marks, prepared, table
from checkpoints.saving.statements import NOW

#: Columns of a call that its copy in a fork gets anew, and those that it starts without.
_RESET = ("session", "run", "step", "status", "reason", "interrupted_at", "verify_requested_by", "answered_version")
_LEFT_OUT = ("id", "supersedes")


def carry_calls(
    connection: BaseDatabaseWrapper,
    origin_pk: int,
    forked_pk: int,
    run_id: Any,
    carried: Mapping[CallStatus, CallStatus],
    reason: InterruptReason,
    shift: int,
    version: int,
) -> None:
    """Copy the calls of a session into its fork, each with the status that `carried` gives for its own.

    A call that becomes interrupted by this says why: `reason`. Steps move down by `shift`, so that they stay apart
    from those of the fork. What `version`, which is the first one of the fork, has answered is answered there; later
    results are not in its transcript. Calls with a workspace-wide key stay behind: they are found from everywhere.
    """
    copied = [field.name for field in ToolCall._meta.concrete_fields if field.name not in _RESET + _LEFT_OUT]
    now = NOW[connection.vendor]
    status, old = column(ToolCall, "status"), [from_.value for from_ in carried]
    becomes = " ".join(["WHEN %s THEN %s"] * len(carried))
    newly = [from_.value for from_, to in carried.items() if from_ != to]
    sql = (
        f"INSERT INTO {table(ToolCall)} ({columns(ToolCall, (*_RESET, *copied))}) "
        f"SELECT %s, %s, {column(ToolCall, 'step')} - %s, CASE {status} {becomes} END, "
        f"CASE WHEN {status} IN ({marks(len(newly))}) THEN %s ELSE "
        f"{column(ToolCall, 'reason')} END, CASE WHEN {status} IN ({marks(len(newly))}) THEN {now} ELSE "
        f"{column(ToolCall, 'interrupted_at')} END, '', "
        f"CASE WHEN {column(ToolCall, 'answered_version')} <= %s THEN 1 END, "
        f"{columns(ToolCall, copied)} FROM {table(ToolCall)} "
        f"WHERE {column(ToolCall, 'session')} = %s AND {status} IN ({marks(len(old))}) "
        f"AND {column(ToolCall, 'key_scope')} = %s "
        f"ORDER BY {column(ToolCall, 'id')}"
    )
    cases = [value.value for pair in carried.items() for value in pair]
    run = prepared(connection, ToolCall, {"run": run_id})
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [forked_pk, *run, shift, *cases, *newly, reason.value, *newly, version, origin_pk, *old, KeyScope.SESSION],
        )


def carry_workflows(using: str, origin_pk: int, forked_pk: int) -> None:
    """Copy the journals of a session into its fork. What became of the steps stands in the call log."""
    for workflow in Workflow.objects.using(using).filter(session_id=origin_pk).order_by("pk"):
        steps = list(WorkflowStep.objects.using(using).filter(workflow=workflow))
        workflow.pk, workflow.session_id = None, forked_pk
        workflow.save(using=using, force_insert=True)
        for step in steps:
            step.pk, step.session_id, step.workflow = None, forked_pk, workflow
        WorkflowStep.objects.using(using).bulk_create(steps)
