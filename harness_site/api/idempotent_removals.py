"""Removals of sessions and versions: a repetition whose first attempt was not answered gets the answer of that one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from checkpoints.exceptions import CheckpointsError
from checkpoints.sessions.prune_versions_and_delete_sessions import find_removal_counts_in_audit_trail_since
from checkpoints.sessions.version_retention_rule import RemovalCounts
from harness_site.api.idempotent_writes import mark_response_as_finding_nothing, mark_response_as_storable
from harness_site.api.json_responses import build_json_response
from harness_site.api.models import ApiWrite
from harness_site.api.request_pipeline import get_client_checkpointer


def remove_once_and_build_response(
    request: HttpRequest, session_id: str, remove: Callable[[], RemovalCounts], *gone: type[CheckpointsError]
) -> HttpResponse:
    """Remove, and answer what was removed: by this request, or by its first attempt if nothing is left to remove.

    `gone` are the errors for what is not there. The audit trail says what the first attempt has removed.
    """
    counts = _remove_or_find_removal_in_audit_trail(request, session_id, remove, *gone)
    response = mark_response_as_storable(build_json_response(dataclasses.asdict(counts)))
    return response if counts.versions else mark_response_as_finding_nothing(response)


def _remove_or_find_removal_in_audit_trail(
    request: HttpRequest, session_id: str, remove: Callable[[], RemovalCounts], *gone: type[CheckpointsError]
) -> RemovalCounts:
    first_attempt: ApiWrite | None = request.repeated  # type: ignore[attr-defined]
    try:
        counts = remove()
    except gone:
        recorded = first_attempt and find_removal_counts_in_audit_trail_since(
            get_client_checkpointer(request).store, session_id, first_attempt.created_at
        )
        if not recorded:
            raise
        return recorded
    if first_attempt is None or counts.versions or counts.dry_run:
        return counts
    return (
        find_removal_counts_in_audit_trail_since(
            get_client_checkpointer(request).store, session_id, first_attempt.created_at
        )
        or counts
    )
