"""Witness: the newest heads of sessions, kept outside the database, so that an old copy of it is noticed.

A session's seal proves that a state was written, not that it is the newest one. A witness knows the number of the last
write. Each write of a head is noted before its commit (expected) and after it (confirmed). The stored head of a session
must be the last confirmed one, or a later expected one: its process may have died between the commit and the
confirmation.

`HARNESS_WITNESS` is the path of a file, the path of a folder with a slash at its end, the URL or the Django alias of a
second database, or the dotted name of a function that returns a `Witness`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.module_loading import import_string

from checkpoints import database_url
from checkpoints.exceptions import (
    SealKeyInvalid,
    WitnessAhead,
    WitnessBehind,
    WitnessError,
)
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.witness_database import DatabaseWitness
from checkpoints.seals.witness_file import FileWitness
from checkpoints.seals.witness_folder import FolderWitness
from checkpoints.seals.witness_records import (
    WitnessedHead,
    WitnessedSession,
    build_head_of_deleted_session,
    build_session_name,
)

logger = logging.getLogger(__name__)

SETTING = "HARNESS_WITNESS"
SYNC_SETTING = "HARNESS_WITNESS_SYNC"


class Witness(Protocol):
    """Store of heads outside the database. Every method may raise a subclass of `WitnessError`."""

    def record_expected_head(self, head: WitnessedHead) -> None:
        """Note a head that is about to be written."""

    def record_written_head(self, head: WitnessedHead) -> None:
        """Note a head that was written."""

    def record_adopted_head(self, head: WitnessedHead) -> None:
        """Note a head as the newest one by one more record: the records from before stay, and no longer count."""

    def find_session(self, name: str) -> WitnessedSession | None:
        """Find what is known of a session, or of the digest of a name; None if nothing is."""

    def list_session_names(self) -> list[str]:
        """List the names of all sessions of which anything was noted, with or without the digests of names."""


@cache
def get_witness() -> Witness | None:
    """Return the configured witness; None if there is none. Read once per process. Raises `SealKeyInvalid`."""
    value = _read_setting_or_environment_variable(SETTING)
    if not value:
        return None
    sync = _read_setting_or_environment_variable(SYNC_SETTING) or "batched"
    if sync not in {"batched", "each"}:
        raise SealKeyInvalid(f"{SYNC_SETTING} is {sync!r}; use batched or each")
    if "://" in value or value in connections.databases:
        return _open_database_witness(value, sync_each=sync == "each")
    if os.sep not in value and "." in value and not value.endswith((".log", ".txt")):
        factory: Callable[[], Witness] = import_string(value)
        return factory()
    make = FolderWitness if value.endswith(os.sep) else FileWitness
    return make(Path(value), sync_each=sync == "each")


def _open_database_witness(value: str, *, sync_each: bool) -> DatabaseWitness:
    """Open the witness in a second database, by its URL or its alias."""
    alias = database_url.get_or_register_connection_alias(value) if "://" in value else value
    if alias == DEFAULT_DB_ALIAS:
        raise SealKeyInvalid(f"{SETTING} is the database of the sessions; use another one")
    return DatabaseWitness(alias, sync_each=sync_each)


def _read_setting_or_environment_variable(name: str) -> str:
    value = getattr(settings, name, None)
    return str(os.environ.get(name, "") if value is None else value).strip()


def record_expected_head(head: WitnessedHead) -> None:
    """Note a head that a statement is about to write."""
    witness = get_witness()
    if witness is not None:
        witness.record_expected_head(head)


def record_written_head_on_commit(using: str, head: WitnessedHead) -> None:
    """Note a head that a statement has written, when its transaction is committed.

    A witness that cannot be written then is no error, because the head was written, and was expected. The next write
    finds out whether it can be.
    """
    witness = get_witness()
    if witness is not None:
        transaction.on_commit(partial(_record_written_head_or_log_error, witness, head), using=using)


def _record_written_head_or_log_error(witness: Witness, head: WitnessedHead) -> None:
    try:
        witness.record_written_head(head)
    except WitnessError as error:
        logger.warning("Write %s of session %s was not confirmed: %s", head.number, head.name, error)


def record_deleted_session_on_commit(using: str, key_space: str, session_pk: int) -> None:
    """Note that this library has deleted a session, when its transaction is committed. Nothing without a key of seals.

    If the witness cannot be written then, the error is logged, and the session counts as missing until it is adopted.
    """
    witness = get_witness()
    if witness is not None and get_seal_keys() is not None:
        head = build_head_of_deleted_session(build_session_name(key_space, session_pk))
        transaction.on_commit(lambda: witness.record_adopted_head(head), using=using, robust=True)


def require_head_is_newest(session_id: str, head: WitnessedHead) -> None:
    """Verify that the stored head of a session is the newest one that the witness knows. Nothing without a witness.

    Raises:
        WitnessAhead: The witness knows a newer state of the session.
        WitnessBehind: The witness does not know this state.
    """
    witness = get_witness()
    if witness is None:
        return
    known = witness.find_session(head.name)
    if known is not None and known.knows_head(head.number, head.seal):
        return
    if known is not None and known.number >= head.number:
        raise WitnessAhead(session_id, known.number, head.number)
    raise WitnessBehind(session_id, -1 if known is None else known.number, head.number)


def _clear_witness_cache_on_setting_change(*, setting: str, **_: Any) -> None:
    if setting in {SETTING, SYNC_SETTING}:
        get_witness.cache_clear()


setting_changed.connect(_clear_witness_cache_on_setting_change, dispatch_uid="checkpoints.seals.witness")
