"""Insert audit events in the transaction of the recorded change, not yet part of the hash chain.

An append is a single insert: no lock is taken and no earlier row is read, so that recording never makes one operation
wait for another. `number_and_chain_events` assigns the numbers in the chain afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkpoints.db import clock
from checkpoints.db.execute_cached_row_sql import insert_rows_sealed_if_enabled
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.models import AuditEvent, ToolCall
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store.database_client_state import Store


def record_event(
    store: Store,
    kind: AuditKind,
    *,
    session_pk: int | None,
    actor: str,
    actor_kind: ActorKind = ActorKind.MACHINE,
    **details: Any,
) -> None:
    """Append one event. `details` are ids, numbers and names; no text of transcripts or results."""
    record_event_of_workspace(
        store.using,
        store.workspace_id,
        kind,
        session_pk=session_pk,
        actor=actor,
        actor_kind=actor_kind,
        details=details,
    )


def record_call_interrupted_event(store: Store, call: ToolCall, *, actor: str) -> None:
    """Append the event of a call that has just become interrupted, with why, and the type of its error if it has
    one."""
    error: dict[str, Any] = {"error_type": call.error_type} if call.error_type else {}
    record_event(
        store,
        AuditKind.CALL_INTERRUPTED,
        session_pk=call.session_id,
        actor=actor,
        call_id=call.call_id,
        tool=call.tool,
        step=call.step,
        attempt=call.attempt,
        reason=call.reason,
        **error,
    )


def record_event_of_workspace(
    using: str,
    workspace_pk: int,
    kind: AuditKind,
    *,
    session_pk: int | None = None,
    actor: str,
    actor_kind: ActorKind,
    details: dict[str, Any],
) -> None:
    """Append one event of a workspace, for a caller without a store: the site.

    It is written in the caller's open transaction, if there is one, together with the change that it records.
    """
    insert_events(
        using, [build_event(workspace_pk, kind, session_pk=session_pk, actor=actor, actor_kind=actor_kind, **details)]
    )


def build_event(
    workspace_pk: int,
    kind: AuditKind,
    *,
    session_pk: int | None,
    actor: str,
    actor_kind: ActorKind,
    **details: Any,
) -> AuditEvent:
    """Build one event, for `insert_events`."""
    return _build_event_from_json_details(
        workspace_pk, kind, session_pk, actor, actor_kind, to_canonical_json(details, "details")
    )


def insert_events(using: str, events: Sequence[AuditEvent]) -> None:
    """Insert built events at once, in the caller's open transaction, if there is one."""
    insert_rows_sealed_if_enabled(using, events)


def record_event_for_each_session(
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
    details_json = to_canonical_json(details, "details")
    events = [
        _build_event_from_json_details(workspace_pk, kind, session_pk, actor, actor_kind, details_json)
        for session_pk in session_pks
    ]
    insert_events(using, events)


def _build_event_from_json_details(
    workspace_pk: int, kind: AuditKind, session_pk: int | None, actor: str, actor_kind: ActorKind, details: str
) -> AuditEvent:
    event = AuditEvent(
        workspace_id=workspace_pk,
        session_id=session_pk,
        kind=kind,
        actor_kind=actor_kind,
        actor=actor[:255],
        details=details,
    )
    if get_seal_keys() is not None:
        event.created_at = clock.now()  # known before the insert, so that the seal needs no further statement
    return event
