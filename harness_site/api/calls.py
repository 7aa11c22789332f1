"""Routes of tool calls: issue, outcome, the answer of a verify hook, reading."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, Never

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints import sync_and_async_flow_runners
from checkpoints.calls import convert_calls_to_dicts, intent_log, write_outcomes_and_interruptions
from checkpoints.calls.tool_result_and_verify_answer_types import Landed, NotLanded, ToolResult, Unknown
from checkpoints.database_backend.database_call_log import DatabaseCallLog
from checkpoints.decisions import record_verify_hook_answers
from checkpoints.decisions.ask_verify_hooks import VerifyProbe
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, KeyPolicy
from checkpoints.exceptions import CallInProgress, InvalidInput, OwnershipLost
from checkpoints.formats.canonical_json import parse_json_or_return_text, to_canonical_json
from checkpoints.formats.storable_text import replace_unstorable_characters
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Run, ToolCall
from checkpoints.sessions import take_and_release_ownership
from checkpoints.store import call_intent_and_outcome_types, look_up_and_lock_rows
from checkpoints.store.call_intent_and_outcome_types import (
    CallOutcome,
    IssuedCall,
    require_args_dict,
    validate_tool_name,
)
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import get_call_fingerprint
from checkpoints.tools.idempotency import IdempotencyPolicy
from checkpoints.tools.run_call_and_record_outcome import DispatchRequest, WaitOptions
from checkpoints.tools.tool import Tool, tool
from checkpoints.versions.save_version import build_empty_transcript_head
from harness_site.api import request_schemas, response_schemas, session_read_audit
from harness_site.api.idempotent_writes import (
    attach_issued_call_to_response,
    claim_issued_call_for_write,
    mark_response_as_storable,
    refuse_write_unless_key_is_stored_first,
)
from harness_site.api.json_responses import build_json_response
from harness_site.api.models import ApiWrite
from harness_site.api.reattach_run_of_request import (
    get_or_reattach_owned_session,
    get_or_reattach_owned_session_at_newest_version,
    pair_other_processes_calls_with_operations,
)
from harness_site.api.request_pipeline import AGENT, READER, get_client_checkpointer
from harness_site.api.sentence_template_validation import validate_sentence_template
from harness_site.core.masking.masker import mask_json_value, mask_text

router = Router(tags=["calls"])

#: Descriptions of tools whose `Tool` is kept: an agent describes the same few in each of its calls.
_DESCRIBED_TOOLS: Final = 1_000


@router.post(
    "/sessions/{escaped:session_id}/calls",
    auth=AGENT,
    response=response_schemas.ISSUED,
    summary="Log that a call is about to run, or get its answer",
)
def issue_call(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.IssueCall
) -> HttpResponse:
    """Answer 201: run it now. 200: its stored result. 202: it runs elsewhere. 409: a person has to decide."""
    if body.idempotency == "unanswered":  # its pairing with an operation is recorded before the first statement
        refuse_write_unless_key_is_stored_first()
    checkpointer = get_client_checkpointer(request)
    store = checkpointer.store
    owned_session = get_or_reattach_owned_session_at_newest_version(checkpointer, session_id, body.fence)
    if body.idempotency == "unanswered":
        pair_other_processes_calls_with_operations(owned_session)
    for taken in body.taken:
        owned_session.operations.remember_result_as_replayed(taken.number, taken.call_id)
    allow_retried_request_to_run_issued_call(request, store, owned_session, body.call_id, body.tool)
    if body.idempotency == "key":
        return _issue_call_with_agent_key(store, session_id, owned_session, body)
    try:
        outcome = sync_and_async_flow_runners.run_flow(_build_issue_call_flow(store, session_id, body))
    except CallInProgress as error:
        return build_running_call_response(error.call_id, error.tool)
    if isinstance(outcome, ToolResult):
        return build_json_response(_encode_replayed_result(outcome))
    return remember_call_and_build_issued_response(owned_session, outcome.issued_call, body.tool)


def allow_retried_request_to_run_issued_call(
    request: HttpRequest, store: Store, owned_session: OwnedSession, call_id: str, tool: str
) -> None:
    """Let a repeated request run the call that is issued already, if no other request was told to run it."""
    first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]
    if first_attempt is None:
        return
    issued_calls = ToolCall.objects.filter(
        session=owned_session.pk, run=owned_session.run_id, call_id=call_id, tool=tool, status=CallStatus.ISSUED
    )
    for number, key in issued_calls.values_list("pk", "idempotency_key"):
        if claim_issued_call_for_write(first_attempt, number):
            store.unanswered.add(key)
            store.issued.discard(number)


def _build_issue_call_flow(store: Store, session_id: str, body: request_schemas.IssueCall) -> Any:
    validate_id("call id", body.call_id)
    args = parse_call_args(body)
    tool_of_agent = build_tool_of_agent(body)
    if body.continues_open_calls:
        tool_of_agent = replace(tool_of_agent, continues_open_calls=True)
    request = DispatchRequest(
        tool_of_agent,
        parse_idempotency_policy(body),
        args,
        to_canonical_json(args, "args"),
        body.call_id,
        body.step,
    )
    return DatabaseCallLog(store, session_id).issue_or_answer_call_flow(request, WaitOptions(for_others=False))


def parse_call_args(body: request_schemas.DescribedCall) -> dict[str, Any]:
    """Return the arguments. Raises `InvalidArguments`, and `InvalidIdentifier` for the tool."""
    require_args_dict(validate_tool_name(body.tool), body.args)
    return dict(body.args)


def parse_idempotency_policy(body: request_schemas.IssueCall | request_schemas.IssueStep) -> IdempotencyPolicy:
    """Return the policy that the agent's tool has. Raises `InvalidInput`."""
    if body.idempotency != "function":
        return body.idempotency  # type: ignore[return-value]  # `key` does not come here
    key = body.key
    if not key:
        raise InvalidInput("idempotency 'function' takes the key that the tool's function made.")
    return lambda args: key


