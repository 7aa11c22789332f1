"""One link of the hash chain: the digest over an event, its number, and the previous link; in the column `seal`."""

from __future__ import annotations

import json
from datetime import UTC
from hashlib import blake2b

from checkpoints.models import AuditEvent

DIGEST_SIZE = 32


def compute_chained_event_digest(previous: str, number: int, event: AuditEvent) -> str:
    """Compute the digest (hex) of `event` with `number`, after the digest `previous` (empty for the first)."""
    # ASCII, so that the digest does not depend on a database's encoding.
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
    return blake2b(content.encode(), digest_size=DIGEST_SIZE, person=b"audit").hexdigest()
