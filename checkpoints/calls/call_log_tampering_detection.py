"""Completeness of the log of calls while a run lives: what the run knows to be in it has to be there.

A resume verifies all rows of a session. Afterwards the run remembers the keys of its live calls, so that a call whose
row somebody removes or alters meanwhile does not run again: if no live call has a key that the run remembers, all calls
are verified before one is inserted. Dispatching a call with another key costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import models

from checkpoints.db.batched_row_iteration import iterate_rows_read_in_batches
from checkpoints.enums import LIVE_CALL_STATUSES
from checkpoints.exceptions import CallInProgress, IntegrityError
from checkpoints.models import Session, ToolCall
from checkpoints.seals import row_seals, session_heads, witness
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys
from checkpoints.seals.session_heads import CountedRow
from checkpoints.store.checkpointer_state import OwnedSession

SomeModel = TypeVar("SomeModel", bound=models.Model)


def remember_or_forget_live_call_key(owned_session: OwnedSession, key: str, status: str) -> None:
    """Remember that the log has a live call with this key, or that its call is not live any more."""
    if get_seal_keys() is None:
        return
    if status in LIVE_CALL_STATUSES:
        owned_session.live_keys.add(hash(key))
    else:
        owned_session.live_keys.discard(hash(key))


def remember_other_session_of_replay(owned_session: OwnedSession, call: ToolCall) -> None:
    """Remember the session of a call that was answered from the log, if it is another one than that of this run."""
    if call.session_id != owned_session.pk and get_seal_keys() is not None:
        owned_session.other_sessions[hash(call.idempotency_key)] = call.session_id


def does_run_remember_live_call_key(owned_session: OwnedSession, key: str) -> bool:
    """Return whether this run knows of a live call with this key. Two keys may have one hash, which costs only time."""
    return hash(key) in owned_session.live_keys


def collect_live_key_hashes(calls: Iterable[ToolCall]) -> set[int]:
    """Return the hashes of the keys of those calls that are live."""
    return {hash(call.idempotency_key) for call in calls if call.status in LIVE_CALL_STATUSES}


def require_no_remembered_call_missing(
    using: str, owned_session: OwnedSession, session: Session, key: str, scope: str
) -> None:
    """Verify all calls of a session if its log has no live call with a key that this run remembers.

    A key that holds in the whole workspace may have belonged to a call of another session; then those of that session
    are verified too, unless the whole session was deleted. A person may have decided that the call failed; then all
    rows match, and the key is forgotten. If a live call has the key nevertheless, the lookup was deceived: a view, a
    policy or a rule of the database hides the row from it, or somebody altered the row only while it was looked up.

    Args:
        using: Connection alias.
        owned_session: Session of the run.
        session: Its row, locked.
        key: Key with which no live call was found.
        scope: Scope of the key.

    Raises:
        IntegrityError: A row of the session is missing, was added, was altered, or was hidden from the lookup.
        CallInProgress: A call of another session has the key.
    """
    if not does_run_remember_live_call_key(owned_session, key):
        return
    for call in verify_complete_log_and_list_live_calls(using, session, key):
        if call.key_scope == scope:
            why = "the lookup by its key did not find it: the database hides it, or it was altered in between"
            raise IntegrityError(row_seals.get_table_name(call), row_seals.describe_row(call), why)
    if hash(key) in owned_session.other_sessions:
        for call in verify_other_session_and_list_live_calls(using, owned_session.other_sessions[hash(key)], key):
            raise CallInProgress(call.session.session_id, call.call_id, call.tool)  # it may be new
        del owned_session.other_sessions[hash(key)]
    owned_session.live_keys.discard(hash(key))


def require_call_in_complete_log(using: str, session: Session, call: ToolCall) -> None:
    """Require a complete log, and that a live call which was looked up is among the calls that are verified for it, in
    the same state. Raises `IntegrityError`."""
    if get_seal_keys() is None:
        return
    found = verify_complete_log_and_list_live_calls(using, session, call.idempotency_key)
    if not any((other.pk, other.row_seal) == (call.pk, call.row_seal) for other in found):
        raise build_hidden_call_error(call)


def build_hidden_call_error(call: ToolCall) -> IntegrityError:
    """Build the error of a call that the database has shown to its lookup in another state than it has."""
    why = "the lookup by its key found it in another state: the database hides it, or it was altered in between"
    return IntegrityError(row_seals.get_table_name(call), row_seals.describe_row(call), why)


def verify_complete_log_and_list_live_calls(using: str, session: Session, key: str | None = None) -> list[ToolCall]:
    """Require that the calls of a session match their seals, and that no counted row is missing, was added, or is in a
    former state. Nothing if sealing is off.

    Args:
        using: Connection alias.
        session: Row of the session, locked.
        key: Key of the calls to return.

    Returns:
        The live calls that have `key`, compared without the database.

    Raises:
        IntegrityError: A row does not match, or the rows do not match the head of the session.
    """
    keys = get_seal_keys()
    if keys is None:
        return []
    head = session_heads.verify_session_row_and_build_head(session, keys)
    found = _verify_calls_and_list_live_ones(using, session.pk, keys, key)
    if head.seal is not None:
        witness.require_head_is_newest(session.session_id, head.to_witnessed_head())
    return found


def verify_all_rows_and_list_wanted(
    rows: models.QuerySet[SomeModel], session_pk: int, keys: SealKeys, is_wanted: Callable[[SomeModel], bool]
) -> list[SomeModel]:
    """Verify all rows that a session has in one table, require that no row of it is missing, and list some of them.

    The sum over all rows of the session counts these as they were read here, so that no row can be hidden from this and
    shown to the statement that adds up the others. The session need not be locked: what another process writes
    meanwhile changes its head, and everything is read again.

    Args:
        rows: All rows of the session in a table that its sum counts.
        session_pk: Key of the session.
        keys: Configured keys.
        is_wanted: Whether a row is listed.

    Returns:
        The rows, in the order of their keys; none if there is no such session.

    Raises:
        IntegrityError: A row does not match, or the rows do not match the head of the session: one is missing, was
            added, or is in a former state.
    """
    using, model = rows.db, rows.model
    while True:
        session: Session | None = models.QuerySet(Session, using=using).filter(pk=session_pk).first()
        if session is None:
            return []
        head = session_heads.verify_session_row_and_build_head(session, keys)
        found, sealed_rows = list[SomeModel](), list[CountedRow]()
        for row in iterate_rows_read_in_batches(rows):
            row_seals.verify_row(row)
            seal: bytes | None = row.row_seal  # type: ignore[attr-defined]  # of a sealed model
            if seal:
                sealed_rows.append((model, bytes(seal)))
            if is_wanted(row):
                found.append(row)
        if head.seal is None:
            return found
        stored_seal, total_of_others = session_heads.read_seal_and_compute_row_sum(
            using, session_pk, keys, without=model
        )
        if stored_seal != head.seal:
            continue
        if not session_heads.is_row_sum_of_head(head, total_of_others, sealed_rows, keys):
            raise session_heads.build_row_sum_mismatch_error(session)
        return found


def _verify_calls_and_list_live_ones(using: str, session_pk: int, keys: SealKeys, key: str | None) -> list[ToolCall]:
    def is_live_call_with_key(call: ToolCall) -> bool:
        return call.idempotency_key == key and call.status in LIVE_CALL_STATUSES

    calls = ToolCall.objects.using(using).filter(session=session_pk)
    return verify_all_rows_and_list_wanted(calls, session_pk, keys, is_live_call_with_key)


def verify_other_session_and_list_live_calls(using: str, session_pk: int, key: str | None = None) -> list[ToolCall]:
    """Require the same of a session that this run does not own, unless it was deleted, without locking it.

    A run that holds the lock of its own session never waits for that of another one, so two runs that use each other's
    calls do not wait for each other.

    Raises:
        IntegrityError: As `verify_complete_log_and_list_live_calls`; its `session_pk` is that of the other session.
        WitnessError: The other session is not in the state that the witness knows.
    """
    keys = get_seal_keys()
    if keys is None:
        return []
    try:
        found = _verify_calls_and_list_live_ones(using, session_pk, keys, key)
        session_heads.verify_head_against_rows_and_witness(using, session_pk, keys)
    except IntegrityError as error:
        error.session_pk = session_pk
        raise
    return found
