"""What surrounds every operation on the database: connections given back, failures turned into typed errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, Error, InterfaceError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ProgrammingError

from checkpoints.exceptions import (
    BlockingCallInAsyncCode,
    MigrationsMissing,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from checkpoints.saving.connection import (
    close_broken,
    find_connection,
    has_pool,
    open_connection,
    require_own_transaction,
    track_operation,
)


@contextmanager
def operation(using: str, *, writes: bool = True) -> Iterator[BaseDatabaseWrapper]:
    """One operation on the connection `using`.

    A connection that this operation opened goes back to its pool at the end. A broken one is closed, so that the
    next operation opens a new one. Raises subclasses of `StorageError`; `InsideTransaction` where it writes and what
    it writes would not be durable at its end; `BlockingCallInAsyncCode` on the thread of an event loop.
    """
    connection = find_connection(using)
    opened_before = connection.connection is not None
    handled_before = sys.exception()
    with track_operation(connection):
        try:
            if writes:
                require_own_transaction(connection)
            open_connection(connection)
            yield connection
        except SynchronousOnlyOperation as error:
            raise BlockingCallInAsyncCode from error
        except (DatabaseError, InterfaceError) as error:
            first = _first(error, handled_before)
            sent = writes and (connection.connection is not None or first is not error)
            raise _typed(first, connection, sent) from error
        finally:
            opened = connection.connection is not None and not opened_before
            if opened and not connection.in_atomic_block and has_pool(connection):
                connection.close()


def refuse_inside_transaction(using: str) -> None:
    """Raise `InsideTransaction` where a write would, for what is to be done before it."""
    require_own_transaction(find_connection(using))


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


def _first(error: Error, handled_before: BaseException | None) -> Error:
    """What went wrong first. Django leaves a broken transaction by connecting again; where that fails too, the error
    of the transaction itself is only in the context of the second one."""
    first, context = error, error.__context__
    while context is not None and context is not handled_before:
        first = context if isinstance(context, Error) else first
        context = context.__context__
    return first


def _typed(error: Error, connection: BaseDatabaseWrapper, sent: bool) -> StorageError:
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
            close_broken(connection)
        return StorageUnavailable(what, may_have_happened=sent)
    return StorageError(what, may_have_happened=False)
