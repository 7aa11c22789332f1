"""Rows by the names that users give them, with an error that names the missing one, and a session's change number."""

from __future__ import annotations

import uuid
from functools import cache

from django.db import connections

from checkpoints.db import hot_statements
from checkpoints.db.execute_cached_row_sql import load_rows_where, update_and_return_rows
from checkpoints.db.sql_names_and_values import quote_column
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    require_no_caller_transaction_of_alias,
)
from checkpoints.exceptions import (
    AtGate,
    CallNotFound,
    OwnershipLost,
    ReleasedWhenIdle,
    RunNotFound,
    SessionFinished,
    SessionNotFound,
    SessionQuarantined,
)
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Run, Session, ToolCall
from checkpoints.seals import row_seals, session_heads
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store


def get_session(store: Store, session_id: str, *, lock: bool = False) -> Session:
    """Return the session of that id in the store's workspace. Raises `SessionNotFound`, `InvalidIdentifier`,
    `IntegrityError`."""
    names = (store.workspace_id, validate_id("session id", session_id))
    rows = load_rows_where(store.using, Session, _build_session_where_sql(connections[store.using].vendor, lock), names)
    if not rows:
        raise SessionNotFound(session_id)
    verify_session_seal_and_name(rows[0], session_id)
    return rows[0]


def session_exists(store: Store, session_id: str) -> bool:
    """Return whether the store's workspace has a session of that id."""
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
    with database_operation(store.using, writes=False):
        return sessions.exists()


def lock_session(store: Store, session_id: str, *, mark_changed: bool = False) -> Session:
    """Lock the session of that id until the end of the transaction; with `mark_changed`, its pages notice a change.

    Raises what `get_session` raises.
    """
    if not mark_changed:
        return get_session(store, session_id, lock=True)
    names = (store.workspace_id, validate_id("session id", session_id))
    vendor = connections[store.using].vendor
    changes = hot_statements.build_session_change_assignments_sql(vendor)
    rows = update_and_return_rows(store.using, Session, changes, _build_session_where_sql(vendor, False), names)
    if not rows:
        raise SessionNotFound(session_id)
    verify_session_seal_and_name(rows[0], session_id)
    return rows[0]


def verify_session_seal_and_name(row: Session, session_id: str) -> None:
    """Verify the seal of a session, and that it has the name with which it was looked up. Raises `IntegrityError`."""
    row_seals.verify_row(row)
    if row.session_id != session_id:
        raise session_heads.build_session_lookup_name_mismatch_error(row.pk, row.session_id, session_id)


@cache
def _build_session_where_sql(vendor: str, lock: bool) -> str:
    workspace, session_id = quote_column(Session, "workspace"), quote_column(Session, "session_id")
    return f"WHERE {workspace} = %s AND {session_id} = %s{' FOR UPDATE' if lock and vendor == 'postgresql' else ''}"


def require_not_quarantined(row: Session) -> None:
    """Require that a session may be used. Raises `SessionQuarantined`."""
    if row.quarantined_at is not None:
        raise SessionQuarantined(row.session_id, row.quarantined_at)


def flush_and_require_owned_session(store: Store, session_id: str) -> OwnedSession:
    """Return the store's state of an owned session, after flushing the versions that are not written yet.

    Raises `SessionNotFound`, `SessionFinished`, `NotOwner` or `ReleasedWhenIdle`, `AtGate`, `NotDurable`, and
    `InsideTransaction`, because the caller is about to write.
    """
    require_no_caller_transaction_of_alias(store.using)
    store.flush_pending_writes(session_id)
    owned_session = store.find_owned_session(session_id)
    if owned_session is None:
        with database_operation(store.using, writes=False):
            row = get_session(store, session_id)
        raise SessionFinished(session_id, row.status) if row.finished else store.build_not_owner_error(session_id)
    if owned_session.at_gate:
        raise AtGate(session_id)
    store.record_last_use_of_session(session_id)
    return owned_session


def lock_owned_session(store: Store, owned_session: OwnedSession) -> Session:
    """Lock the row of a session, inside a transaction.

    Raises what `forget_session_and_build_fence_error` builds if the run does not own the session any more.
    """
    sessions = Session.objects.using(store.using).select_for_update()
    row = sessions.filter(pk=owned_session.pk, fence=owned_session.fence).first()
    if row is None:
        raise forget_session_and_build_fence_error(store, owned_session)
    return row


def forget_session_and_build_fence_error(store: Store, owned_session: OwnedSession) -> Exception:
    """Forget a session, and build the error for the write that its fence has refused."""
    store.remove_owned_session(owned_session)
    row = Session.objects.using(store.using).filter(pk=owned_session.pk).first()
    if row is None:
        return SessionNotFound(owned_session.session_id)
    if row.quarantined_at is not None:
        return SessionQuarantined(owned_session.session_id, row.quarantined_at)
    if row.finished:
        return SessionFinished(owned_session.session_id, row.status)
    reason = store.build_not_owner_error(owned_session.session_id)
    return reason if isinstance(reason, ReleasedWhenIdle) else OwnershipLost(owned_session.session_id)


def get_latest_call_attempt(
    store: Store, row: Session, call_id: str, *, step: int | None = None, attempt: int | None = None
) -> ToolCall:
    """Return the newest attempt of a call, in the newest step that has it unless `step` is given. Raises
    `CallNotFound`, `IntegrityError`."""
    calls = ToolCall.objects.using(store.using).filter(session=row, call_id=validate_id("call id", call_id))
    if step is not None:
        calls = calls.filter(step=step)
    if attempt is not None:
        calls = calls.filter(attempt=attempt)
    call = calls.order_by("-step", "-attempt").first()
    if call is None:
        raise CallNotFound(row.session_id, call_id, step)
    row_seals.verify_row(call)
    return call


def increment_session_revision(store: Store, session_pk: int) -> None:
    """Increment the session's change number (`revision`), by which its pages notice a change."""
    hot_statements.mark_session_changed(connections[store.using], session_pk)


def get_session_id_of_run(store: Store, run_id: object) -> str:
    """Find the id of the session that a run drove. Raises `RunNotFound`."""
    try:
        run_uuid = uuid.UUID(str(run_id))
    except ValueError:
        raise RunNotFound(run_id) from None
    with database_operation(store.using, writes=False):
        runs = Run.objects.using(store.using).filter(pk=run_uuid, session__workspace_id=store.workspace_id)
        session_id = runs.values_list("session__session_id", flat=True).first()
    if session_id is None:
        raise RunNotFound(run_id)
    return session_id
