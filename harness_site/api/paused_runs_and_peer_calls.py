"""Routes of runs that wait for other agents."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints import models
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import PeerCallNotFound, SessionFinished
from checkpoints.peers import (
    accept_agent_response,
    agent_notice_outbox,
    cancel_paused_session,
    pause_run_for_agent_calls,
    take_paused_task,
)
from checkpoints.peers.accept_agent_response import PeerResponse
from checkpoints.peers.agent_call_and_result_types import Join, Paused, PeerCall
from checkpoints.peers.agent_notice_outbox import DatabaseOutbox
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.store import look_up_and_lock_rows
from harness_site.api import request_schemas, response_schemas, session_read_audit
from harness_site.api.idempotent_writes import mark_response_as_storable
from harness_site.api.json_responses import build_json_response
from harness_site.api.reattach_run_of_request import get_or_reattach_owned_session
from harness_site.api.request_pipeline import AGENT, READER, get_client_checkpointer
from harness_site.api.sessions import (
    align_store_with_state_known_to_client,
    build_opening_response,
    take_session_and_try_gate,
)
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["peers"])


@router.post(
    "/sessions/{escaped:session_id}/pause",
    auth=AGENT,
    response={HTTPStatus.CREATED: response_schemas.PausedState},
    summary="Wait for the answers of other agents",
)
def pause_session(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Pause
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    if request.repeated:  # type: ignore[attr-defined]
        stored = pause_run_for_agent_calls.find_own_pause_by_fence(checkpointer.store, session_id, body.fence)
        if stored is not None:
            return _build_pause_response(stored)
    get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    joins = [
        Join(
            join.id,
            [
                PeerCall(call.id, call.peer, call.request, call.deadline_seconds, call.token, call.sent)
                for call in join.calls
            ],
        )
        for join in body.joins
    ]
    return _build_pause_response(checkpointer.pause_for_peers(session_id, body.state, joins))


def _build_pause_response(paused: Paused) -> HttpResponse:
    return mark_response_as_storable(build_json_response(dataclasses.asdict(paused), HTTPStatus.CREATED))


@router.post(
    "/sessions/{escaped:session_id}/take",
    auth=AGENT,
    response=response_schemas.TASK_OPENING,
    summary="Own a paused session whose join is complete, and get the answers",
)
def take_paused(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.TakePaused
) -> HttpResponse:
    store = align_store_with_state_known_to_client(request, session_id, body)
    state = take_paused_task.require_any_complete_join_and_load_pause_state(store, session_id)
    outcome = take_session_and_try_gate(store, session_id, hold=body.hold, takeover=body.takeover, paused=True)
    task = None
    if isinstance(outcome, ResumePoint):
        taken = take_paused_task.take_paused_task_or_release_session(store, session_id, state, outcome)
        task = {
            "state": taken.state,
            "paused_version": taken.paused_version,
            "joins": [dataclasses.asdict(join) for join in taken.joins],
            "open": taken.open,
            "times_taken": taken.times_taken,
        }
    return build_opening_response(store, session_id, outcome, task=task)


@router.post(
    "/sessions/{escaped:session_id}/cancel",
    auth=AGENT,
    response=response_schemas.Status,
    summary="End a session that waits for other agents",
)
def cancel_paused(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.CancelPaused
) -> HttpResponse:
    try:
        cancel_paused_session.cancel_paused_session(get_client_checkpointer(request).store, session_id, body.reason)
    except SessionFinished as error:
        if not request.repeated or error.status != SessionStatus.CANCELLED:  # type: ignore[attr-defined]
            raise
    return mark_response_as_storable(build_json_response({"status": SessionStatus.CANCELLED}))


@router.post(
    "/notices/claim",
    auth=AGENT,
    response=response_schemas.ClaimedNotices,
    summary="Claim the notices to other agents that are due",
)
def claim_notices(request: HttpRequest, body: request_schemas.ClaimNotices) -> HttpResponse:
    """Each is due again after 30 seconds, unless its delivery is reported before."""
    store = get_client_checkpointer(request).store
    session_pk = None if body.session_id is None else look_up_and_lock_rows.get_session(store, body.session_id).pk
    notices, failed = DatabaseOutbox(store, session_pk).claim_notices(body.limit)
    return build_json_response({"notices": [dataclasses.asdict(notice) for notice in notices], "failed": failed})


@router.post(
    "/peer-calls/{escaped:peer_call_id}/notice",
    auth=AGENT,
    response=response_schemas.Delivery,
    summary="Report whether a claimed notice was delivered",
)
def settle_notice(
    request: HttpRequest, peer_call_id: request_schemas.Identifier, body: request_schemas.SettleNotice
) -> HttpResponse:
    store = get_client_checkpointer(request).store
    if not models.PeerCall.objects.filter(workspace_id=store.workspace_id, call_id=peer_call_id).exists():
        raise PeerCallNotFound(peer_call_id)
    agent_notice_outbox.delete_or_postpone_notice(
        store, peer_call_id, body.kind, body.attempt, delivered=body.delivered
    )
    return mark_response_as_storable(build_json_response({"delivered": body.delivered}))


@router.post(
    "/peer-calls/sweep",
    auth=AGENT,
    response=response_schemas.ExpiredCalls,
    summary="Give up calls to other agents whose deadline has passed",
)
def sweep_deadlines(request: HttpRequest, body: request_schemas.SweepDeadlines) -> HttpResponse:
    return build_json_response(dataclasses.asdict(get_client_checkpointer(request).sweep_deadlines(limit=body.limit)))


@router.post(
    "/peer-calls/{escaped:peer_call_id}/response",
    auth=AGENT,
    response=response_schemas.PEER_RESPONSE,
    summary="Match the answer of another agent",
)
def accept_response(
    request: HttpRequest, peer_call_id: request_schemas.Identifier, body: request_schemas.PeerResponseBody
) -> HttpResponse:
    receipt: str = request.write_name  # type: ignore[attr-defined]
    response = PeerResponse.from_arguments(peer_call_id, body.result, body.session_id, body.peer, body.token, receipt)
    answer = accept_agent_response.accept_response(get_client_checkpointer(request).store, response)
    return build_json_response({"answer": type(answer).__name__, **dataclasses.asdict(answer)})


@router.post(
    "/peer-calls/{escaped:peer_call_id}/deadline",
    auth=AGENT,
    response=response_schemas.DeadlineTime,
    summary="Extend a deadline",
)
def extend_deadline(
    request: HttpRequest, peer_call_id: request_schemas.Identifier, body: request_schemas.ExtendDeadline
) -> HttpResponse:
    return mark_response_as_storable(
        build_json_response({"deadline": get_client_checkpointer(request).extend_deadline(peer_call_id, body.seconds)})
    )


@router.get(
    "/paused", auth=READER, response=response_schemas.PausedList, summary="List the sessions that wait for other agents"
)
def list_paused(
    request: HttpRequest, ready: bool | None = None, agent: str | None = None, limit: int = 50
) -> HttpResponse:
    return build_json_response(
        {
            "sessions": mask_json_value(
                get_client_checkpointer(request).list_paused(ready=ready, agent=agent, limit=limit)
            )
        }
    )


@router.get(
    "/sessions/{escaped:session_id}/peer-calls",
    auth=READER,
    response=response_schemas.PeerCallList,
    summary="List the calls to other agents",
)
def list_peer_calls(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    calls = checkpointer.peer_calls(session_id)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    )
    return build_json_response({"calls": mask_json_value(calls)})
