"""Optimistic lock on the sealed heads of the sessions that a store owns, for the hot statements.

A run remembers the head that its last statement wrote, and each statement expects it to be the stored one. If another
process has written to the session since, the statement changes nothing, and is repeated with the stored head under the
session's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.exceptions import IntegrityError
from checkpoints.models import Session
from checkpoints.seals import session_heads, witness
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.session_heads import RowChanges, SessionHead
from checkpoints.store.checkpointer_state import OwnedSession

Outcome = TypeVar("Outcome")


def get_or_load_head_and_seal_if_unsealed(using: str, owned_session: OwnedSession) -> SessionHead | None:
    """Return the head that the next statement has to expect; None if sealing is off. Raises `IntegrityError`."""
    keys = get_seal_keys()
    if keys is None:
        return None
    known = owned_session.newest_head
    if owned_session.sealed_head is None and witness.get_witness() is not None:
        _remember_stored_head(owned_session, lock_head_and_seal_if_unsealed(using, owned_session.pk), known)
    elif owned_session.sealed_head is None:
        row = Session.objects.using(using).filter(pk=owned_session.pk).first()
        if row is None:
            return None
        head: SessionHead | None = session_heads.verify_session_row_and_build_head(row, keys)
        if head is not None and head.seal is None:
            head = lock_head_and_seal_if_unsealed(using, owned_session.pk)
        _remember_stored_head(owned_session, head, known)
    return owned_session.sealed_head


def lock_head_and_seal_if_unsealed(using: str, session_pk: int) -> SessionHead | None:
    """Lock a session and return its head, written if it has none; None without such a session, or if sealing is off.

    Raises `IntegrityError`.
    """
    keys = get_seal_keys()
    if keys is None:
        return None
    with transaction.atomic(using=using):
        head = session_heads.lock_session_and_build_verified_head(using, session_pk, keys)
        if head is not None and head.seal is None:
            session_heads.apply_row_changes_to_heads(using, {session_pk: RowChanges()}, keys)
            head = session_heads.lock_session_and_build_verified_head(using, session_pk, keys)
    return head


def lock_and_reload_head(using: str, owned_session: OwnedSession) -> None:
    """Lock an owned session and remember its stored head, and nothing of its calls. Nothing if sealing is off.

    Raises `IntegrityError`.
    """
    owned_session.sealed_calls.clear()
    known = owned_session.newest_head
    _remember_stored_head(owned_session, lock_head_and_seal_if_unsealed(using, owned_session.pk), known)


def _remember_stored_head(
    owned_session: OwnedSession, head: SessionHead | None, known: tuple[int, bytes | None]
) -> None:
    """Remember a head that was read. `known` is the newest one that this run knew before: another thread of the run may
    have written a newer one since."""
    if head is not None:
        require_head_not_older_than_known(owned_session, head.number, head.seal, known)
    owned_session.sealed_head = head


def require_head_not_older_than_known(
    owned_session: OwnedSession, number: int, seal: bytes | None, known: tuple[int, bytes | None]
) -> None:
    """Require that the stored head of a session is not older than the newest one that this run knows.

    Nobody else can know that an old copy of all rows of a session is one, unless there is a witness.

    Args:
        owned_session: Session of the run.
        number: Number of the stored head.
        seal: Its seal.
        known: Number and seal of the newest head that this run knew before the stored one was read.

    Raises:
        IntegrityError: The head is older, or another one with the same number.
    """
    known_number, known_seal = known
    if number > known_number or known_seal in {seal, None}:
        return
    row = f"{owned_session.pk} ({owned_session.session_id})"
    why = "it was put back to a former state: this run knows a newer one"
    raise IntegrityError(Session._meta.db_table, row, why)


def lock_session_and_retry_write_if_sealed(
    using: str, owned_session: OwnedSession, write: Callable[[], Outcome]
) -> Outcome | None:
    """Repeat a write that has changed nothing, with the stored head, under the session's lock.

    Returns what `write` does; None if sealing is off, or if there is no such session.
    """
    if get_seal_keys() is None:
        return None
    with transaction.atomic(using=using):
        lock_and_reload_head(using, owned_session)
        return None if owned_session.sealed_head is None else write()


def record_written_head(
    connection: BaseDatabaseWrapper, head: SessionHead | None, owned_session: OwnedSession | None = None
) -> None:
    """Note that a statement has written a head: in the witness and in the session of the run, if it is of one.

    Args:
        connection: Connection of the statement.
        head: The head; None if nothing was written, or if sealing is off.
        owned_session: Session of the run whose statement it was.
    """
    if owned_session is not None:
        owned_session.sealed_head = head
    if head is None:
        return
    if owned_session is not None:
        newest = head.columns["head_number"], head.seal
        if connection.in_atomic_block:
            transaction.on_commit(partial(setattr, owned_session, "newest_head", newest), using=connection.alias)
        else:
            owned_session.newest_head = newest
    if witness.get_witness() is not None:
        witness.record_written_head_on_commit(connection.alias, head.to_witnessed_head())


def compute_and_record_expected_head(
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
