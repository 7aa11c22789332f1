"""Transaction in which people and verify hooks decide about a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.integrity import quarantine
from checkpoints.models import Session, ToolCall
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store


@contextmanager
def lock_session_and_get_call(store: Store, target: DecisionTarget) -> Iterator[tuple[Session, ToolCall]]:
    """Lock the session of a call until the block ends, and yield it with the latest attempt of the call.

    Damage that is found in the block quarantines the session.

    Raises:
        SessionNotFound: There is no such session.
        SessionQuarantined: The session is quarantined.
        CallNotFound: There is no such call.
    """
    with (
        quarantine.quarantine_on_integrity_error(store, target.session_id),
        database_operation(store.using),
        transaction.atomic(using=store.using),
    ):
        session = look_up_and_lock_rows.get_session(store, target.session_id, lock=True)
        look_up_and_lock_rows.require_not_quarantined(session)
        call = look_up_and_lock_rows.get_latest_call_attempt(
            store, session, target.call_id, step=target.step, attempt=target.attempt
        )
        yield session, call
