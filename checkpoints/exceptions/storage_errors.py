"""Errors of the database, of its configuration, and about stored data that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.exceptions.base_error import CheckpointsError


class StorageError(CheckpointsError):
    """The database failed. `may_have_happened` says whether the write may be there in spite of it."""

    code = "storage_error"

    def __init__(self, what: str, *, may_have_happened: bool) -> None:
        self.what, self.may_have_happened = what, may_have_happened
        effect = (
            "The write may have happened: read back before repeating it."
            if may_have_happened
            else ("Nothing was written.")
        )
        super().__init__(f"{what} {effect}")


class StorageUnavailable(StorageError):
    """The database cannot be reached, or the connection was lost."""

    code = "storage_unavailable"
    hint = "Check that the database is running and reachable; the next operation opens a new connection."


class ConnectionFailed(StorageUnavailable):
    """The database server refused the connection, or there is no server."""

    code = "connection_failed"
    hint = "Check host, port, database name, user and password, and that the server is running."


class StorageBusy(StorageError):
    """Another writer held a lock for too long, or a deadlock was resolved."""

    code = "storage_busy"
    hint = (
        "Another writer held the database too long. Try again; on SQLite, not while a transaction.atomic() block of "
        "this program is open: it keeps every other connection from writing until it ends."
    )


class StorageReadOnly(StorageError):
    """The database cannot be written to."""

    code = "storage_read_only"
    hint = "Make the database file and its folder writable."


class StorageFull(StorageError):
    """The disk of the database is full."""

    code = "storage_full"
    hint = "Free disk space; nothing else needs to be repaired."


class InsideTransaction(CheckpointsError):
    """A transaction of the caller is open on the connection, so that nothing written now would be durable."""

    code = "inside_transaction"
    hint = (
        "Move the call out of the transaction.atomic() block, decorate the view with "
        "transaction.non_atomic_requests, or give the library a connection of its own: on PostgreSQL a second alias "
        "in DATABASES and Checkpointer(using=…). Nothing was written or run."
    )

    def __init__(self, using: str, why: str = "a transaction of the caller is open on it") -> None:
        self.using = using
        super().__init__(f"What is written through the connection {using!r} would not be durable: {why}.")


class BlockingCallInAsyncCode(CheckpointsError):
    """A blocking method was called on the thread of a running event loop."""

    code = "blocking_call_in_async_code"
    hint = (
        "Use checkpoints.Checkpointer there, whose methods are awaited, or call this from a thread: "
        "asyncio.to_thread(…). Nothing was written."
    )

    def __init__(self) -> None:
        super().__init__("SyncCheckpointer blocks, and this is the thread of a running event loop.")


class DatabaseNotConfigured(CheckpointsError):
    """Django has no usable database under this alias."""

    code = "database_not_configured"
    hint = (
        "In a Django project add the alias to DATABASES (checkpoints.database_url.database_from_url makes the entry); "
        'in a plain script open the database by path or URL: Checkpointer("agent.db").'
    )

    def __init__(self, using: str, why: str) -> None:
        self.using = using
        super().__init__(f"There is no database to use under the alias {using!r}: {why}.")


class TimesNotInUtc(CheckpointsError):
    """The settings of the project make Django read or write the times of this database in another zone than UTC."""

    code = "times_not_in_utc"
    hint = (
        "Set USE_TZ = True, and remove TIME_ZONE from the entry in DATABASES, or give the library an entry of its own "
        "and Checkpointer(using=…); the setting TIME_ZONE of the project may have any value. Nothing was written."
    )

    def __init__(self, using: str, why: str) -> None:
        self.using = using
        super().__init__(f"Leases and deadlines in the database {using!r} would be wrong: {why}.")


class NotDurable(CheckpointsError):
    """Versions that were handed in to be written behind are not in the database.

    `unsaved` has one dict for each: session_id, phase, step, messages, waited_seconds, kept_back.
    """

    code = "not_durable"
    hint = "Nothing of these is durable: do not call the work completed. Save again once the cause is gone."

    def __init__(self, unsaved: Sequence[Mapping[str, Any]], why: str) -> None:
        self.unsaved = [dict(version) for version in unsaved]
        sessions = ", ".join(
            repr(session_id) for session_id in dict.fromkeys(version["session_id"] for version in unsaved)
        )
        super().__init__(f"{len(self.unsaved)} versions of session {sessions} are not durable: {why}")


class MigrationsMissing(StorageError):
    """The tables are missing or older than this code."""

    code = "migrations_missing"
    hint = (
        "Where the site runs, with its settings, run `harness migrate` (in a Django project: `manage.py migrate`), and "
        "after it `harness create_agent_login --rights-only` if agents have logins of their own. Without a site, open "
        "the database once with migrate=True and a login that may create tables."
    )


class CheckpointCorrupted(CheckpointsError):
    """A stored record is damaged. Nothing was run."""

    code = "checkpoint_corrupted"
    hint = "Nothing was run. Load an earlier version or fork from one."

    def __init__(self, session_id: str, field: str, why: str) -> None:
        self.session_id, self.field = session_id, field
        super().__init__(f"In session {session_id!r}, {field} is damaged: {why}.")


class SchemaFromFuture(CheckpointsError):
    """A newer version of this library wrote the record: schema `found`, where `known` is the newest known one."""

    code = "schema_from_future"
    hint = "Upgrade this process before it touches the session. Nothing was run."

    def __init__(self, session_id: str, found: int, known: int) -> None:
        self.session_id, self.found, self.known = session_id, found, known
        super().__init__(f"Session {session_id!r} was written with schema {found}; this code knows up to {known}.")
