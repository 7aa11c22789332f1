"""One link: the digest over an event, its place, and the link before."""

from __future__ import annotations

import json
from datetime import UTC
from hashlib import blake2b

from checkpoints.models import AuditEvent

SIZE = 32


def link(previous: str, number: int, event: AuditEvent) -> str:
    """The seal (hex) of `event` at place `number`, after the seal `previous` (empty for the first)."""
    # ASCII, so that no character depends on how a database encodes it.
    content = json.dumps(
        [
            previous,
            number,
            event.workspace_id,
            event.pk,
            event.session_id,
            event.kind,
            event.actor_kind,
            event.actor,
            event.details,
            event.created_at.astimezone(UTC).isoformat(timespec="microseconds"),
        ],
        separators=(",", ":"),
    )
    return blake2b(content.encode(), digest_size=SIZE, person=b"audit").hexdigest()
