"""The database failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.exceptions.base import CheckpointsError


class StorageError(CheckpointsError):
    """The database failed. `may_have_happened` says whether the write may be there in spite of it."""

    code = "storage_error"

    def __init__(self, what: str, *, may_have_happened: bool) -> None:
        self.what, self.may_have_happened = what, may_have_happened
        said = (
            "The write may have happened: read back before repeating it."
            if may_have_happened
            else ("Nothing was written.")
        )
        super().__init__(f"{what} {said}")


class StorageUnavailable(StorageError):
    code = "storage_unavailable"
    hint = "Check that the database is running and reachable; the next operation opens a new connection."


class StorageBusy(StorageError):
    code = "storage_busy"
    hint = "Another writer held the database too long. Try again."


class StorageReadOnly(StorageError):
    code = "storage_read_only"
    hint = "Make the database file and its folder writable."


class StorageFull(StorageError):
    code = "storage_full"
    hint = "Free disk space; nothing else needs to be repaired."


class NotDurable(CheckpointsError):
    """Versions that were handed in to be written behind are not in the database. `unsaved` has one dict for each:
    session_id, phase, step, messages, waited_seconds, kept_back."""

    code = "not_durable"
    hint = "Nothing of these is durable: do not call the work completed. Save again once the cause is gone."

    def __init__(self, unsaved: Sequence[Mapping[str, Any]], why: str) -> None:
        self.unsaved = [dict(each) for each in unsaved]
        sessions = ", ".join(repr(session_id) for session_id in dict.fromkeys(each["session_id"] for each in unsaved))
        super().__init__(f"{len(self.unsaved)} versions of session {sessions} are not durable: {why}")


class MigrationsMissing(StorageError):
    code = "migrations_missing"
    hint = "Run `manage.py migrate`, or open the database with migrate=True."
