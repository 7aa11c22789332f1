"""Routes of runs that wait for other agents."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.peers.peer_requests import Join, PeerCall
from checkpoints.store import row_lookups
from harness_site.api import answers, read_audit, schemas
from harness_site.api.client_stores import hold_run
from harness_site.api.idempotent_writes import mark_as_storable
from harness_site.api.json_responses import respond
from harness_site.api.serving import AGENT, READER, get_client
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["peers"])


@router.post(
    "/sessions/{escaped:session_id}/pause",
    auth=AGENT,
    response={HTTPStatus.CREATED: answers.PausedState},
    summary="Wait for the answers of other agents",
)
def pause_session(request: HttpRequest, session_id: schemas.Identifier, body: schemas.Pause) -> HttpResponse:
    checkpointer = get_client(request)
    hold_run(checkpointer, session_id, body.fence)
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
    paused = checkpointer.pause_for_peers(session_id, body.state, joins)
    return mark_as_storable(respond(dataclasses.asdict(paused), HTTPStatus.CREATED))


@router.post(
    "/peer-calls/{escaped:peer_call_id}/response",
    auth=AGENT,
    response=answers.PEER_RESPONSE,
    summary="Match the answer of another agent",
)
def accept_response(
    request: HttpRequest, peer_call_id: schemas.Identifier, body: schemas.PeerResponseBody
) -> HttpResponse:
    answer = get_client(request).accept_response(
        peer_call_id, body.result, session_id=body.session_id, peer=body.peer, token=body.token
    )
    return respond({"answer": type(answer).__name__, **dataclasses.asdict(answer)})


@router.post(
    "/peer-calls/{escaped:peer_call_id}/deadline",
    auth=AGENT,
    response=answers.DeadlineTime,
    summary="Extend a deadline",
)
def extend_deadline(
    request: HttpRequest, peer_call_id: schemas.Identifier, body: schemas.ExtendDeadline
) -> HttpResponse:
    return mark_as_storable(respond({"deadline": get_client(request).extend_deadline(peer_call_id, body.seconds)}))


@router.get("/paused", auth=READER, response=answers.PausedList, summary="List the sessions that wait for other agents")
def list_paused(
    request: HttpRequest, ready: bool | None = None, agent: str | None = None, limit: int = 50
) -> HttpResponse:
    return respond(
        {"sessions": mask_json_value(get_client(request).list_paused(ready=ready, agent=agent, limit=limit))}
    )


@router.get(
    "/sessions/{escaped:session_id}/peer-calls",
    auth=READER,
    response=answers.PeerCallList,
    summary="List the calls to other agents",
)
def list_peer_calls(request: HttpRequest, session_id: schemas.Identifier) -> HttpResponse:
    checkpointer = get_client(request)
    calls = checkpointer.peer_calls(session_id)
    read_audit.record_session_read(request, row_lookups.get_session(checkpointer.store, session_id))
    return respond({"calls": mask_json_value(calls)})
