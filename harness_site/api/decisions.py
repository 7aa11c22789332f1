"""Routes of decisions: the pending calls, and a decision that is bound to a revision and to arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.decisions.actors import Actor
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import DecisionRefused, InvalidInput, StaleRevision
from checkpoints.formats.canonical_json import parse_json_or_return_text
from checkpoints.models import Decision, ToolCall
from checkpoints.store import look_up_and_lock_rows
from harness_site.accounts.api_tokens import build_token_actor
from harness_site.accounts.record_user_audit_events import find_client_address
from harness_site.api import request_schemas, response_schemas, session_read_audit
from harness_site.api.calls import encode_masked_call
from harness_site.api.idempotent_writes import KEPT_FOR, mark_response_as_storable
from harness_site.api.if_match_or_body_number import get_if_match_or_body_number
from harness_site.api.json_responses import build_json_response
from harness_site.api.request_pipeline import APPROVER, READER, get_client_checkpointer
from harness_site.core.masking.masker import mask_json_value, restore_masked_values

router = Router(tags=["decisions"])


@router.get(
    "/pending",
    auth=READER,
    response=response_schemas.PendingPage,
    summary="List the calls that wait for a person, oldest first",
)
def list_pending(
    request: HttpRequest, agent: str | None = None, after: int | None = None, limit: int = 50
) -> HttpResponse:
    calls = get_client_checkpointer(request).pending_decisions(agent=agent, after=after, limit=limit)
    next_cursor = calls[-1]["cursor"] if len(calls) == limit else None
    return build_json_response({"calls": mask_json_value(calls), "next": next_cursor})


@router.post(
    "/sessions/{escaped:session_id}/calls/{escaped:call_id}/decision",
    auth=APPROVER,
    response=response_schemas.CallCard | response_schemas.Outcome,
    summary="Decide about a call",
)
def decide(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    call_id: request_schemas.Identifier,
    body: request_schemas.Decide,
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    actor = build_token_actor(request.token, address=find_client_address(request))  # type: ignore[attr-defined]
    if body.kind == "verify":
        outcome = checkpointer.verify_call(session_id, call_id, actor=actor, step=body.step, attempt=body.attempt)
        return mark_response_as_storable(build_json_response({"outcome": outcome}))
    revision = get_if_match_or_body_number(request, body.revision, "revision")
    if revision is None:
        raise InvalidInput("A decision takes the revision of the call, in the body or as If-Match.")
    call = _get_call_to_decide(checkpointer, session_id, call_id, body)
    if body.args_digest is not None and body.args_digest != call.args_digest:
        raise StaleRevision(session_id, call_id, revision, call.revision)
    decide_call = _choose_decision_method(checkpointer, body, call)
    try:
        decide_call(
            session_id,
            call_id,
            actor=actor,
            reason=body.reason,
            evidence=body.evidence,
            revision=revision,
            step=call.step,
            attempt=call.attempt,
        )
    except DecisionRefused:
        if not request.repeated or not _was_decided_by_unanswered_attempt(call, actor, body, revision):  # type: ignore[attr-defined]
            raise
    decided_call = _get_call_to_decide(checkpointer, session_id, call_id, body)
    session_read_audit.record_session_read_unless_recent_or_agent(request, decided_call.session)
    return build_json_response(encode_masked_call(checkpointer.store, decided_call), etag=decided_call.revision)


def _get_call_to_decide(
    checkpointer: SyncCheckpointer, session_id: str, call_id: str, body: request_schemas.Decide
) -> ToolCall:
    session = look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    return look_up_and_lock_rows.get_latest_call_attempt(
        checkpointer.store, session, call_id, step=body.step, attempt=body.attempt
    )


def _choose_decision_method(
    checkpointer: SyncCheckpointer, body: request_schemas.Decide, call: ToolCall
) -> Callable[..., None]:
    match body.kind:
        case "confirm_landed":
            return partial(checkpointer.confirm_landed, result_text=body.result or "")
        case "reject":
            return partial(checkpointer.reject_call, message=body.result or body.reason)
        case "respond":
            return partial(checkpointer.respond_call, message=body.result or "")
        case "edit":
            if body.new_args is None:
                raise InvalidInput("A decision of the kind 'edit' takes new_args.")
            # What was masked for the reader and comes back as the mask is what it was.
            return partial(
                checkpointer.edit_call,
                new_args=restore_masked_values(body.new_args, parse_json_or_return_text(call.args)),
            )
    methods: dict[str, Any] = {
        "mark_failed": checkpointer.mark_failed,
        "approve_rerun": checkpointer.approve_rerun,
        "approve": checkpointer.approve_call,
        "withdraw": checkpointer.withdraw_decision,
    }
    return methods[body.kind]  # type: ignore[no-any-return]


def _was_decided_by_unanswered_attempt(
    call: ToolCall, actor: Actor, body: request_schemas.Decide, revision: int
) -> bool:
    """Return whether an unanswered attempt of this request made the decision."""
    decisions = Decision.objects.filter(
        tool_call=call,
        actor=actor.name,
        kind=DecisionKind(body.kind),
        revision=revision,
        created_at__gt=clock.now() - KEPT_FOR,
    )
    return decisions.exists()
