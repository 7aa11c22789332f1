"""Routes of sessions: open, heartbeat, gate, release, finish, fork, list, read, delete."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.calls import convert_calls_to_dicts
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.constants import LEASE_SECONDS
from checkpoints.enums import CallStatus, RunStatus
from checkpoints.exceptions import (
    ApprovalRequired,
    InvalidInput,
    OwnershipError,
    OwnershipLost,
    ReviewRequired,
    SessionExists,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Run, Session, ToolCall
from checkpoints.process_identity_and_liveness import ProcessIdentity
from checkpoints.resume import reattach_run, start_or_resume
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions import create_finish_release, heartbeat, take_and_release_ownership
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.owning_run_protocol import OwningRun
from harness_site.api import request_schemas, response_schemas, session_read_audit, session_serializer
from harness_site.api.idempotent_removals import remove_once_and_build_response
from harness_site.api.idempotent_writes import mark_response_as_storable
from harness_site.api.json_responses import build_json_response
from harness_site.api.models import ApiWrite
from harness_site.api.reattach_run_of_request import get_or_reattach_owned_session
from harness_site.api.request_pipeline import AGENT, READER, get_client_checkpointer
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["sessions"])


@router.get(
    "/sessions", auth=READER, response=response_schemas.SessionPage, summary="List sessions, newest activity first"
)
def list_sessions(
    request: HttpRequest,
    status: str | None = None,
    agent: str | None = None,
    label: str | None = None,
    updated_before: request_schemas.Timestamp | None = None,
    after: str | None = None,
    limit: int = 50,
) -> HttpResponse:
    sessions = get_client_checkpointer(request).list_sessions(
        status=status, agent=agent, label=label, updated_before=updated_before, after=after, limit=limit
    )
    next_cursor = sessions[-1]["cursor"] if len(sessions) == limit else None
    return build_json_response({"sessions": mask_json_value(sessions), "next": next_cursor})


@router.post(
    "/sessions", auth=AGENT, response=response_schemas.OPENING, summary="Start or resume a session, and own it"
)
def open_session(request: HttpRequest, body: request_schemas.OpenSession) -> HttpResponse:
    store = align_store_with_state_known_to_client(request, body.session_id, body)
    description = None
    if body.mode != "resume":
        description = NewSessionFields(
            body.user_message, body.agent, body.title, body.scratchpad_root, body.metadata, body.labels
        )
    outcome = take_session_and_try_gate(
        store, body.session_id, hold=body.hold, description=description, takeover=body.takeover
    )
    if body.mode == "start" and isinstance(outcome, ResumePoint) and outcome.finished:
        raise SessionFinished(body.session_id, look_up_and_lock_rows.get_session(store, body.session_id).status)
    return build_opening_response(store, body.session_id, outcome)


def align_store_with_state_known_to_client(
    request: HttpRequest, session_id: str, body: request_schemas.TakePaused
) -> Store:
    """Bring the state of the client in line with what the client knows of the session. Returns it.

    Raises `InvalidIdentifier`.
    """
    validate_id("session id", session_id)
    store = get_client_checkpointer(request).store
    _set_client_process(request, store, body.process)
    owned_session = store.find_owned_session(session_id)
    if owned_session is None and body.fence is not None:  # the run was served by another server process
        with suppress(OwnershipLost, SessionFinished, SessionNotFound):
            owned_session = reattach_run.reattach_run(store, session_id, body.fence)
    if owned_session is not None and owned_session.fence != body.fence:
        store.remove_owned_session(owned_session)
    elif owned_session is not None and body.executing is not None:
        for number in _collect_primary_keys_of_issued_calls(owned_session) - set(body.executing):
            store.issued.add(number)  # maybe by another server process
            store.executing.discard(number)
    if body.fence is None:
        first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]
        if first_attempt is not None:
            _reattach_run_of_first_attempt(store, session_id, first_attempt)
        if not body.takeover:
            _refuse_unnamed_client_while_run_is_alive(request, store, session_id)
    return store


def _reattach_run_of_first_attempt(store: Store, session_id: str, first_attempt: ApiWrite) -> None:
    """Hold the run that the first attempt of a request started, so that the repetition starts no other one."""
    session = _find_session_leased_by_client_or_none(store, session_id)
    if session is not None and session.owner is not None and session.owner.started_at >= first_attempt.created_at:
        reattach_run.reattach_run(store, session_id, session.fence)


def _refuse_unnamed_client_while_run_is_alive(request: HttpRequest, store: Store, session_id: str) -> None:
    """Require that no other process without a name drives the session: they cannot be told apart by their token."""
    if request.headers.get("Harness-Client") or store.find_owned_session(session_id) is not None:
        return
    session = _find_session_leased_by_client_or_none(store, session_id)
    if session is not None and session.owner is not None and run_liveness_check.is_run_alive(session.owner):
        raise take_and_release_ownership.build_session_busy_error(session, session.owner)


def _find_session_leased_by_client_or_none(store: Store, session_id: str) -> Session | None:
    """Find the session if a run of this client owns it."""
    sessions = Session.objects.filter(workspace_id=store.workspace_id, session_id=session_id)
    return sessions.filter(owner__owner_token=store.token).select_related("owner").first()


def _set_client_process(request: HttpRequest, store: Store, process: request_schemas.Process) -> None:
    token = request.token  # type: ignore[attr-defined]
    store.remote_process = ProcessIdentity(process.host or f"token {token.name}"[:255], "", process.pid, "")


def _collect_primary_keys_of_issued_calls(owned_session: OwnedSession) -> set[int]:
    calls = ToolCall.objects.filter(session=owned_session.pk, run=owned_session.run_id, status=CallStatus.ISSUED)
    return set(calls.values_list("pk", flat=True))


def take_session_and_try_gate(
    store: Store,
    session_id: str,
    *,
    hold: bool,
    description: NewSessionFields | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> ResumePoint | list[ToolCall]:
    """Take the session and try the gate. Returns the point, or with `hold` the calls that hold the run there.

    Raises what `take_and_resume_or_list_undecided_calls` raises, and without `hold` `ReviewRequired`; then the session
    is released.
    """
    with store.keep_session_from_idling(session_id):
        outcome = start_or_resume.take_and_resume_or_list_undecided_calls(
            store, session_id, description=description, takeover=takeover, paused=paused
        )
    if hold or isinstance(outcome, ResumePoint):
        return outcome
    calls = [encode_undecided_call(store, call) for call in outcome]
    create_finish_release.interrupt_calls_and_release_session(store, session_id)
    unknown = any(call.status == CallStatus.INTERRUPTED for call in outcome)
    raise (ReviewRequired if unknown else ApprovalRequired)(session_id, calls)


def build_opening_response(
    store: Store, session_id: str, outcome: ResumePoint | list[ToolCall], **fields: Any
) -> HttpResponse:
    """Answer 200 with the point, 201 for a first run, or 202 for a run that is held at the gate."""
    if isinstance(outcome, ResumePoint):
        is_first = outcome.run is not None and outcome.run.number == 1 and outcome.version == 0
        return build_json_response(
            {"point": encode_resume_point(outcome), "run": encode_run(outcome.run), "undecided": [], **fields},
            HTTPStatus.CREATED if is_first else HTTPStatus.OK,
        )
    calls = [encode_undecided_call(store, call) for call in outcome]
    run = store.get_owned_session(session_id).run
    return build_json_response(
        {"point": None, "run": encode_run(run), "undecided": calls, **fields}, HTTPStatus.ACCEPTED, waiting=True
    )


def _encode_tool_result_without_value(result: ToolResult) -> dict[str, Any]:
    """Describe a result without its value, which only the process of the tool has."""
    fields = dataclasses.asdict(dataclasses.replace(result, value=None))
    del fields["value"]
    return fields


def encode_run(run: OwningRun | None) -> dict[str, Any] | None:
    """Encode a run; its `fence` goes with every write."""
    if run is None:
        return None
    return {
        "run_id": str(run.pk),
        "number": run.number,
        "fence": run.fence,
        "status": run.status,
        "resumed_from": None if run.resumed_from_id is None else str(run.resumed_from_id),
        "started_at": run.started_at,
        "lease_seconds": LEASE_SECONDS,
    }


def encode_resume_point(point: ResumePoint) -> dict[str, Any]:
    """Encode the point where a run continues."""
    numbers = getattr(point.replayable, "_rows", {})
    return {
        "transcript": point.transcript,
        "plan": point.plan,
        "budget_spent_usd": point.budget_spent_usd,
        "usage": point.usage,
        "version": point.version,
        "pending_response": point.pending_response,
        "replayable": [
            {**_encode_tool_result_without_value(result), "number": numbers.get(call_id)}
            for call_id, result in dict.items(point.replayable)
        ],
        "snapshot": None if point.snapshot is None else dataclasses.asdict(point.snapshot),
        "finished": point.finished,
        "result": point.result,
    }


def encode_undecided_call(store: Store, call: ToolCall) -> dict[str, Any]:
    """Encode a call that waits for a decision, with what a verify hook at the agent has to know."""
    reasons = convert_calls_to_dicts.load_verify_hook_unknown_reasons(store, [call])
    return {
        **convert_calls_to_dicts.call_to_dict(call, verify_reason=reasons.get(call.pk)),
        "number": call.pk,
        "args_digest": call.args_digest,
        "verifiable": call.verifiable,
        "verify_requested_by": call.verify_requested_by,
    }


@router.get(
    "/sessions/{escaped:session_id}",
    auth=READER,
    response=response_schemas.SessionDetails,
    summary="Read what is known about a session",
)
def read_session(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    # The transcript and the plan belong to a version: the routes of `versions` return them.
    store = get_client_checkpointer(request).store
    session = look_up_and_lock_rows.get_session(store, session_id)
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    return build_json_response(
        mask_json_value(session_serializer.serialize_session(store, session)), etag=session.revision
    )


@router.delete(
    "/sessions/{escaped:session_id}",
    auth=AGENT,
    response=response_schemas.Removal,
    summary="Delete a session and all its data",
)
def delete_session(request: HttpRequest, session_id: request_schemas.Identifier, dry_run: bool = False) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    return remove_once_and_build_response(
        request, session_id, lambda: checkpointer.delete_session(session_id, dry_run=dry_run), SessionNotFound
    )


@router.get(
    "/sessions/{escaped:session_id}/gate",
    auth=AGENT,
    response=response_schemas.OPENING,
    summary="Wait at the gate until people have decided",
)
def wait_at_gate(
    request: HttpRequest, session_id: request_schemas.Identifier, fence: int, wait: int = 0
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    get_or_reattach_owned_session(checkpointer, session_id, fence)
    return build_opening_response(
        checkpointer.store, session_id, take_session_and_try_gate(checkpointer.store, session_id, hold=True)
    )


@router.post(
    "/sessions/{escaped:session_id}/heartbeat",
    auth=AGENT,
    response=response_schemas.Alive,
    summary="Renew the lease of a run",
)
def renew_lease(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Fenced
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    heartbeat.renew_lease_or_raise_ownership_lost(
        checkpointer.store, get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    )
    return build_json_response({"alive": True})


@router.post(
    "/sessions/{escaped:session_id}/release",
    auth=AGENT,
    response=response_schemas.Released,
    summary="Let another process continue at once",
)
def release_session(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Fenced
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    try:
        get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    except OwnershipError:
        if not _has_run_ended_with_status(checkpointer.store, session_id, body.fence, RunStatus.RELEASED):
            raise
        return mark_response_as_storable(build_json_response({"released": False}))
    return mark_response_as_storable(build_json_response({"released": checkpointer.release_session(session_id)}))


def _has_run_ended_with_status(store: Store, session_id: str, fence: int, status: RunStatus) -> bool:
    session = look_up_and_lock_rows.get_session(store, session_id)
    return Run.objects.filter(session=session, fence=fence, status=status, owner_token=store.token).exists()


@router.post(
    "/sessions/{escaped:session_id}/finish",
    auth=AGENT,
    response=response_schemas.Status,
    summary="End a session with a result",
)
def finish_session(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Finish
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    try:
        get_or_reattach_owned_session(checkpointer, session_id, body.fence)
        checkpointer.finish_session(session_id, body.status, body.result)
    except SessionFinished as error:
        repeated = request.repeated and error.status == body.status  # type: ignore[attr-defined]
        if not repeated or not _has_run_ended_with_status(
            checkpointer.store, session_id, body.fence, RunStatus(body.status)
        ):
            raise
    return mark_response_as_storable(build_json_response({"status": body.status}))


@router.post(
    "/sessions/{escaped:session_id}/fork",
    auth=AGENT,
    response={HTTPStatus.CREATED: response_schemas.VersionNumber},
    summary="Continue from a version in a new session",
)
def fork_session(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Fork
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    try:
        version = checkpointer.fork_session(session_id, body.new_session_id, version=body.version, title=body.title)
    except SessionExists:
        fork = Session.objects.filter(
            workspace_id=checkpointer.store.workspace_id,
            session_id=body.new_session_id,
            forked_from__session_id=session_id,
        )
        if not request.repeated or not fork.exists():  # type: ignore[attr-defined]
            raise
        version = 1
    return mark_response_as_storable(build_json_response({"version": version}, HTTPStatus.CREATED))


@router.get(
    "/sessions/{escaped:session_id}/preview",
    auth=READER,
    response=response_schemas.Preview,
    summary="Compute what a resume would do now",
)
def preview_resume(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    )
    return build_json_response(mask_json_value(checkpointer.preview_resume(session_id)))


@router.post(
    "/sessions/{escaped:session_id}/prune", auth=AGENT, response=response_schemas.Removal, summary="Delete old versions"
)
def prune_versions(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.Prune
) -> HttpResponse:
    older_than = None
    if body.older_than_seconds is not None:
        try:
            older_than = timedelta(seconds=body.older_than_seconds)
        except OverflowError:
            raise InvalidInput(f"older_than_seconds is {body.older_than_seconds}; that is no duration.") from None
    prune = partial(
        get_client_checkpointer(request).prune,
        session_id,
        keep_last=body.keep_last,
        keep_every=body.keep_every,
        older_than=older_than,
        dry_run=body.dry_run,
    )
    return remove_once_and_build_response(request, session_id, prune)


@router.get("/runs/{run_id}", auth=READER, response=response_schemas.SessionOfRun, summary="Find the session of a run")
def find_session_of_run(request: HttpRequest, run_id: str) -> HttpResponse:
    session_id = look_up_and_lock_rows.get_session_id_of_run(get_client_checkpointer(request).store, run_id)
    return build_json_response({"session_id": session_id})
