"""Head of a session: one seal over its state and over the set of its rows.

The seal of a session covers its status, its result, its newest version and the sum of its rows: each row counts as a
keyed number of its table and its seal, and the sum is taken modulo 2**256. A row that is missing, that was added, that
is there twice or that was put back to a former state changes the sum, whatever its own seal says. Each write of a row
subtracts what it replaces and adds what it writes.

The sum is stored with a mask that changes with each write, so that the numbers of rows stay secret: otherwise other
rows with an equal sum could be searched for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.apps import apps
from django.db import connections, models

from checkpoints.exceptions import IntegrityError, WitnessAhead
from checkpoints.seals import row_seals, session_names_in_witness, witness
from checkpoints.seals.row_seals import SealStart
from checkpoints.seals.seal_keys import KEY_ID_SIZE, NUMBER_SIZE, SealKey, SealKeys, get_seal_keys
from checkpoints.seals.witness_records import WitnessedHead, build_session_name

#: Largest sum: `&` with it is the remainder modulo 2**256, and takes less time than a division.
_LARGEST = (1 << 256) - 1
_NONCE_SIZE = 16
#: Purpose of the keyed numbers that mask sums.
_MASK = "head mask"
#: Columns of a session that only writes of its head change, and with its seal.
HEAD_FIELDS = ("newest_seal", "head_number", "row_sum")
WRITTEN_FIELDS = (*HEAD_FIELDS, "row_seal")
#: Sealed columns of a session that saves and other writes of its head change all the time, in the order of its seal.
CHANGING_COLUMNS = ("latest_version", "newest_seal", "head_number", "row_sum")
_are_changing_columns = frozenset(CHANGING_COLUMNS).issuperset
#: Table of a row, and its seal.
CountedRow = tuple[type[models.Model], bytes]


class SessionHead(NamedTuple):
    """Sealed columns of a session, the sum of its rows, and its seal.

    Attributes:
        columns: Sealed columns, by the names of their fields.
        total: Sum of the rows.
        seal: Seal; None if there is none yet.
        start: Beginning of the seal, if that is known: the next write may leave the columns before it as they are.
        written: Columns that have to be written with the seal, by the names of `WRITTEN_FIELDS`; none if it was read.
        replaced_seal: Seal that has to be the stored one when it is written; None if the transaction has created the
            session.
    """

    columns: Mapping[str, Any]
    total: int
    seal: bytes | None
    start: SealStart | None = None
    written: Mapping[str, Any] = {}
    replaced_seal: bytes | None = None

    @property
    def session_pk(self) -> int:
        return int(self.columns["id"])

    def to_witnessed_head(self) -> WitnessedHead:
        """Return what a witness notes of this head, which has to have a seal."""
        assert self.seal is not None  # noqa: S101 - of a head that was advanced
        return WitnessedHead(build_session_name(self.columns["key_space"], self.session_pk), self.number, self.seal)

    @property
    def number(self) -> int:
        return int(self.columns["head_number"])

    def compute_next_head(self, keys: SealKeys, difference: int, changes: Mapping[str, Any]) -> SessionHead:
        """Return the head after a write.

        Args:
            keys: Configured keys.
            difference: What the write adds to the sum of rows.
            changes: Sealed columns that it changes.
        """
        key, columns, start = keys.current, {**self.columns, **changes}, self.start
        sealer, total = row_seals.get_row_sealer_of_key(key, get_session_model()), (self.total + difference) & _LARGEST
        nonce = os.urandom(_NONCE_SIZE)
        masked = (total + key.compute_keyed_number(_MASK, nonce + b"%d" % columns["id"])) & _LARGEST
        columns["head_number"] = number = columns["head_number"] + 1
        columns["row_sum"] = row_sum = nonce + masked.to_bytes(NUMBER_SIZE, "big")
        if start is None or start.sealer is not sealer or not _are_changing_columns(changes):
            start = sealer.start_seal_with_stable_columns(columns)
        newest = columns["newest_seal"]
        seal = sealer.finish_seal_with_changing_columns(start, (columns["latest_version"], newest, number, row_sum))
        written = {"newest_seal": newest, "head_number": number, "row_sum": row_sum, "row_seal": seal}
        return SessionHead(columns, total, seal, start, written, self.seal)


@dataclass
class RowChanges:
    """Rows of one session that a write has replaced."""

    removed: list[CountedRow] = field(default_factory=list)
    added: list[CountedRow] = field(default_factory=list)

    def add_row_change(self, model: type[models.Model], old_seal: bytes | None, new_seal: bytes | None) -> None:
        if old_seal:
            self.removed.append((model, bytes(old_seal)))
        if new_seal:
            self.added.append((model, bytes(new_seal)))

    def compute_difference(self, keys: SealKeys) -> int:
        """Return what the write adds to the sum of rows."""
        return compute_row_sum(keys, self.added) - compute_row_sum(keys, self.removed)


@cache
def get_session_model() -> type[models.Model]:
    return apps.get_model("checkpoints", "Session")


@cache
def list_counted_models() -> tuple[type[models.Model], ...]:
    """List the models whose rows are in the sums."""
    return tuple(
        model for model in apps.get_app_config("checkpoints").get_models() if getattr(model, "counted_in_head", False)
    )


def verify_session_row_and_build_head(row: models.Model, keys: SealKeys) -> SessionHead:
    """Return the head of a session that was read. Raises `IntegrityError`.

    The sum of a session without a seal, where those are accepted, is computed from its rows.
    """
    row_seals.verify_row(row)
    return build_unverified_head(row, keys)


def build_unverified_head(row: Any, keys: SealKeys) -> SessionHead:
    """Return the head of a session as `verify_session_row_and_build_head` does, without verification."""
    columns = row_seals.get_sealed_values_by_field(row)
    if not row.row_seal:
        return SessionHead(columns, compute_row_sum_from_database(row._state.db, row.pk, keys), None)
    seal = bytes(row.row_seal)
    return SessionHead(columns, _unmask_row_sum(keys.get_key_of_seal(seal), row.pk, bytes(row.row_sum)), seal)


def build_head_of_new_session_if_sealing(row: models.Model) -> SessionHead | None:
    """Return the head of a session that this transaction has created without a seal; None if sealing is off."""
    return None if get_seal_keys() is None else SessionHead(row_seals.get_sealed_values_by_field(row), 0, None)


def write_head_and_record_name_of_new_session(workspace: str, stored: models.QuerySet[Any]) -> None:
    """Write the head of a session that this transaction has inserted, if it did. Nothing if sealing is off.

    It counts no row: one that is there already was put there by somebody else, and the first use of the session finds
    it.

    Args:
        workspace: Slug of its workspace.
        stored: Query set of the session, without rows if another transaction has inserted it.

    Raises:
        WitnessedSessionMissing: The witness knows another session of its name.
    """
    keys = get_seal_keys()
    row = None if keys is None else stored.first()
    if keys is not None and row is not None:
        session_names_in_witness.record_new_session_name_or_raise(workspace, row.session_id, row.key_space, row.pk)
        head = SessionHead(row_seals.get_sealed_values_by_field(row), 0, None)
        write_head_and_record_in_witness(stored.db, head.compute_next_head(keys, 0, {}))


def copy_stored_head_columns(stored_rows: Iterable[models.Model], row: models.Model) -> None:
    """Copy the stored head of a session to its object, which may have been read before the last write of the head."""
    for stored in stored_rows:
        for name in WRITTEN_FIELDS:
            setattr(row, name, getattr(stored, name))


def lock_session_and_build_verified_head(using: str, session_pk: int, keys: SealKeys) -> SessionHead | None:
    """Lock a session before a write, and return its head; None if there is no such session.

    Raises:
        IntegrityError: The session does not match its seal.
        WitnessError: The session is not in the state that the witness knows, so that the write would continue an old
            copy of it.
    """
    row: Any = (
        models.QuerySet(get_session_model(), using=using).select_for_update(no_key=True).filter(pk=session_pk).first()
    )
    if row is None:
        return None
    head = verify_session_row_and_build_head(row, keys)
    if head.seal is not None and witness.get_witness() is not None:
        witness.require_head_is_newest(row.session_id, head.to_witnessed_head())
    return head


def lock_sessions(using: str, session_pks: Any) -> None:
    """Lock the sessions of rows before the rows are written, in the order of all writers.

    The lock lets others insert rows that name the session, as the library does where it does not seal.
    """
    sessions: Any = models.QuerySet(get_session_model(), using=using).filter(pk__in=session_pks)
    sessions = sessions.select_for_update(no_key=True)
    list(sessions.order_by("pk").values_list("pk", flat=True))


def write_head_and_record_in_witness(using: str, head: SessionHead) -> None:
    """Store a head, in the transaction that has locked its session."""
    witnessed = None
    if witness.get_witness() is not None:
        witnessed = head.to_witnessed_head()
        witness.record_expected_head(witnessed)
    models.QuerySet(get_session_model(), using=using).filter(pk=head.session_pk).update(**head.written)
    if witnessed is not None:
        witness.record_written_head_on_commit(using, witnessed)


def apply_row_changes_to_heads(using: str, changes: Mapping[int, RowChanges], keys: SealKeys) -> None:
    """Count changed rows in the heads of their sessions, in the transaction that has written them.

    Raises `IntegrityError` for a session that does not match its seal.
    """
    for session_pk, change in sorted(changes.items()):
        head = lock_session_and_build_verified_head(using, session_pk, keys)
        if head is None or (head.seal is not None and not (change.removed or change.added)):
            continue
        if head.seal is None:  # its sum was computed from the rows as they are now
            change = RowChanges()
        newest = find_newest_version_seal_after_change(using, head, change)
        write_head_and_record_in_witness(
            using, head.compute_next_head(keys, change.compute_difference(keys), {"newest_seal": newest})
        )


def find_newest_version_seal_after_change(using: str, head: SessionHead, change: RowChanges) -> bytes | None:
    """Return the seal of the newest version after a change: another one only if that version was written or removed."""
    known: bytes | None = head.columns["newest_seal"]
    model = apps.get_model("checkpoints", "Checkpoint")
    removed = {seal for changed_model, seal in change.removed if changed_model is model}
    added = {seal for changed_model, seal in change.added if changed_model is model}
    if not (removed or added) and head.seal is not None:
        return known
    newest: Any = models.QuerySet(model, using=using).filter(session=head.session_pk).order_by("-version").first()
    if newest is None:
        return None
    seal = None if newest.row_seal is None else bytes(newest.row_seal)
    if head.seal is None or seal in added or known is None or bytes(known) in removed:
        row_seals.verify_row(newest)
        return seal
    return known


def verify_head_against_rows_and_witness(using: str, session_pk: int, keys: SealKeys) -> None:
    """Verify the head of a session against its rows and against the witness, as they are at one moment, without a lock.

    Nothing if there is no such session, or if it has no seal and none is required. A head that another process writes
    meanwhile is read again.

    Raises:
        IntegrityError: The session does not match its seal, or its rows do not match its sum.
        WitnessAhead: The witness knows a newer state of the session.
        WitnessBehind: The witness does not know this state.
    """
    known = -1
    while True:
        row: Any = models.QuerySet(get_session_model(), using=using).filter(pk=session_pk).first()
        if row is None:
            return
        head = verify_session_row_and_build_head(row, keys)
        if head.seal is None:
            return
        stored_seal, total = read_seal_and_compute_row_sum(using, session_pk, keys)
        if stored_seal != head.seal:
            continue
        if total != head.total:
            raise build_row_sum_mismatch_error(row)
        try:
            witness.require_head_is_newest(row.session_id, head.to_witnessed_head())
        except WitnessAhead:
            if head.number <= known:  # what the witness knew before this read was committed before it
                raise
            known = head.number
        else:
            return


def compute_row_sum_from_database(using: str, session_pk: int, keys: SealKeys) -> int:
    """Compute the sum of the rows of a session that have a seal, in one statement."""
    return read_seal_and_compute_row_sum(using, session_pk, keys)[1]


def read_seal_and_compute_row_sum(
    using: str, session_pk: int, keys: SealKeys, *, without: type[models.Model] | None = None
) -> tuple[bytes | None, int]:
    """Read the seal of a session, and compute the sum of its rows that have a seal, as one statement finds them.

    `without` is a model whose rows are not counted. The seal is None if the session has none.
    """
    return read_session_seals_and_compute_row_sums(using, [session_pk], keys, without=without).get(
        session_pk, (None, 0)
    )


def is_row_sum_of_head(head: SessionHead, total: int, rows: Iterable[CountedRow], keys: SealKeys) -> bool:
    """Return whether the sum of a head is `total`, of some of its rows, and that of the other `rows`."""
    return (total + compute_row_sum(keys, rows)) & _LARGEST == head.total


def read_session_seals_and_compute_row_sums(
    using: str, session_pks: Sequence[int], keys: SealKeys, *, without: type[models.Model] | None = None
) -> dict[int, tuple[bytes | None, int]]:
    """Read the seals of sessions, and compute the sums of their rows that have a seal, as one statement finds them.

    Args:
        using: Connection alias.
        session_pks: Keys of the sessions.
        keys: Configured keys.
        without: Model whose rows are not counted.

    Returns:
        The seal and the sum by the key of the session. A session that has neither is not in it.
    """
    counted, seals, totals = list_counted_models(), dict[int, bytes](), defaultdict[int, int](int)
    with connections[using].cursor() as cursor:
        parts = 1 + len(counted) - (without is not None)
        cursor.execute(_build_select_seals_sql(len(session_pks), without), [*session_pks] * parts)
        for place, session_pk, seal in cursor.fetchall():
            if place < 0:
                seals[session_pk] = bytes(memoryview(seal))
            else:
                totals[session_pk] += compute_row_sum_term(keys, counted[place], bytes(memoryview(seal)))
    return {pk: (seals.get(pk), totals[pk] & _LARGEST) for pk in {*seals, *totals}}


@lru_cache(maxsize=8)
def _build_select_seals_sql(count: int, without: type[models.Model] | None = None) -> str:
    """Build the statement that reads the seals of a number of sessions and of their counted rows, except of a model.

    Each one is read with the place of its model and the key of its session; the place of a session's own is negative.
    """
    places = ", ".join(["%s"] * count)
    selects = [
        f'SELECT {place}, "session_id", "row_seal" FROM "{model._meta.db_table}" '  # noqa: S608 - names of models
        f'WHERE "session_id" IN ({places}) AND "row_seal" IS NOT NULL'
        for place, model in enumerate(list_counted_models())
        if model is not without
    ]
    sessions = get_session_model()._meta.db_table
    own = f'SELECT -1, "id", "row_seal" FROM "{sessions}" WHERE "id" IN ({places}) AND "row_seal" IS NOT NULL'  # noqa: S608
    return " UNION ALL ".join([own, *selects])


def compute_row_sum(keys: SealKeys, rows: Iterable[CountedRow]) -> int:
    """Compute the sum of rows."""
    return sum(compute_row_sum_term(keys, model, seal) for model, seal in rows) & _LARGEST


def verify_session_columns_and_newest_version(
    values: Sequence[Any], seal: bytes | None, newest_seal: bytes | None, session_id: str
) -> None:
    """Verify that a version is the newest one of its session.

    Args:
        values: Sealed columns of the session, in the order of its `sealed_fields`.
        seal: Seal of the session.
        newest_seal: Seal of the newest version that was found; None if there is none.
        session_id: Name with which the session was looked up.

    Raises:
        IntegrityError: The session does not match its seal, it has another name, or the version is not the one that it
            names.
    """
    model = get_session_model()
    row_seals.verify_sealed_columns(model, values, seal, f"{values[0]} ({session_id})")
    columns = dict(zip(row_seals.get_sealed_fields(model), values, strict=True))
    if columns["session_id"] != session_id:
        raise build_session_lookup_name_mismatch_error(columns["id"], columns["session_id"], session_id)
    if not seal:
        return
    known = columns["newest_seal"]
    if (None if known is None else bytes(known)) != (None if newest_seal is None else bytes(newest_seal)):
        raise build_newest_version_mismatch_error(session_id)


def build_session_lookup_name_mismatch_error(session_pk: int, name: str, given_name: str) -> IntegrityError:
    """Build the error of a session that was found by another name than it has."""
    why = f"the lookup of {given_name!r} found it: the database compares names in another way than it did"
    return IntegrityError(get_session_model()._meta.db_table, f"{session_pk} ({name})", why)


def build_row_sum_mismatch_error(session: models.Model) -> IntegrityError:
    """Build the error of a session whose rows are not those that its head counts."""
    why = (
        "the sum over its versions, calls, decisions and other rows does not match: one of them is missing, was added, "
        "or was put back to a former state"
    )
    return IntegrityError(row_seals.get_table_name(session), row_seals.describe_row(session), why)


def build_newest_version_mismatch_error(session_id: str) -> IntegrityError:
    """Build the error of a session whose newest version is not the one that its head names."""
    table = apps.get_model("checkpoints", "Checkpoint")._meta.db_table
    return IntegrityError(
        table, f"newest version of {session_id}", "it is missing, or another version stands in its place"
    )


@cache
def _get_model_label(model: type[models.Model]) -> bytes:
    return f"{model._meta.model_name}:".encode()


def compute_row_sum_term(keys: SealKeys, model: type[models.Model], seal: bytes) -> int:
    """Return the number as which a row with `seal` counts in the sum of its session."""
    key = keys.by_id.get(seal[:KEY_ID_SIZE]) or keys.get_key_of_seal(seal)
    state = key.new_numbers["head element"]()
    state.update(_get_model_label(model) + seal)
    return int.from_bytes(state.digest(), "big")


def _unmask_row_sum(key: SealKey, session_pk: int, stored: bytes) -> int:
    nonce, masked = stored[:_NONCE_SIZE], int.from_bytes(stored[_NONCE_SIZE:], "big")
    return (masked - key.compute_keyed_number(_MASK, nonce + b"%d" % session_pk)) & _LARGEST
