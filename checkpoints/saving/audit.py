"""The audit log: appended in the transaction of what it tells of."""

from __future__ import annotations

from typing import Any

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import canonical


def record(
    store: Store,
    kind: AuditKind,
    *,
    session_pk: int | None,
    actor: str,
    actor_kind: ActorKind = ActorKind.MACHINE,
    **details: Any,
) -> None:
    """Append one event. `details` are ids, numbers and names; no text of transcripts or results."""
    AuditEvent.objects.using(store.using).create(
        workspace_id=store.workspace_id,
        session_id=session_pk,
        kind=kind,
        actor_kind=actor_kind,
        actor=actor,
        details=canonical(details, "details"),
    )
