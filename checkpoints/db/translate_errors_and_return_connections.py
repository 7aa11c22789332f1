"""Context of every database operation: returns connections to the pool, and translates errors to typed ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, Error, InterfaceError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ProgrammingError

from checkpoints.db.connection import (
    close_broken_connections,
    ensure_connected_if_postgresql,
    get_supported_connection,
    has_pool,
)
from checkpoints.db.refuse_caller_transactions import mark_library_transactions, require_no_caller_transaction
from checkpoints.exceptions import (
    BlockingCallInAsyncCode,
    MigrationsMissing,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)


@contextmanager
def database_operation(using: str, *, writes: bool = True) -> Iterator[BaseDatabaseWrapper]:
    """Run one operation on the connection `using`.

    A connection that this operation opened goes back to its pool at the end. A broken one is closed, so that the
    next operation opens a new one. Raises subclasses of `StorageError`; `InsideTransaction` if it writes and the commit
    belongs to the caller; `BlockingCallInAsyncCode` on the thread of an event loop.
    """
    connection = get_supported_connection(using)
    opened_before = connection.connection is not None
    handled_before = sys.exception()
    with mark_library_transactions(connection):
        try:
            if writes:
                require_no_caller_transaction(connection)
            ensure_connected_if_postgresql(connection)
            yield connection
        except SynchronousOnlyOperation as error:
            raise BlockingCallInAsyncCode from error
        except (DatabaseError, InterfaceError) as error:
            original = _find_first_error_in_context(error, handled_before)
            sent = writes and (connection.connection is not None or original is not error)
            raise _translate_error_and_close_broken_connections(original, connection, sent) from error
        finally:
            is_new = connection.connection is not None and not opened_before
            if is_new and not connection.in_atomic_block and has_pool(connection):
                connection.close()


def require_no_caller_transaction_of_alias(using: str) -> None:
    """Raise `InsideTransaction` if a write would, for work that has to be done before it."""
    require_no_caller_transaction(get_supported_connection(using))


@contextmanager
def open_transaction_to_read_back_lost_commit(using: str, error: StorageUnavailable) -> Iterator[None]:
    """Open a transaction in which the caller reads back a write whose answer was lost with `error`.

    A backend of the lost connection that still runs is waited for through the locks taken here. If the write cannot be
    read back either, `error` is raised: the write may have happened.
    """
    if not error.may_have_happened:
        raise error
    try:
        with database_operation(using, writes=False), transaction.atomic(using=using):
            yield
    except StorageError as unread:
        raise error from unread


def _find_first_error_in_context(error: Error, handled_before: BaseException | None) -> Error:
    """Return the first error. Django reconnects after a broken transaction; if that fails too, the transaction's own
    error is only in the context of the second one.
    """
    original, context = error, error.__context__
    while context is not None and context is not handled_before:
        original = context if isinstance(context, Error) else original
        context = context.__context__
    return original


def _translate_error_and_close_broken_connections(
    error: Error, connection: BaseDatabaseWrapper, sent: bool
) -> StorageError:
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    description = f"The database says: {message}."
    lowered = message.lower()
    if isinstance(error, ProgrammingError | OperationalError) and (
        "no such table" in lowered or "does not exist" in lowered or "no such column" in lowered
    ):
        return MigrationsMissing(description, may_have_happened=False)
    if "permission denied" in lowered:
        missing_right = (
            "The login lacks a right. An administrator grants those of agents with `harness create_agent_login "
            "--rights-only`, and those of all roles with the SQL of `harness database_roles`. Where there are such "
            "roles, commands that migrate, delete, seal or sign need a login in the role that migrates."
        )
        return StorageError(f"{description} {missing_right}", may_have_happened=False)
    if "unable to open database file" in lowered:
        description += f" The folder of {connection.settings_dict['NAME']} has to exist, and this user to write to it."
    if "readonly" in lowered or "read-only" in lowered:
        return StorageReadOnly(description, may_have_happened=False)
    if "disk is full" in lowered or "no space left" in lowered:
        return StorageFull(description, may_have_happened=False)
    if "locked" in lowered or "lock timeout" in lowered or "deadlock" in lowered:
        return StorageBusy(description, may_have_happened=False)
    if isinstance(error, OperationalError | InterfaceError):
        if not connection.in_atomic_block:
            close_broken_connections(connection)
        return StorageUnavailable(description, may_have_happened=sent)
    return StorageError(description, may_have_happened=False)
