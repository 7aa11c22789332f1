"""Routes of versions and messages."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import InvalidInput, VersionConflict, VersionNotFound
from checkpoints.loop_state.snapshot_and_phase_payload_codec import decode_phase_and_snapshot
from checkpoints.sessions import append_without_lease
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import UNCHANGED, VersionChange
from checkpoints.versions import save_phase_version
from checkpoints.versions.save_version import (
    find_version_of_repeated_save,
    save_next_version_of_new_messages,
    save_next_version_of_transcript,
)
from harness_site.api import request_schemas, response_schemas, session_read_audit
from harness_site.api.idempotent_removals import remove_once_and_build_response
from harness_site.api.idempotent_writes import mark_response_as_storable
from harness_site.api.if_match_or_body_number import get_if_match_or_body_number
from harness_site.api.json_responses import build_json_response
from harness_site.api.models import ApiWrite
from harness_site.api.reattach_run_of_request import get_or_reattach_owned_session
from harness_site.api.request_pipeline import AGENT, READER, get_client_checkpointer
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["versions"])


@router.post(
    "/sessions/{escaped:session_id}/versions",
    auth=AGENT,
    response={HTTPStatus.CREATED: response_schemas.VersionNumber},
    summary="Save the next version",
)
def save_version(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.SaveVersion
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    expected = get_if_match_or_body_number(request, body.expected_version, "expected_version")
    change = _parse_version_change(body)
    if body.fence is None:
        version = _append_version_without_run(request, checkpointer.store, session_id, body, change, expected)
    else:
        owned_session = get_or_reattach_owned_session(checkpointer, session_id, body.fence)
        version = _find_or_save_version(
            partial(
                _find_version_of_unanswered_attempt,
                request,
                checkpointer.store,
                owned_session,
                body,
                change,
                expected,
            ),
            partial(_save_version_of_run, checkpointer, session_id, body, change, expected),
        )
    response = build_json_response({"version": version}, HTTPStatus.CREATED, etag=version)
    return mark_response_as_storable(response, found_again=expected is not None)


@router.post(
    "/sessions/{escaped:session_id}/phases",
    auth=AGENT,
    response={HTTPStatus.CREATED: response_schemas.VersionNumber},
    summary="Save the next version at a phase of the loop",
)
def save_phase(
    request: HttpRequest, session_id: request_schemas.Identifier, body: request_schemas.SavePhase
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    store = checkpointer.store
    expected = get_if_match_or_body_number(request, body.expected_version, "expected_version")
    details, snapshot = decode_phase_and_snapshot(body.phase, body.details, body.snapshot)
    owned_session = get_or_reattach_owned_session(checkpointer, session_id, body.fence)
    phase: Any = {
        "snapshot": snapshot,
        "transcript": body.messages,
        "plan": body.plan if "plan" in body.model_fields_set else UNCHANGED,
    }
    first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]

    def find_version_of_first_attempt() -> int | None:
        if first_attempt is None:
            return None
        before = owned_session.head.version - 1 if expected is None else expected
        return save_phase_version.find_version_of_repeated_phase(
            store, session_id, details, expected_version=max(before, 0), since=first_attempt.created_at, **phase
        )

    save = partial(
        save_phase_version.save_phase_version, store, session_id, details, expected_version=expected, **phase
    )
    version = _find_or_save_version(find_version_of_first_attempt, save)
    return mark_response_as_storable(build_json_response({"version": version}, HTTPStatus.CREATED, etag=version))


def _find_or_save_version(find_version_of_first_attempt: Callable[[], int | None], save: Callable[[], int]) -> int:
    """Return the version that an unanswered attempt of this request wrote, or write it.

    Another process may serve the first attempt until that has written, so it is looked for again after a conflict.
    """
    found = find_version_of_first_attempt()
    if found is not None:
        return found
    try:
        return save()
    except VersionConflict:
        found = find_version_of_first_attempt()
        if found is None:
            raise
        return found


def _parse_version_change(body: request_schemas.SaveVersion) -> VersionChange:
    given = body.model_fields_set
    return VersionChange(
        body.plan if "plan" in given else UNCHANGED,
        _parse_budget_amount(body.budget_spent_usd) if body.budget_spent_usd is not None else UNCHANGED,
        body.usage if "usage" in given else UNCHANGED,
        body.phase,
        body.payload,
    )


def _parse_budget_amount(amount: float | str) -> float | Decimal:
    if not isinstance(amount, str):
        return amount
    try:
        return Decimal(amount)
    except InvalidOperation:
        raise InvalidInput(f"budget_spent_usd is {amount[:60]!r}; that is no decimal number.") from None


def _append_version_without_run(
    request: HttpRequest,
    store: Store,
    session_id: str,
    body: request_schemas.SaveVersion,
    change: VersionChange,
    expected: int | None,
) -> int:
    if body.mode != "append" or expected is None:
        raise InvalidInput(
            "Without a fence only mode 'append' with an expected_version is possible: open the session first."
        )
    reader = Store(workspace=store.workspace, remote_process=store.remote_process)  # it owns nothing
    first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]

    def find_version_of_first_attempt() -> int | None:
        if first_attempt is None:
            return None
        return append_without_lease.find_version_of_repeated_append(
            reader, session_id, body.messages, change, expected_version=expected, since=first_attempt.created_at
        )

    append = append_without_lease.append_version_with_or_without_run
    return _find_or_save_version(
        find_version_of_first_attempt,
        partial(append, reader, session_id, body.messages, change, expected_version=expected),
    )


def _find_version_of_unanswered_attempt(
    request: HttpRequest,
    store: Store,
    owned_session: OwnedSession,
    body: request_schemas.SaveVersion,
    change: VersionChange,
    expected: int | None,
) -> int | None:
    """Return the version that an unanswered attempt of this request wrote."""
    first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]
    if first_attempt is None:
        return None
    if expected is None:
        expected = look_up_and_lock_rows.get_session(store, owned_session.session_id).latest_version - 1
    return find_version_of_repeated_save(
        store,
        owned_session,
        body.messages,
        change,
        max(expected, 0),
        whole=body.mode == "replace",
        since=first_attempt.created_at,
    )


def _save_version_of_run(
    checkpointer: SyncCheckpointer,
    session_id: str,
    body: request_schemas.SaveVersion,
    change: VersionChange,
    expected: int | None,
) -> int:
    store = checkpointer.store
    if body.mode == "append":
        if expected is None:
            raise InvalidInput("mode 'append' takes an expected_version, or If-Match.")
        return save_next_version_of_new_messages(store, session_id, body.messages, change, expected_version=expected)
    return save_next_version_of_transcript(
        store, session_id, body.messages, change.to_state_or_unresolved_change(), expected_version=expected
    )


@router.get(
    "/sessions/{escaped:session_id}/versions",
    auth=READER,
    response=response_schemas.VersionPage,
    summary="List versions, newest first",
)
def list_versions(
    request: HttpRequest, session_id: request_schemas.Identifier, before: int | None = None, limit: int = 50
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    versions = checkpointer.list_checkpoints(session_id, before=before, limit=limit)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    )
    next_cursor = versions[-1]["version"] if len(versions) == limit else None
    return build_json_response({"versions": mask_json_value(versions), "next": next_cursor})


@router.get(
    "/sessions/{escaped:session_id}/versions/latest",
    auth=READER,
    response=response_schemas.LatestVersion,
    summary="Load the newest version",
)
def load_latest(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    latest = checkpointer.load_latest(session_id)
    session = look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    if latest is None:
        return build_json_response({"version": None})
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    return _build_masked_version_response(latest)


@router.get(
    "/sessions/{escaped:session_id}/versions/{int:version}",
    auth=READER,
    response=response_schemas.LoadedVersion,
    summary="Load one version",
)
def load_version(request: HttpRequest, session_id: request_schemas.Identifier, version: int) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    loaded = checkpointer.load(session_id, version)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    )
    return _build_masked_version_response(loaded)


def _build_masked_version_response(loaded: dict[str, Any]) -> HttpResponse:
    return build_json_response({"version": mask_json_value(loaded)}, etag=loaded["version"])


@router.delete(
    "/sessions/{escaped:session_id}/versions/{int:version}",
    auth=AGENT,
    response=response_schemas.Removal,
    summary="Delete one version",
)
def delete_version(request: HttpRequest, session_id: request_schemas.Identifier, version: int) -> HttpResponse:
    delete = partial(get_client_checkpointer(request).delete_checkpoint, session_id, version)
    return remove_once_and_build_response(request, session_id, delete, VersionNotFound)


@router.get(
    "/sessions/{escaped:session_id}/messages",
    auth=READER,
    response=response_schemas.MessagePage,
    summary="Load messages after a position",
)
def list_messages(
    request: HttpRequest,
    session_id: request_schemas.Identifier,
    after: int = 0,
    limit: int = 100,
    version: int | None = None,
) -> HttpResponse:
    checkpointer = get_client_checkpointer(request)
    messages = checkpointer.messages(session_id, after=after, limit=limit, version=version)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, look_up_and_lock_rows.get_session(checkpointer.store, session_id)
    )
    next_cursor = after + len(messages) if len(messages) == limit else None
    return build_json_response({"messages": mask_json_value(messages), "next": next_cursor})
