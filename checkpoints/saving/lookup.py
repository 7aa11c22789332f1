"""Finding rows by the names users give them, with the error that says which one is missing."""

from __future__ import annotations

from django.db.models import QuerySet

from checkpoints.exceptions import (
    AtGate,
    CallNotFound,
    OwnershipLost,
    ReleasedWhenIdle,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.ids import checked
from checkpoints.models import Session, ToolCall
from checkpoints.saving.operations import operation, refuse_inside_transaction
from checkpoints.saving.store import Held, Store


def session(store: Store, session_id: str, *, lock: bool = False) -> Session:
    """The session of that id in the store's workspace. Raises `SessionNotFound`, `InvalidIdentifier`."""
    named = (store.workspace_id, checked("session id", session_id))
    found = _session(*named).using(store.using)
    row = (found.select_for_update() if lock else found).first()
    if row is None:
        raise SessionNotFound(session_id)
    return row


def _session(workspace: int, session_id: str) -> QuerySet[Session]:
    return Session.objects.filter(workspace=workspace, session_id=session_id)


def owned(store: Store, session_id: str) -> Held:
    """What the store holds of a session, with everything durable that was saved before.

    Raises `SessionNotFound`, `SessionFinished`, `NotOwner` or `ReleasedWhenIdle`, `AtGate`, `NotDurable`, and
    `InsideTransaction`: who asks for it is about to write.
    """
    refuse_inside_transaction(store.using)
    store.flush(session_id)
    held = store.holds(session_id)
    if held is None:
        with operation(store.using, writes=False):
            row = session(store, session_id)
        raise SessionFinished(session_id, row.status) if row.finished else store.not_owner(session_id)
    if held.at_gate:
        raise AtGate(session_id)
    store.touch(session_id)
    return held


def fence_lost(store: Store, held: Held) -> Exception:
    """Why a write under `held` was refused, when the fence is the reason; forgets the session."""
    store.drop(held)
    row = Session.objects.using(store.using).filter(pk=held.pk).first()
    if row is None:
        return SessionNotFound(held.session_id)
    if row.finished:
        return SessionFinished(held.session_id, row.status)
    reason = store.not_owner(held.session_id)
    return reason if isinstance(reason, ReleasedWhenIdle) else OwnershipLost(held.session_id)


def latest_call(
    store: Store, row: Session, call_id: str, *, step: int | None = None, attempt: int | None = None
) -> ToolCall:
    """The newest attempt of a call, in the newest step that has it unless `step` says which. Raises `CallNotFound`."""
    calls = ToolCall.objects.using(store.using).filter(session=row, call_id=checked("call id", call_id))
    if step is not None:
        calls = calls.filter(step=step)
    if attempt is not None:
        calls = calls.filter(attempt=attempt)
    call = calls.order_by("-step", "-attempt").first()
    if call is None:
        raise CallNotFound(row.session_id, call_id, step)
    return call
