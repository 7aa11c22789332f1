"""The audit log: appended in the transaction of what it tells of.

An insert and nothing else: no lock is taken and no earlier row is read, so that recording never makes one operation
wait for another. `checkpoints.integrity` gives the rows their places in the chain afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    append(
        store.using,
        store.workspace_id,
        kind,
        session_pk=session_pk,
        actor=actor,
        actor_kind=actor_kind,
        details=details,
    )


def append(
    using: str,
    workspace_pk: int,
    kind: AuditKind,
    *,
    session_pk: int | None = None,
    actor: str,
    actor_kind: ActorKind,
    details: dict[str, Any],
) -> None:
    """Append one event of a workspace, for who has no store: the site.

    It is written in the transaction of the caller, where one is open: it tells of what that transaction changes.
    """
    _event(workspace_pk, kind, session_pk, actor, actor_kind, canonical(details, "details")).save(using=using)


def append_many(
    using: str,
    workspace_pk: int,
    kind: AuditKind,
    session_pks: Iterable[int | None],
    *,
    actor: str,
    actor_kind: ActorKind,
    details: dict[str, Any],
) -> None:
    """Append the same event for each of several sessions, in one statement."""
    told = canonical(details, "details")
    events = [_event(workspace_pk, kind, session_pk, actor, actor_kind, told) for session_pk in session_pks]
    AuditEvent.objects.using(using).bulk_create(events)


def _event(
    workspace_pk: int, kind: AuditKind, session_pk: int | None, actor: str, actor_kind: ActorKind, details: str
) -> AuditEvent:
    return AuditEvent(
        workspace_id=workspace_pk,
        session_id=session_pk,
        kind=kind,
        actor_kind=actor_kind,
        actor=actor[:255],
        details=details,
    )