def build_tool_of_agent(body: request_schemas.DescribedCall) -> Tool:
    """Build the tool as the log describes it; it runs at the agent. Raises `InvalidInput`."""
    return _build_described_tool(
        body.tool,
        tuple(body.side_effects),
        verifiable=body.verifiable,
        scope=body.scope,
        requires_approval=body.requires_approval,
        approvals=body.approvals,
        decide_within=body.decide_within,
        sentence=body.sentence,
        risk=body.risk,
    )


@lru_cache(maxsize=_DESCRIBED_TOOLS)
def _build_described_tool(
    name: str, side_effects: tuple[str, ...], *, verifiable: bool, sentence: str, **options: Any
) -> Tool:
    make = tool(
        name=name,
        side_effects=side_effects,
        verify=_refuse_to_run_on_server if verifiable else None,
        sentence=validate_sentence_template(sentence),
        **options,
    )
    return make(_refuse_to_run_on_server)


def _refuse_to_run_on_server(args: dict[str, Any]) -> Never:
    raise NotImplementedError


def _encode_replayed_result(result: ToolResult) -> dict[str, Any]:
    return {
        "state": "answered",
        "call_id": result.call_id,
        "content": result.content,
        "is_error": result.is_error,
        "replayed": result.replayed,
        "attempt": result.attempt,
        "answered_before": result.answered_before,
    }


def build_running_call_response(call_id: str, tool: str) -> HttpResponse:
    """Answer that the call runs elsewhere."""
    return build_json_response(
        {"state": "running", "call_id": call_id, "tool": tool}, HTTPStatus.ACCEPTED, waiting=True
    )


def remember_call_and_build_issued_response(
    owned_session: OwnedSession, issued_call: IssuedCall, tool: str
) -> HttpResponse:
    """Answer that the agent runs the call now."""
    owned_session.issued_calls[issued_call.call_id] = issued_call
    value = {
        "state": "run",
        "number": issued_call.pk,
        "call_id": issued_call.call_id,
        "step": issued_call.step,
        "attempt": issued_call.attempt,
        "args_json": issued_call.args,
    }
    build_answer_for_others = partial(build_running_call_response, issued_call.call_id, tool)
    response = build_json_response(value, HTTPStatus.CREATED)
    return attach_issued_call_to_response(response, issued_call.pk, build_answer_for_others)


