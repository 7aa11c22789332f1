"""Optimistic lock on the sealed heads of the sessions that a store owns, for the hot statements.

A run remembers the head that its last statement wrote, and each statement expects it to be the stored one. If another
process has written to the session since, the statement changes nothing, and is repeated with the stored head under the
session's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.db import transaction

from checkpoints.models import Session
from checkpoints.seals import session_heads, witness
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.session_heads import RowChanges, SessionHead
from checkpoints.store.client_state import OwnedSession

Outcome = TypeVar("Outcome")


def get_head(using: str, owned_session: OwnedSession) -> SessionHead | None:
    """Return the head that the next statement has to expect; None if sealing is off. Raises `IntegrityError`."""
    keys = get_seal_keys()
    if keys is None:
        return None
    head = owned_session.sealed_head
    if head is None:
        row = Session.objects.using(using).filter(pk=owned_session.pk).first()
        if row is None:
            return None
        head = session_heads.build_verified_head(row, keys)
        owned_session.sealed_head = head if head.seal is not None else lock_head(using, owned_session.pk)
    return owned_session.sealed_head


def lock_head(using: str, session_pk: int) -> SessionHead | None:
    """Lock a session and return its head, written if it has none; None without such a session, or if sealing is off.

    Raises `IntegrityError`.
    """
    keys = get_seal_keys()
    if keys is None:
        return None
    with transaction.atomic(using=using):
        head = session_heads.lock_head(using, session_pk, keys)
        if head is not None and head.seal is None:
            session_heads.apply_row_changes_to_heads(using, {session_pk: RowChanges()}, keys)
            head = session_heads.lock_head(using, session_pk, keys)
    return head


def reload_head(using: str, owned_session: OwnedSession) -> None:
    """Lock an owned session and remember its stored head, and nothing of its calls. Nothing if sealing is off."""
    owned_session.sealed_calls.clear()
    owned_session.sealed_head = lock_head(using, owned_session.pk)


def retry_with_stored_head(using: str, owned_session: OwnedSession, write: Callable[[], Outcome]) -> Outcome | None:
    """Repeat a write that has changed nothing, with the stored head, under the session's lock.

    Returns what `write` does; None if sealing is off, or if there is no such session.
    """
    if get_seal_keys() is None:
        return None
    with transaction.atomic(using=using):
        reload_head(using, owned_session)
        return None if owned_session.sealed_head is None else write()


def record_written_head(using: str, head: SessionHead | None) -> SessionHead | None:
    """Note in the witness that a statement has written `head`, and return it; nothing for None."""
    if head is not None and witness.get_witness() is not None:
        witness.record_written_head_on_commit(using, head.to_witnessed_head())
    return head


def compute_head_after_write(
    head: SessionHead | None, difference: int, changes: Mapping[str, Any]
) -> SessionHead | None:
    """Return the head that a statement has to write; None if sealing is off.

    Args:
        head: Head before.
        difference: What the statement adds to the sum of rows.
        changes: Sealed columns of the session that it changes.
    """
    keys = get_seal_keys()
    if head is None or keys is None:
        return None
    after = head.compute_next_head(keys, difference, changes)
    if witness.get_witness() is not None:
        witness.record_expected_head(after.to_witnessed_head())
    return after
