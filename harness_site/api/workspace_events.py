"""Events of a workspace: sessions that start, change and end, calls that wait, decisions."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import parse_json_or_return_text
from checkpoints.generate_and_validate_ids import validate_integer
from checkpoints.models import AuditEvent, Session
from checkpoints.seals import row_seals
from harness_site.api import response_schemas
from harness_site.api.json_responses import build_json_response
from harness_site.api.request_pipeline import READER
from harness_site.core.masking.masker import mask_json_value

router = Router(tags=["events"])

#: Entries of the audit trail that are events, with their names.
NAMES: Final = {
    AuditKind.SESSION_STARTED: "session.started",
    AuditKind.SESSION_FINISHED: "session.finished",
    AuditKind.SESSION_FORKED: "session.forked",
    AuditKind.SESSION_NEEDS_REVIEW: "session.needs_review",
    AuditKind.SESSION_READY: "session.ready",
    AuditKind.SESSION_DELETED: "session.deleted",
    AuditKind.SESSION_QUARANTINED: "session.quarantined",
    AuditKind.QUARANTINE_RELEASED: "session.quarantine_released",
    AuditKind.RUN_STARTED: "run.started",
    AuditKind.RUN_LOST: "run.lost",
    AuditKind.TAKEOVER: "run.taken_over",
    AuditKind.CALL_INTERRUPTED: "call.interrupted",
    AuditKind.APPROVAL_REQUESTED: "call.awaiting_approval",
    AuditKind.VERIFY_REQUESTED: "call.verification_requested",
    AuditKind.DECIDED: "call.decided",
    AuditKind.LATE_RESULT: "call.late_result",
    AuditKind.PAUSED_FOR_PEERS: "session.paused",
    AuditKind.JOIN_COMPLETE: "session.join_complete",
}
#: Name of an event whose entry was altered, of which nothing else is told.
ALTERED: Final = "entry.altered"
MAX_EVENTS: Final = 500
_HIDDEN_DETAILS: Final = frozenset({"address"})


def list_events_as_masked_json(workspace: int, after: int, limit: int = MAX_EVENTS) -> list[dict[str, Any]]:
    """List the events of a workspace after the one with the number `after`, oldest first.

    One whose entry of the audit trail was altered says so, so that the events after it can be read.
    """
    rows = AuditEvent.objects.filter(workspace=workspace, pk__gt=after, kind__in=sorted(NAMES)).order_by("pk")[:limit]
    events = list(rows)
    ids = dict(Session.objects.filter(pk__in={event.session_id for event in events}).values_list("pk", "session_id"))
    return [
        _build_altered_event_json(event)
        if not row_seals.is_row_genuine_or_sealing_off(event)
        else build_masked_event_json(event, ids.get(event.session_id or 0))
        for event in events
    ]


def load_last_event_number(workspace: int) -> int:
    """Return the number of the newest event; 0 if there is none."""
    return AuditEvent.objects.filter(workspace=workspace).order_by("-pk").values_list("pk", flat=True).first() or 0


def build_masked_event_json(event: AuditEvent, session_id: str | None) -> dict[str, Any]:
    """Encode an event, masked for the reader. `details` have ids, numbers and names, and no text of a transcript."""
    details = parse_json_or_return_text(event.details)
    known = {name: value for name, value in details.items() if name not in _HIDDEN_DETAILS}
    return {
        "id": event.pk,
        "event": NAMES[AuditKind(event.kind)],
        "at": event.created_at,
        "session_id": session_id,
        "actor": event.actor,
        "actor_kind": event.actor_kind,
        "details": mask_json_value(known),
    }


def _build_altered_event_json(event: AuditEvent) -> dict[str, Any]:
    return {
        "id": event.pk,
        "event": ALTERED,
        "at": event.created_at,
        "session_id": None,
        "actor": "",
        "actor_kind": ActorKind.MACHINE,
        "details": {},
    }


@router.get(
    "/events", auth=READER, response=response_schemas.EventPage, summary="Read or stream what happens in the workspace"
)
def read_events(request: HttpRequest, after: int | None = None, limit: int = 100, wait: int = 0) -> HttpResponse:
    """List the events after the one with the number `after`; with `wait`, wait until there is one.

    With `Accept: text/event-stream` they are streamed as server-sent events, after `Last-Event-ID`.
    """
    workspace = request.token.workspace_id  # type: ignore[attr-defined]
    if validate_integer("limit", limit, minimum=1) > MAX_EVENTS:
        raise InvalidInput(f"limit is {limit}; {MAX_EVENTS} is the most.")
    if after is None:
        return build_json_response({"events": [], "last": load_last_event_number(workspace)})
    events = list_events_as_masked_json(workspace, validate_integer("after", after), limit)
    return build_json_response({"events": events, "last": events[-1]["id"] if events else after}, waiting=not events)