def _issue_call_with_agent_key(
    store: Store, session_id: str, owned_session: OwnedSession, body: request_schemas.IssueCall
) -> HttpResponse:
    """Issue a call whose key the agent made itself. Raises what `record_tool_call_issued` raises."""
    intent = call_intent_and_outcome_types.validate_and_build_call_intent(
        body.call_id, body.tool, body.args, body.key or "", side_effects=body.side_effects, step=body.step
    )
    intent_log.record_issued_call(store, session_id, intent)
    return remember_call_and_build_issued_response(owned_session, owned_session.issued_calls[body.call_id], body.tool)


@router.patch(
    "/sessions/{escaped:session_id}/calls/{escaped:call_id}",
    auth=AGENT,
    response=response_schemas.Status,
    summary="Log the outcome of a call",
)
def settle_call(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    call_id: request_schemas.Identifier,
    body: request_schemas.CallOutcome,
) -> HttpResponse:
    store = get_client_checkpointer(request).store
    if body.status == "interrupted" and body.result is not None:
        raise InvalidInput("An interrupted call has no result. Send the message of its error as error_message.")
    outcome = CallOutcome(
        CallStatus(body.status),
        None if body.result is None else to_canonical_json(body.result, "result"),
        replace_unstorable_characters(body.error_type),
        replace_unstorable_characters(body.error_message),
        body.reason,
    )
    if request.repeated or not _try_to_settle_call_issued_by_this_process(store, session_id, call_id, body, outcome):  # type: ignore[attr-defined]
        _settle_stored_call(request, store, session_id, call_id, body, outcome)
    return mark_response_as_storable(build_json_response({"status": body.status}), found_again=body.attempt is not None)


def _try_to_settle_call_issued_by_this_process(
    store: Store, session_id: str, call_id: str, body: request_schemas.CallOutcome, outcome: CallOutcome
) -> bool:
    """Settle a call that this process has issued to the client. Returns False if it has to be read first."""
    owned_session = store.find_owned_session(session_id)
    if owned_session is None or owned_session.fence != body.fence or body.status == "interrupted":
        return False
    issued_call = owned_session.issued_calls.get(call_id)
    if issued_call is None or (issued_call.step, issued_call.attempt) != (body.step, body.attempt):
        return False
    del owned_session.issued_calls[call_id]
    try:
        write_outcomes_and_interruptions.write_call_outcome_or_store_late_result_and_raise(
            store, owned_session, issued_call, outcome
        )
    finally:
        store.executing.discard(issued_call.pk)
    return True


def _settle_stored_call(
    request: HttpRequest,
    store: Store,
    session_id: str,
    call_id: str,
    body: request_schemas.CallOutcome,
    outcome: CallOutcome,
) -> None:
    """Settle a call after reading it: it may be settled already, or belong to a run that has lost the session."""
    session = look_up_and_lock_rows.get_session(store, session_id)
    call = look_up_and_lock_rows.get_latest_call_attempt(store, session, call_id, step=body.step, attempt=body.attempt)
    if body.fence is None:
        raise write_outcomes_and_interruptions.store_late_result_and_build_refusal(
            store, session_id, call.pk, None, outcome
        )
    owned_session = _get_owned_session_of_issuing_run(store, session_id, session.pk, body.fence)
    is_repeated = request.repeated is not None  # type: ignore[attr-defined]
    try:
        is_stored = call.run_id == owned_session.run_id and write_outcomes_and_interruptions.is_outcome_of_call(
            call, outcome
        )
        if not (is_repeated and is_stored):
            issued_call = IssuedCall(call.pk, call.tool, call.call_id, call.step, call.attempt)
            write_outcomes_and_interruptions.write_call_outcome_or_store_late_result_and_raise(
                store, owned_session, issued_call, outcome, is_repeated=is_repeated
            )
    finally:
        store.executing.discard(call.pk)
    if body.status == "interrupted" and call.key_policy == KeyPolicy.UNANSWERED:
        owned_session.operations.release_pairing(get_call_fingerprint(call), call_id)


def _get_owned_session_of_issuing_run(store: Store, session_id: str, session_pk: int, fence: int) -> OwnedSession:
    """Return the state of the run that issued the call; if it has lost the session, one whose writes come too late."""
    owned_session = store.find_owned_session(session_id)
    if owned_session is not None and owned_session.fence == fence:
        return owned_session
    run = Run.objects.filter(session=session_pk, fence=fence, owner_token=store.token).first()
    if run is None:
        raise OwnershipLost(session_id)
    return OwnedSession(session_pk, session_id, run, fence, "", build_empty_transcript_head(0))


