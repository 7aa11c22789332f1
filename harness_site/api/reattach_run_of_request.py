"""Run that a request names by its fence, also if another server process has last worked for it."""

from __future__ import annotations

from typing import Final

from django.db import connection

from checkpoints import SyncCheckpointer
from checkpoints.db.authenticated_idempotent_write_guard import find_guard_of_next_write
from checkpoints.enums import KeyPolicy, RunStatus
from checkpoints.exceptions import OwnershipLost
from checkpoints.models import Run, Session, ToolCall
from checkpoints.resume import reattach_run
from checkpoints.store.checkpointer_state import OwnedSession

_IS_NEWEST_VERSION: Final = f"EXISTS (SELECT 1 FROM {Session._meta.db_table} WHERE id = %s AND latest_version = %s)"  # noqa: S608


def get_or_reattach_owned_session(checkpointer: SyncCheckpointer, session_id: str, fence: int) -> OwnedSession:
    """Return the state of the run that a request names by its fence.

    Raises `SessionNotFound`, `SessionFinished`, and `OwnershipLost` if another run has taken the session over.
    """
    owned_session = checkpointer.store.find_owned_session(session_id)
    if owned_session is None or owned_session.fence < fence or _did_other_process_let_run_through_gate(owned_session):
        return reattach_run.reattach_run(checkpointer.store, session_id, fence)
    if owned_session.fence != fence:
        raise OwnershipLost(session_id)
    return owned_session


def get_or_reattach_owned_session_at_newest_version(
    checkpointer: SyncCheckpointer, session_id: str, fence: int
) -> OwnedSession:
    """Return the state of the run that a request names by its fence, as of the newest version of the session.

    Another server process may have saved that version. A write that is one statement checks it there: it is refused
    if this process does not know the version, and comes here again without its guard. Raises what
    `get_or_reattach_owned_session` raises.
    """
    owned_session = get_or_reattach_owned_session(checkpointer, session_id, fence)
    version = owned_session.head.version
    guard = find_guard_of_next_write(connection)
    if guard is not None:
        guard.add_condition(_IS_NEWEST_VERSION, [owned_session.pk, version])
    elif not Session.objects.filter(pk=owned_session.pk, latest_version=version).exists():
        return reattach_run.reattach_run(checkpointer.store, session_id, fence)
    return owned_session


def pair_other_processes_calls_with_operations(owned_session: OwnedSession) -> None:
    """Pair the calls of a run that other server processes have issued with their operations."""
    calls = ToolCall.objects.filter(session=owned_session.pk, run=owned_session.run_id, answered_version=None)
    owned_session.operations.restore_unknown_pairings(calls.filter(key_policy=KeyPolicy.UNANSWERED).order_by("pk"))


def _did_other_process_let_run_through_gate(owned_session: OwnedSession) -> bool:
    """Return whether another server process has let a run through that this one still holds at the gate."""
    if not owned_session.at_gate:
        return False
    return Run.objects.filter(pk=owned_session.run_id).exclude(status=RunStatus.WAITING).exists()
