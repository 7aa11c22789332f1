"""The database connection of an operation: finding it, opening it, and whether a commit on it is the library's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe
from django.utils.connection import ConnectionDoesNotExist

from checkpoints.conf import POOL_TIMEOUT_SECONDS, SUPPORTED_VENDORS
from checkpoints.exceptions import (
    CheckpointsError,
    ConnectionFailed,
    DatabaseNotConfigured,
    DriverMissing,
    InsideTransaction,
)


class _Operations(threading.local):
    """For each alias with an operation in progress on this thread: how many transaction.atomic() blocks were open
    when the outermost one began."""

    def __init__(self) -> None:
        self.outer_blocks: dict[str, int] = {}


_operations = _Operations()
#: The logins (name, user, password, host and port) with which a server has let this process in.
_reached: set[tuple[str, ...]] = set()


def find_connection(using: str) -> BaseDatabaseWrapper:
    """Return this thread's connection of the alias `using`, opened or not.

    Raises `DatabaseNotConfigured` where Django has no SQLite or PostgreSQL database under that alias, and
    `DriverMissing` where the Python package for it is not installed.
    """
    try:
        connection = connections[using]
    except ConnectionDoesNotExist as error:
        raise DatabaseNotConfigured(using, "DATABASES has no such alias") from error
    except ImproperlyConfigured as error:
        raise _configuration_error(using, error) from error
    if connection.vendor == "unknown":
        raise DatabaseNotConfigured(using, "DATABASES has no ENGINE for it")
    if connection.vendor not in SUPPORTED_VENDORS:
        raise DatabaseNotConfigured(using, f"it is {connection.display_name}, neither SQLite nor PostgreSQL")
    return connection


@contextmanager
def track_operation(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Tell the transaction.atomic() blocks that the library opens from here on from those of its caller."""
    if connection.alias in _operations.outer_blocks:
        yield
        return
    _operations.outer_blocks[connection.alias] = len(connection.atomic_blocks)
    try:
        yield
    finally:
        del _operations.outer_blocks[connection.alias]


def require_own_transaction(connection: BaseDatabaseWrapper) -> None:
    """Refuse to write where the commit is somebody else's: inside the caller's transaction.atomic() block, and where
    autocommit is off. As with `durable=True` of Django, the blocks of its `TestCase` do not count.

    Raises `InsideTransaction`.
    """
    blocks = connection.atomic_blocks
    if blocks:
        outer = blocks[: _operations.outer_blocks.get(connection.alias, len(blocks))]
        if any(not getattr(block, "_from_testcase", False) for block in outer):
            raise InsideTransaction(connection.alias)
        commits = connection.commit_on_exit
    elif connection.connection is None:
        commits = connection.settings_dict["AUTOCOMMIT"]
    else:
        commits = connection.autocommit
    if not commits:
        raise InsideTransaction(connection.alias, "autocommit is off")


def open_connection(connection: BaseDatabaseWrapper) -> None:
    """Connect to a PostgreSQL server where that has not been done; a SQLite file is opened by its first statement.

    The first connection of a process is made beside the pool: a server that refuses it says why at once, while the
    pool would try again until its time is up and not tell. Raises `ConnectionFailed` and `DriverMissing`.
    """
    if connection.connection is not None or connection.in_atomic_block or connection.vendor != "postgresql":
        return
    try:
        if has_pool(connection):
            reach_server(connection)
        connection.ensure_connection()
    except ImproperlyConfigured as error:
        raise _configuration_error(connection.alias, error) from error
    except DatabaseError as error:
        raise _connection_failed(connection, error) from error


def reach_server(connection: BaseDatabaseWrapper) -> None:
    """Make sure that the PostgreSQL server has once let this process in; a pool and its threads are not made for it.

    Raises `ConnectionFailed` and `DriverMissing`.
    """
    settings = connection.settings_dict
    login = tuple(str(settings[key]) for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT"))
    if login in _reached:
        return
    try:
        if has_pool(connection):
            _ = connection.pool  # type: ignore[attr-defined]  # Django imports the package for it here
        _connect_once(connection)
    except ImproperlyConfigured as error:
        raise _configuration_error(connection.alias, error) from error
    except DatabaseError as error:
        raise _connection_failed(connection, error) from error
    _reached.add(login)


@async_unsafe
def _connect_once(connection: BaseDatabaseWrapper) -> None:
    """Make a connection beside the pool and close it. Raises the `DatabaseError` of the server or the network."""
    parameters = {"connect_timeout": POOL_TIMEOUT_SECONDS, **connection.get_connection_params()}
    with connection.wrap_database_errors:
        connection.Database.connect(**parameters).close()  # type: ignore[attr-defined]


def has_pool(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def close_broken(connection: BaseDatabaseWrapper) -> None:
    """Close the connection, and those of its pool that broke with it, so that the next operation gets a good one."""
    connection.close()
    if has_pool(connection):
        with suppress(Exception):  # a server that is gone cannot be asked
            connection.pool.check()  # type: ignore[attr-defined]


def _configuration_error(using: str, error: ImproperlyConfigured) -> CheckpointsError:
    kind = DriverMissing if isinstance(error.__context__, ImportError) else DatabaseNotConfigured
    return kind(using, _first_line(error))


def _connection_failed(connection: BaseDatabaseWrapper, error: DatabaseError) -> ConnectionFailed:
    """The error with the server's reason: a pool that waited in vain does not know it."""
    if type(error.__cause__).__name__ == "PoolTimeout":
        try:
            _connect_once(connection)
        except DatabaseError as reason:
            error = reason
    return ConnectionFailed(f"The database says: {_first_line(error)}.", may_have_happened=False)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