@router.post(
    "/sessions/{escaped:session_id}/calls/{escaped:call_id}/probe",
    auth=AGENT,
    response=response_schemas.Outcome,
    summary="Record what the verify hook of an interrupted call answered",
)
def record_probe(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    call_id: request_schemas.Identifier,
    body: request_schemas.ProbeAnswer,
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    store = checkpointer.store
    session = look_up_and_lock_rows.get_session(store, session_id)
    call = look_up_and_lock_rows.get_latest_call_attempt(store, session, call_id, step=body.step, attempt=body.attempt)
    target = DecisionTarget(session_id, call_id, body.revision, call.step, call.attempt)
    probe = VerifyProbe(call.pk, target, call.tool, call.args, call.args_digest, str(call.run_id), None)
    answer: Landed | NotLanded | Unknown = Unknown(body.why)
    if body.answer == "landed":
        answer = Landed() if body.result is None else Landed(body.result)
    elif body.answer == "not_landed":
        answer = NotLanded()
    outcome = record_verify_hook_answers.record_hook_answer(store, probe, answer)
    return mark_response_as_storable(build_json_response({"outcome": outcome}))


@router.get(
    "/sessions/{escaped:session_id}/calls",
    auth=READER,
    response=response_schemas.CallList,
    summary="List the unfinished calls of a session: issued, interrupted or awaiting approval",
)
def list_pending_calls(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    calls = checkpointer.pending_tool_calls(session_id)
    if not calls:
        look_up_and_lock_rows.get_session(checkpointer.store, session_id)  # raises `SessionNotFound`
    return build_json_response({"calls": mask_json_value(calls)})


@router.get(
    "/sessions/{escaped:session_id}/calls/{escaped:call_id}",
    auth=READER,
    response=response_schemas.CallCard,
    summary="Read a call, or wait until it changes",
)
def read_call(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    call_id: request_schemas.Identifier,
    step: int | None = None,
    attempt: int | None = None,
    revision: int | None = None,
    wait: int = 0,
) -> HttpResponse:
    """With `revision` and `wait` the answer comes when the call has another revision, or after `wait` seconds."""
    store = get_client_checkpointer(request).store
    session = look_up_and_lock_rows.get_session(store, session_id, lock=False)
    call = look_up_and_lock_rows.get_latest_call_attempt(store, session, call_id, step=step, attempt=attempt)
    if call.status == CallStatus.ISSUED:
        call = take_and_release_ownership.interrupt_call_and_end_run_if_lost(store, session, call)
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    unchanged = revision is not None and call.revision == revision
    return build_json_response(encode_masked_call(store, call), etag=call.revision, waiting=unchanged)


def encode_masked_call(store: Store, call: ToolCall) -> dict[str, Any]:
    """Encode the facts of a call, masked for the reader."""
    reasons = convert_calls_to_dicts.load_verify_hook_unknown_reasons(store, [call])
    return {
        **convert_calls_to_dicts.call_to_dict(call, verify_reason=reasons.get(call.pk)),
        "args_json": to_canonical_json(mask_json_value(parse_json_or_return_text(call.args))),
        "number": call.pk,
        "session_id": call.session.session_id,
        "args_digest": call.args_digest,
        "result_text": None if call.result is None else mask_text(call.result_text or ""),
        "exit_code": call.exit_code,
        "error_type": call.error_type,
        "error_message": mask_text(call.error_message),
        "side_effects": call.side_effects.split(","),
        "risk": call.risk,
        "sentence": mask_text(call.sentence),
        "verifiable": call.verifiable,
        "approvals": call.approvals,
        "deadline": call.deadline,
        "settled_at": call.settled_at,
        "replay_count": call.replay_count,
        "undecided": call.status in UNDECIDED_CALL_STATUSES,
    }


@router.get(
    "/completed-call",
    auth=READER,
    response=response_schemas.FoundCall,
    summary="Find the completed call with an idempotency key",
)
def find_completed_call(request: HttpRequest, key: str) -> HttpResponse:
    return build_json_response({"call": mask_json_value(get_client_checkpointer(request).find_completed_call(key))})
