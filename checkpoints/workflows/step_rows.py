"""Rows of the steps of a workflow in its journal."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models import Max

from checkpoints.calls import require_unaltered_call
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import DECIDING_KINDS, LIVE_CALL_STATUSES, CallStatus, DecisionKind, KeyScope
from checkpoints.exceptions import CheckpointCorrupted, SchemaFromFuture, StepIdentityChanged
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json
from checkpoints.generate_and_validate_ids import MAX_LENGTH, validate_id
from checkpoints.models import Decision, ToolCall, Workflow, WorkflowStep
from checkpoints.seals import row_seals
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.tools.idempotency import make_idempotency_key
from checkpoints.workflows.step_request import StepRequest

_KINDS_GIVING_RESULTS = frozenset({DecisionKind.CONFIRM_LANDED, DecisionKind.PROBE_LANDED, DecisionKind.RESPOND})


def get_or_create_workflow_and_verify_steps(store: Store, owned_session: OwnedSession, workflow_id: str) -> Workflow:
    """Return the workflow's row, created if there is none, after reading and checking its whole journal.

    Raises `SchemaFromFuture` and `CheckpointCorrupted`; then no step of the workflow may run.
    """
    validate_id("workflow id", workflow_id)
    with database_operation(store.using):
        workflow, _ = Workflow.objects.using(store.using).get_or_create(
            session_id=owned_session.pk, workflow_id=workflow_id
        )
        steps = list(WorkflowStep.objects.using(store.using).filter(workflow=workflow))
        row_seals.verify_rows([workflow, *steps])
        newest = max((step.schema_version for step in steps), default=0)
        if newest > SCHEMA_VERSION:
            raise SchemaFromFuture(owned_session.session_id, newest, SCHEMA_VERSION)
        for call in _load_live_calls_by_key(store, owned_session.pk, [step.idempotency_key for step in steps]).values():
            verify_call_and_decode_step_value(store, call)
    return workflow


def get_or_create_step_or_replace_identity(
    store: Store, owned_session: OwnedSession, workflow: Workflow, request: StepRequest
) -> WorkflowStep:
    """Return the step's row in the journal, created if there is none.

    A step that never happened may get another identity; one that has, or may have, raises `StepIdentityChanged`.
    """
    steps = WorkflowStep.objects.using(store.using).filter(workflow=workflow, step_id=request.step_id)
    with database_operation(store.using):
        step = steps.first()
        row_seals.verify_rows([step] if step else ())
        if step is not None and not _list_changed_step_fields(step, request):
            return step
        with transaction.atomic(using=store.using):
            look_up_and_lock_rows.lock_owned_session(store, owned_session)
            step = steps.first()
            if step is None:
                return _create_step(store, owned_session, workflow, request)
            if not _list_changed_step_fields(step, request):
                return step
            return _replace_identity_or_raise_if_step_happened(store, owned_session, workflow, step, request)


def _list_changed_step_fields(step: WorkflowStep, request: StepRequest) -> list[str]:
    pairs = {
        "function": (step.function, request.tool.name),
        "arguments": (step.args_digest, request.args_digest),
        "version": (step.version, request.version),
    }
    return [label for label, (old_value, new_value) in pairs.items() if old_value != new_value]


def _create_step(store: Store, owned_session: OwnedSession, workflow: Workflow, request: StepRequest) -> WorkflowStep:
    steps = WorkflowStep.objects.using(store.using).filter(workflow=workflow)
    last: int | None = steps.aggregate(last=Max("position"))["last"]
    return WorkflowStep.objects.using(store.using).create(
        session_id=owned_session.pk,
        workflow=workflow,
        step_id=request.step_id,
        position=0 if last is None else last + 1,
        schema_version=SCHEMA_VERSION,
        **_build_step_identity_columns(store, owned_session, workflow, request, 1),
    )


def _replace_identity_or_raise_if_step_happened(
    store: Store, owned_session: OwnedSession, workflow: Workflow, step: WorkflowStep, request: StepRequest
) -> WorkflowStep:
    live = _load_live_calls_by_key(store, owned_session.pk, [step.idempotency_key]).get(step.idempotency_key)
    if live is not None:
        raise StepIdentityChanged(
            owned_session.session_id,
            workflow.workflow_id,
            step.step_id,
            _list_changed_step_fields(step, request),
            live.status,
        )
    for field, value in _build_step_identity_columns(
        store, owned_session, workflow, request, step.generation + 1
    ).items():
        setattr(step, field, value)
    step.save(using=store.using)
    return step


def _build_step_identity_columns(
    store: Store, owned_session: OwnedSession, workflow: Workflow, request: StepRequest, generation: int
) -> dict[str, Any]:
    label = f"{workflow.workflow_id}/{request.step_id}"
    if generation > 1:
        label = f"{label}#{generation}"
    return {
        "function": request.tool.name,
        "version": request.version,
        "args_digest": request.args_digest,
        "generation": generation,
        "call_id": label if len(label) <= MAX_LENGTH else f"{label[:180]}…{digests.digest_text(label)}",
        "idempotency_key": _make_step_key(store, owned_session, workflow, request),
    }


def _make_step_key(store: Store, owned_session: OwnedSession, workflow: Workflow, request: StepRequest) -> str:
    """Make the key of a step: an operation of its own, unless its tool has a workspace scope or a key function."""
    tool = request.tool
    if tool.scope == KeyScope.SESSION and not callable(tool.idempotency):
        return digests.digest_key_parts(
            "step", [store.workspace, owned_session.key_space], workflow.workflow_id, request.step_id
        )
    return make_idempotency_key(
        tool.idempotency or "once",
        tool.scope,
        workspace=store.workspace,
        key_space=owned_session.key_space,
        tool=tool.name,
        args=parse_json(request.args),
        call_id=request.step_id,
        step=None,
    )


def _load_live_calls_by_key(store: Store, session_pk: int, keys: list[str]) -> dict[str, ToolCall]:
    """Load the live call of each key that has one."""
    live = ToolCall.objects.using(store.using).filter(idempotency_key__in=keys, status__in=sorted(LIVE_CALL_STATUSES))
    session_calls = live.filter(session_id=session_pk) | live.filter(
        workspace_id=store.workspace_id, key_scope=KeyScope.WORKSPACE
    )
    return {call.idempotency_key: call for call in session_calls.select_related("session")}


def find_live_call_of_step(store: Store, owned_session: OwnedSession, step: WorkflowStep) -> ToolCall | None:
    with database_operation(store.using, writes=False):
        return _load_live_calls_by_key(store, owned_session.pk, [step.idempotency_key]).get(step.idempotency_key)


def verify_call_and_decode_step_value(store: Store, call: ToolCall) -> Any:
    """Return the value of a step's call, decoded from JSON; None while there is no result.

    An answer that a person or a hook gave as text is parsed if it is the JSON of an object or list. Raises
    `CheckpointCorrupted`.
    """
    require_unaltered_call.require_call_unaltered(call)
    if call.result is None or call.status != CallStatus.COMPLETED:
        return None
    try:
        value = parse_json(call.result)
    except ValueError as error:
        label = f"the result of call {call.call_id!r}"
        raise CheckpointCorrupted(call.session.session_id, label, str(error)) from error
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["} and _was_result_set_by_decision(store, call):
        with suppress(ValueError):
            return parse_json(value)
    return value


def _was_result_set_by_decision(store: Store, call: ToolCall) -> bool:
    decisions = Decision.objects.using(store.using).filter(tool_call=call, kind__in=sorted(DECIDING_KINDS), final=True)
    kind = decisions.order_by(*Decision.IN_ORDER).values_list("kind", flat=True).last()
    return kind in _KINDS_GIVING_RESULTS


def list_steps(store: Store, workflow: Workflow) -> list[dict[str, Any]]:
    """List the steps of a workflow in the order in which they were first requested, with their outcomes."""
    with database_operation(store.using, writes=False):
        rows = list(WorkflowStep.objects.using(store.using).filter(workflow=workflow).order_by("position"))
        row_seals.verify_rows([workflow, *rows])
        calls = ToolCall.objects.using(store.using).filter(
            session_id=workflow.session_id, call_id__in=[step.call_id for step in rows]
        )
        attempts: dict[str, list[ToolCall]] = {}
        for call in calls.select_related("session").order_by("step", "attempt"):
            attempts.setdefault(call.call_id, []).append(call)
        return [_step_to_dict(store, step, attempts.get(step.call_id, [])) for step in rows]


def _step_to_dict(store: Store, step: WorkflowStep, attempts: list[ToolCall]) -> dict[str, Any]:
    last = attempts[-1] if attempts else None
    return {
        "step_id": step.step_id,
        "function": step.function,
        "version": step.version,
        "call_id": step.call_id,
        "status": None if last is None else last.status,
        "attempts": len(attempts),
        "result": None if last is None else verify_call_and_decode_step_value(store, last),
        "started_at": None if last is None else last.issued_at.isoformat(),
    }
