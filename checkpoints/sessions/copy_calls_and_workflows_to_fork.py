"""Copy the call log, in one statement, and the workflow journals of a session into its fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.db.hot_statements import NOW_SQL
from checkpoints.db.sql_names_and_values import (
    convert_values,
    make_placeholders,
    quote_column,
    quote_columns,
    quote_table,
)
from checkpoints.enums import IMPORTED_MARK, CallStatus, InterruptReason, KeyScope
from checkpoints.exceptions import IntegrityError
from checkpoints.models import ToolCall, Workflow, WorkflowStep
from checkpoints.seals import row_seals, sealed_model
from checkpoints.seals.seal_keys import get_seal_keys

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
_OMITTED_COLUMNS = ("id", "supersedes", "row_seal")


def copy_calls_to_fork(
    connection: BaseDatabaseWrapper,
    origin_pk: int,
    forked_pk: int,
    run_id: Any,
    carried: Mapping[CallStatus, CallStatus],
    reason: InterruptReason,
    shift: int,
    version: int,
    *,
    with_imported: bool = True,
) -> None:
    """Copy the calls of a session into its fork, each with the status that `carried` gives for its own.

    A call that becomes interrupted by this gets `reason`. Steps are lowered by `shift`, so that they stay apart from
    those of the fork. `version` is the first one of the fork. Calls of later steps are copied too: if the fork makes
    them again, their results are replayed, and their effects do not happen twice. Calls with a workspace-wide key are
    not copied: every session finds them. A call that was read from a transcript is copied only with `with_imported`, if
    it is completed and its step is not after `version`.
    """
    changed = [before.value for before, after in carried.items() if before != after]
    parameters = [
        forked_pk,
        *convert_values(connection, ToolCall, {"run": run_id}),
        shift,
        *[status.value for pair in carried.items() for status in pair],
        *changed,
        reason.value,
        *changed,
        version,
        origin_pk,
        *[before.value for before in carried],
        KeyScope.SESSION,
        IMPORTED_MARK,
        *([CallStatus.COMPLETED, version] if with_imported else []),
    ]
    calls, originals = ToolCall.objects.using(connection.alias), list[ToolCall]()
    if get_seal_keys() is not None:
        originals = list(calls.filter(session=origin_pk))
        row_seals.verify_rows(originals)
    sql = _build_copy_calls_sql(connection.vendor, len(carried), len(changed), with_imported=with_imported)
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
    if get_seal_keys() is not None:
        copied = [
            call
            for call in originals
            if call.status in carried
            and call.key_scope == KeyScope.SESSION
            and (
                call.side_effects != IMPORTED_MARK
                or (with_imported and call.status == CallStatus.COMPLETED and call.step <= version)
            )
        ]
        _require_copies_equal_originals(copied, list(calls.filter(session=forked_pk)), carried, shift)
    sealed_model.seal_stored_rows(calls.filter(session=forked_pk))


def _require_copies_equal_originals(
    originals: Sequence[ToolCall], copies: Sequence[ToolCall], carried: Mapping[CallStatus, CallStatus], shift: int
) -> None:
    """Require that copies are those of the calls that were verified, before they get seals. Raises `IntegrityError`."""
    names = [name for name in row_seals.get_sealed_fields(ToolCall) if name not in _RESET_COLUMNS + _OMITTED_COLUMNS]
    read = attrgetter(*[getattr(ToolCall._meta.get_field(name), "attname", name) for name in names])
    expected = {
        (call.step - shift, call.call_id, call.attempt): (carried[CallStatus(call.status)], read(call))
        for call in originals
    }
    for copy in copies:
        if expected.pop((copy.step, copy.call_id, copy.attempt), None) != (copy.status, read(copy)):
            why = "it was altered while a fork copied it"
            raise IntegrityError(row_seals.get_table_name(copy), f"copy of {copy}", why)
    for call in originals:
        if (call.step - shift, call.call_id, call.attempt) in expected:
            why = "it was altered or removed while a fork copied it"
            raise IntegrityError(row_seals.get_table_name(call), row_seals.describe_row(call), why)


def _build_copy_calls_sql(vendor: str, carried_count: int, changed_count: int, *, with_imported: bool) -> str:
    """Build the statement that copies the calls; its parameters are in the order of `_RESET_COLUMNS`."""
    columns = [
        field.name for field in ToolCall._meta.concrete_fields if field.name not in _RESET_COLUMNS + _OMITTED_COLUMNS
    ]
    name = partial(quote_column, ToolCall)
    or_in_version = f" OR ({name('status')} = %s AND {name('step')} <= %s)" if with_imported else ""
    changes = f"{name('status')} IN ({make_placeholders(changed_count)})"
    return (
        f"INSERT INTO {quote_table(ToolCall)} ({quote_columns(ToolCall, (*_RESET_COLUMNS, *columns))}) "
        f"SELECT %s, %s, {name('step')} - %s, CASE {name('status')} {'WHEN %s THEN %s ' * carried_count}END, "
        f"CASE WHEN {changes} THEN %s ELSE {name('reason')} END, "
        f"CASE WHEN {changes} THEN {NOW_SQL[vendor]} ELSE {name('interrupted_at')} END, "
        f"'', CASE WHEN {name('answered_version')} <= %s THEN 1 END, {quote_columns(ToolCall, columns)} "
        f"FROM {quote_table(ToolCall)} WHERE {name('session')} = %s "
        f"AND {name('status')} IN ({make_placeholders(carried_count)}) AND {name('key_scope')} = %s "
        f"AND ({name('side_effects')} <> %s{or_in_version}) ORDER BY {name('id')}"
    )


def copy_workflows_to_fork(using: str, origin_pk: int, forked_pk: int) -> None:
    """Copy the journals of a session into its fork. The outcomes of the steps are in the call log."""
    for workflow in Workflow.objects.using(using).filter(session_id=origin_pk).order_by("pk"):
        steps = list(WorkflowStep.objects.using(using).filter(workflow=workflow))
        row_seals.verify_rows([workflow, *steps])
        copy = Workflow(session_id=forked_pk, workflow_id=workflow.workflow_id, created_at=workflow.created_at)
        copy.save(using=using, force_insert=True)
        for step in steps:
            step.pk, step.session_id, step.workflow = None, forked_pk, copy
        WorkflowStep.objects.using(using).bulk_create(steps)
