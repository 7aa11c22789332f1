"""What surrounds every operation on the database: connections given back, failures turned into typed errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ProgrammingError

from checkpoints.exceptions import (
    MigrationsMissing,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)


@contextmanager
def operation(using: str, *, writes: bool = True) -> Iterator[BaseDatabaseWrapper]:
    """One operation on the connection `using`.

    A connection that this operation opened goes back to its pool at the end. A broken one is closed, so that the
    next operation opens a new one. Raises subclasses of `StorageError`.
    """
    connection = connections[using]
    opened_before = connection.connection is not None
    handled_before = sys.exception()
    try:
        yield connection
    except DatabaseError as error:
        first = _first(error, handled_before)
        sent = writes and (connection.connection is not None or first is not error)
        raise _typed(first, connection, sent) from error
    finally:
        if not connection.in_atomic_block and not opened_before and _pooled(connection):
            connection.close()


@contextmanager
def reading_back(using: str, error: StorageUnavailable) -> Iterator[None]:
    """Read whether a write is there whose answer was lost with `error`.

    What still runs for a connection that is gone is waited for where it holds a lock that is taken here. While it
    cannot be read either, `error` stands: the write may have happened.
    """
    if not error.may_have_happened:
        raise error
    try:
        with operation(using, writes=False), transaction.atomic(using=using):
            yield
    except StorageError as unread:
        raise error from unread


def _first(error: DatabaseError, handled_before: BaseException | None) -> DatabaseError:
    """What went wrong first. Django leaves a broken transaction by connecting again; where that fails too, the error
    of the transaction itself is only in the context of the second one."""
    first, context = error, error.__context__
    while context is not None and context is not handled_before:
        first = context if isinstance(context, DatabaseError) else first
        context = context.__context__
    return first


def _pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def _drop_broken(connection: BaseDatabaseWrapper) -> None:
    """Close the connection, and those of its pool that broke with it, so that the next operation gets a good one."""
    connection.close()
    if _pooled(connection):
        with suppress(Exception):  # a server that is gone cannot be asked
            connection.pool.check()  # type: ignore[attr-defined]


def _typed(error: DatabaseError, connection: BaseDatabaseWrapper, sent: bool) -> StorageError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    what = f"The database says: {said}."
    lowered = said.lower()
    if isinstance(error, ProgrammingError | OperationalError) and (
        "no such table" in lowered or "does not exist" in lowered or "no such column" in lowered
    ):
        return MigrationsMissing(what, may_have_happened=False)
    if "readonly" in lowered or "read-only" in lowered:
        return StorageReadOnly(what, may_have_happened=False)
    if "disk is full" in lowered or "no space left" in lowered:
        return StorageFull(what, may_have_happened=False)
    if "locked" in lowered or "lock timeout" in lowered or "deadlock" in lowered:
        return StorageBusy(what, may_have_happened=False)
    if isinstance(error, OperationalError | InterfaceError):
        if not connection.in_atomic_block:
            _drop_broken(connection)
        return StorageUnavailable(what, may_have_happened=sent)
    return StorageError(what, may_have_happened=False)
