"""Access to the audit trail in tests."""

from typing import Any

from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent


def list_entries(*kinds: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return kind, actor and details of each entry, oldest first, without the client address."""
    events = AuditEvent.objects.order_by("pk")
    if kinds:
        events = events.filter(kind__in=kinds)
    return [(event.kind, event.actor, _parse_details_without_address(event.details)) for event in events]


def _parse_details_without_address(stored: str) -> dict[str, Any]:
    details: dict[str, Any] = parse_json(stored)
    details.pop("address", None)
    return details
