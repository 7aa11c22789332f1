"""Copy the call log, in one statement, and the workflow journals of a session into its fork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.db.column_names import convert_values, make_placeholders, quote_column, quote_columns, quote_table
from checkpoints.db.hot_statements import NOW_SQL
from checkpoints.enums import CallStatus, InterruptReason, KeyScope
from checkpoints.models import ToolCall, Workflow, WorkflowStep

#: Columns of a call that its copy in a fork gets anew, and those that its copy leaves empty.
_RESET_COLUMNS = (
    "session",
    "run",
    "step",
    "status",
    "reason",
    "interrupted_at",
    "verify_requested_by",
    "answered_version",
)
_OMITTED_COLUMNS = ("id", "supersedes")


def copy_calls_to_fork(
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

    A call that becomes interrupted by this gets `reason`. Steps are lowered by `shift`, so that they stay apart from
    those of the fork. Calls answered in `version`, the first one of the fork, are answered there; later results are not
    in its transcript. Calls with a workspace-wide key are not copied: every session finds them.
    """
    columns = [
        field.name for field in ToolCall._meta.concrete_fields if field.name not in _RESET_COLUMNS + _OMITTED_COLUMNS
    ]
    now = NOW_SQL[connection.vendor]
    status, source_statuses = quote_column(ToolCall, "status"), [from_.value for from_ in carried]
    status_cases = " ".join(["WHEN %s THEN %s"] * len(carried))
    changed_statuses = [from_.value for from_, to in carried.items() if from_ != to]
    sql = (
        f"INSERT INTO {quote_table(ToolCall)} ({quote_columns(ToolCall, (*_RESET_COLUMNS, *columns))}) "
        f"SELECT %s, %s, {quote_column(ToolCall, 'step')} - %s, CASE {status} {status_cases} END, "
        f"CASE WHEN {status} IN ({make_placeholders(len(changed_statuses))}) THEN %s ELSE "
        f"{quote_column(ToolCall, 'reason')} END, CASE WHEN {status} IN "
        f"({make_placeholders(len(changed_statuses))}) THEN {now} ELSE "
        f"{quote_column(ToolCall, 'interrupted_at')} END, '', "
        f"CASE WHEN {quote_column(ToolCall, 'answered_version')} <= %s THEN 1 END, "
        f"{quote_columns(ToolCall, columns)} FROM {quote_table(ToolCall)} "
        f"WHERE {quote_column(ToolCall, 'session')} = %s AND {status} IN ({make_placeholders(len(source_statuses))}) "
        f"AND {quote_column(ToolCall, 'key_scope')} = %s "
        f"ORDER BY {quote_column(ToolCall, 'id')}"
    )
    case_parameters = [value.value for pair in carried.items() for value in pair]
    run = convert_values(connection, ToolCall, {"run": run_id})
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                forked_pk,
                *run,
                shift,
                *case_parameters,
                *changed_statuses,
                reason.value,
                *changed_statuses,
                version,
                origin_pk,
                *source_statuses,
                KeyScope.SESSION,
            ],
        )


def copy_workflows_to_fork(using: str, origin_pk: int, forked_pk: int) -> None:
    """Copy the journals of a session into its fork. The outcomes of the steps are in the call log."""
    for workflow in Workflow.objects.using(using).filter(session_id=origin_pk).order_by("pk"):
        steps = list(WorkflowStep.objects.using(using).filter(workflow=workflow))
        workflow.pk, workflow.session_id = None, forked_pk
        workflow.save(using=using, force_insert=True)
        for step in steps:
            step.pk, step.session_id, step.workflow = None, forked_pk, workflow
        WorkflowStep.objects.using(using).bulk_create(steps)
