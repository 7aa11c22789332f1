"""Route of the export of a session."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.enums import AuditKind
from checkpoints.store import look_up_and_lock_rows
from harness_site.api import request_schemas, session_read_audit
from harness_site.api.request_pipeline import READER, get_client_checkpointer
from harness_site.sessions.jsonl_export import verify_session_and_generate_jsonl_lines

router = Router(tags=["reading"])


@router.get(
    "/sessions/{escaped:session_id}/export",
    auth=READER,
    summary="Export a session as JSON Lines",
    openapi_extra={"responses": {HTTPStatus.OK: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}}},
)
def export_session(request: HttpRequest, session_id: request_schemas.Identifier) -> HttpResponse:
    session = look_up_and_lock_rows.get_session(get_client_checkpointer(request).store, session_id)
    session_read_audit.record_session_read_unless_recent_or_agent(
        request, session, AuditKind.EXPORTED, what="session", form="jsonl"
    )
    return HttpResponse(b"".join(verify_session_and_generate_jsonl_lines(session.pk)), content_type="application/jsonl")
