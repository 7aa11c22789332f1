"""Reading the audit trail in tests."""

from typing import Any

from checkpoints.models import AuditEvent
from checkpoints.serde import parse


def entries(*kinds: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Kind, actor and details of each entry, oldest first; without the address it came from."""
    found = AuditEvent.objects.order_by("pk")
    if kinds:
        found = found.filter(kind__in=kinds)
    return [(event.kind, event.actor, _details(event.details)) for event in found]


def _details(stored: str) -> dict[str, Any]:
    details: dict[str, Any] = parse(stored)
    details.pop("address", None)
    return details
