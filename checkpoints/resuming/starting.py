"""Beginning, finishing and releasing a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from checkpoints.enums import FINISHED_SESSION, AuditKind, CallStatus, PauseStatus, RunStatus, SessionStatus
from checkpoints.exceptions import CallInProgress, InvalidInput, NotRepresentable, StorageUnavailable
from checkpoints.ids import checked
from checkpoints.models import Session
from checkpoints.resuming import ownership
from checkpoints.saving import audit, calls, lookup, pauses, settling
from checkpoints.saving.operations import operation, reading_back, refuse_inside_transaction
from checkpoints.saving.store import Held, Store
from checkpoints.serde.canonical import canonical

TITLE_LENGTH = 200


@dataclass(frozen=True)
class Description:
    """What a new session says about itself. An existing session keeps what it has."""

    user_message: str = ""
    agent: str = ""
    title: str | None = None
    scratchpad_root: str | None = None
    metadata: dict[str, Any] | None = None
    labels: Iterable[str] = ()

    def columns(self) -> dict[str, Any]:
        if self.metadata is not None and not isinstance(self.metadata, dict):
            raise NotRepresentable("metadata", f"a {type(self.metadata).__name__} is not a dict")
        if isinstance(self.labels, str):
            raise InvalidInput(f"labels is the text {self.labels!r}; give a list of labels.")
        title, what = (self.user_message, "user_message") if self.title is None else (self.title, "title")
        return {
            "agent": _line(self.agent, "agent"),
            "title": _line(title, what),
            "scratchpad_root": _line(self.scratchpad_root or "", "scratchpad_root", 4096),
            "metadata": canonical(self.metadata or {}, "metadata"),
            "labels": canonical([checked("label", label) for label in self.labels], "labels"),
        }


def _line(text: object, what: str, length: int = TITLE_LENGTH) -> str:
    """One storable line of at most `length` characters."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is a {type(text).__name__}, not text.")
    words = " ".join(text.encode("utf-8", "replace").decode().replace("\0", " ").split())
    return words if len(words) <= length else words[: length - 1] + "…"


def create(store: Store, session_id: str, description: Description) -> None:
    """Insert the session if it does not exist. Raises `InvalidIdentifier`, `NotRepresentable`, `InvalidInput`."""
    checked("session id", session_id)
    with operation(store.using):
        rows = Session.objects.using(store.using)
        if rows.filter(workspace_id=store.workspace_id, session_id=session_id).exists():
            return
        new = Session(workspace_id=store.workspace_id, session_id=session_id, **description.columns())
        rows.bulk_create([new], ignore_conflicts=True)


def finish(store: Store, session_id: str, status: object, result: Any = None) -> None:
    """End the session as completed, failed or cancelled, with a result (any JSON value).

    Raises `NotOwner`, `OwnershipLost`, `SessionFinished`, `NotRepresentable`; `CallInProgress` while a call runs and
    `ReviewRequired` while one is undecided, except for cancelling: somebody still has to find out about those.
    """
    if not isinstance(status, str) or status not in FINISHED_SESSION:
        raise InvalidInput(f"{status!r} does not end a session. Use completed, failed or cancelled.")
    stored = None if result is None else canonical(result, "result")
    held = lookup.owned(store, session_id)
    try:
        with operation(store.using), transaction.atomic(using=store.using):
            row = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
            if row is None:
                raise lookup.fence_lost(store, held)
            _settle(store, held, row, cancelled=status == SessionStatus.CANCELLED)
            pauses.close_all(store, row, PauseStatus.OVER)
            ownership.end_ownership(store, held, RunStatus(status), status=status, result=stored)
            actor = f"run {held.run.number}"
            audit.record(store, AuditKind.SESSION_FINISHED, session_pk=held.pk, actor=actor, status=status)
    except StorageUnavailable as error:
        with reading_back(store.using, error):
            ended = lookup.session(store, session_id, lock=True).status == status
        if not ended:
            raise StorageUnavailable(error.what, may_have_happened=False) from error
    store.drop(held)
    store.saved(session_id)


def _settle(store: Store, held: Held, row: Session, *, cancelled: bool) -> None:
    """Nothing may be open when a session ends, unless it is cancelled: then the outcome of what was open is unknown,
    and it stays in the queue."""
    if cancelled:
        settling.interrupt_abandoned(store, held, running_too=True)
    else:
        require_settled(store, held, row)


def require_settled(store: Store, held: Held, row: Session) -> None:
    """Raises `CallInProgress` while a mutating call runs, and `ReviewRequired` while one is undecided."""
    for call in calls.with_status(store, row, {CallStatus.ISSUED}):
        if call.mutates:
            raise CallInProgress(held.session_id, call.call_id, call.tool)
    undecided = calls.undecided(store, row)
    if undecided:
        raise calls.review_required(store, held.session_id, undecided)


def release(store: Store) -> None:
    """Give up every session this checkpointer owns, so that another process can go on at once. What it has issued and
    not settled is interrupted: nobody will report how that ended. Raises `NotDurable` where something could not be
    written before."""
    try:
        store.flush()
    finally:
        for held in store.all_held():
            _release(store, held)


def release_session(store: Store, session_id: str) -> bool:
    """Do for one session what `release` does for all. Returns whether this checkpointer owned it; where it does not,
    nothing is done. A session that could not be released in the database is forgotten here: its lease runs out.

    Raises `InvalidIdentifier`, `NotDurable`, `StorageError`, and `InsideTransaction`, after which it is still owned.
    """
    checked("session id", session_id)
    if store.holds(session_id) is None:
        return False
    refuse_inside_transaction(store.using)
    try:
        store.flush(session_id)
    finally:
        released = _release_if_held(store, session_id)
    return released


def _release_if_held(store: Store, session_id: str) -> bool:
    held = store.holds(session_id)
    if held is None:  # lost while it was flushed
        return False
    try:
        return _release(store, held)
    finally:
        store.drop(held)


def _release(store: Store, held: Held) -> bool:
    settling.interrupt_abandoned(store, held, running_too=True)
    return ownership.give_up(store, held)
