"""Routes of workflows and of their steps, which run at the agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints import sync_and_async_flow_runners
from checkpoints.database_backend.database_workflow_step_log import DatabaseStepLog
from checkpoints.exceptions import CallInProgress, WorkflowNotFound
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Workflow, WorkflowStep
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.tools.run_call_and_record_outcome import WaitOptions
from checkpoints.workflows import step_rows
from checkpoints.workflows.step_log_protocol import StepValue
from checkpoints.workflows.step_request import StepRequest
from harness_site.api import calls, request_schemas, response_schemas, session_read_audit
from harness_site.api.json_responses import build_json_response
from harness_site.api.reattach_run_of_request import get_or_reattach_owned_session
from harness_site.api.request_pipeline import AGENT, READER, get_client_checkpointer
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["workflows"])


@router.get(
    "/sessions/{escaped:session_id}/workflows",
    auth=READER,
    response=response_schemas.WorkflowList,
    summary="List workflows with their steps",
)
def list_workflows(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    store = get_client_checkpointer(request).store
    session = look_up_and_lock_rows.get_session(store, session_id)
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    rows = Workflow.objects.filter(session=session).order_by("pk")
    workflows = [_serialize_workflow(store, workflow) for workflow in rows]
    return build_json_response({"workflows": mask_json_value(workflows)})


@router.get(
    "/sessions/{escaped:session_id}/workflows/{escaped:workflow_id}",
    auth=READER,
    response=response_schemas.WorkflowState,
    summary="Read a workflow with its steps",
)
def read_workflow(
    request: HttpRequest, session_id: request_schemas.Identifier, workflow_id: request_schemas.Identifier
) -> HttpResponse:
    store = get_client_checkpointer(request).store
    session = look_up_and_lock_rows.get_session(store, session_id)
    workflow = _get_workflow(session.pk, session_id, workflow_id)
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    return build_json_response(mask_json_value(_serialize_workflow(store, workflow)))


@router.post(
    "/sessions/{escaped:session_id}/workflows/{escaped:workflow_id}",
    auth=AGENT,
    response=response_schemas.WorkflowState,
    summary="Open the journal of a workflow, or create it",
)
def open_workflow(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    workflow_id: request_schemas.Identifier,
    body: request_schemas.Fenced,
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    step_log = DatabaseStepLog.open_or_create(checkpointer.store, session_id, workflow_id)
    return build_json_response({"workflow_id": workflow_id, "steps": step_log.list_steps()})


@router.post(
    "/sessions/{escaped:session_id}/workflows/{escaped:workflow_id}/steps",
    auth=AGENT,
    response=response_schemas.ISSUED_STEP,
    summary="Log that a step is about to run, or get its value",
)
def issue_step(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    workflow_id: request_schemas.Identifier,
    body: request_schemas.IssueStep,
) -> HttpResponse:
    """Answer 201: run it now. 200: its stored value. 202: it runs elsewhere. 409: a person has to decide."""
    checkpointer = get_client_checkpointer(request)
    store = checkpointer.store
    owned_session = get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    step_request = _parse_step_request(body)
    _allow_retried_request_to_run_issued_step(request, store, owned_session, workflow_id, body)
    workflow = _get_workflow(owned_session.pk, session_id, workflow_id)
    step_log = DatabaseStepLog(store, session_id, workflow)
    try:
        issued = sync_and_async_flow_runners.run_flow(
            step_log.issue_or_answer_step_flow(step_request, WaitOptions(for_others=False))
        )
    except CallInProgress as error:
        return calls.build_running_call_response(error.call_id, error.tool)
    if isinstance(issued, StepValue):
        return build_json_response({"state": "answered", "value": issued.value})
    return calls.remember_call_and_build_issued_response(owned_session, issued.issued_call, body.tool)


def _parse_step_request(body: request_schemas.IssueStep) -> StepRequest:
    tool = replace(calls.build_tool_of_agent(body), idempotency=calls.parse_idempotency_policy(body))
    args = to_canonical_json(calls.parse_call_args(body), "args")
    return StepRequest(validate_id("step id", body.step_id), tool, args, validate_id("version", body.version))


def _allow_retried_request_to_run_issued_step(
    request: HttpRequest, store: Store, owned_session: OwnedSession, workflow_id: str, body: request_schemas.IssueStep
) -> None:
    if not request.repeated:  # type: ignore[attr-defined]
        return
    step = WorkflowStep.objects.filter(
        session=owned_session.pk, workflow__workflow_id=workflow_id, step_id=body.step_id
    ).first()
    if step is not None:
        calls.allow_retried_request_to_run_issued_call(request, store, owned_session, step.call_id, body.tool)


def _get_workflow(session_pk: int, session_id: str, workflow_id: str) -> Workflow:
    workflow = Workflow.objects.filter(session=session_pk, workflow_id=workflow_id).first()
    if workflow is None:
        raise WorkflowNotFound(session_id, workflow_id)
    return workflow


def _serialize_workflow(store: Store, workflow: Workflow) -> dict[str, Any]:
    return {"workflow_id": workflow.workflow_id, "steps": step_rows.list_steps(store, workflow)}
