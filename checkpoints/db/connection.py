"""Database connection of an operation: find it, open it, and say why it cannot be opened."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe
from django.utils.connection import ConnectionDoesNotExist

from checkpoints.constants import POOL_TIMEOUT_SECONDS, SUPPORTED_VENDORS
from checkpoints.exceptions import (
    CheckpointsError,
    ConnectionFailed,
    DatabaseNotConfigured,
    DriverMissing,
    TimesNotInUtc,
)

#: Logins (name, user, password, host and port) that a server has accepted in this process.
_reached_servers: set[tuple[str, ...]] = set()
#: Connections and pools of the process from which this one was forked. They are neither used nor closed here, because
#: their sockets and locks are those of the other process: they are only referenced, so that nothing else closes them.
_inherited: list[Any] = []


def get_supported_connection(using: str) -> BaseDatabaseWrapper:
    """Return this thread's connection of the alias `using`, opened or not.

    Raises `DatabaseNotConfigured` if Django has no SQLite or PostgreSQL database under that alias, `DriverMissing` if
    its Python package is not installed, and `TimesNotInUtc` if the settings give its times another meaning.
    """
    try:
        connection = connections[using]
    except ConnectionDoesNotExist as error:
        raise DatabaseNotConfigured(using, "DATABASES has no such alias") from error
    except ImproperlyConfigured as error:
        raise _build_configuration_error(using, error) from error
    if connection.vendor == "unknown":
        raise DatabaseNotConfigured(using, "DATABASES has no ENGINE for it")
    if connection.vendor not in SUPPORTED_VENDORS:
        raise DatabaseNotConfigured(using, f"it is {connection.display_name}, neither SQLite nor PostgreSQL")
    if not settings.USE_TZ:
        raise TimesNotInUtc(using, "USE_TZ is off")
    if connection.timezone_name != "UTC":
        raise TimesNotInUtc(using, f"its entry in DATABASES has the TIME_ZONE {connection.timezone_name}")
    return connection


def discard_inherited_connections() -> None:
    """Make a forked process open connections and pools of its own, of whatever alias.

    Two processes that use one socket read each other's results, and the threads of a pool do not exist in a forked
    process. A connection inside a transaction.atomic() block, and a SQLite database in memory, stay as they are.
    """
    if not settings.configured:  # then no connection was opened
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
            continue
        _inherited.append(connection)
        del connections[connection.alias]
    if (backend := sys.modules.get("django.db.backends.postgresql.base")) is not None:
        pools = backend.DatabaseWrapper._connection_pools
        _inherited.extend(pools.values())
        pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=discard_inherited_connections)


def ensure_connected_if_postgresql(connection: BaseDatabaseWrapper) -> None:
    """Connect to a PostgreSQL server unless connected; a SQLite file is opened by its first statement.

    The first connection of a process is made outside the pool: a server that refuses it then raises its reason at once,
    while the pool would retry until its timeout and lose the reason. Raises `ConnectionFailed` and `DriverMissing`.
    """
    if connection.connection is not None or connection.in_atomic_block or connection.vendor != "postgresql":
        return
    try:
        if has_pool(connection):
            ensure_server_reachable(connection)
        connection.ensure_connection()
    except ImproperlyConfigured as error:
        raise _build_configuration_error(connection.alias, error) from error
    except DatabaseError as error:
        raise find_reason_and_build_connection_failed_error(connection, error) from error


def ensure_server_reachable(connection: BaseDatabaseWrapper) -> None:
    """Connect once to the PostgreSQL server outside the pool, unless this process has done so.

    Raises `ConnectionFailed` and `DriverMissing`.
    """
    settings = connection.settings_dict
    login = tuple(str(settings[key]) for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT"))
    if login in _reached_servers:
        return
    try:
        if has_pool(connection):
            _ = connection.pool  # type: ignore[attr-defined]  # Django imports the package for it here
        _test_connection_outside_pool(connection)
    except ImproperlyConfigured as error:
        raise _build_configuration_error(connection.alias, error) from error
    except DatabaseError as error:
        raise find_reason_and_build_connection_failed_error(connection, error) from error
    _reached_servers.add(login)


@async_unsafe
def _test_connection_outside_pool(connection: BaseDatabaseWrapper) -> None:
    """Open a connection outside the pool and close it. Raises the `DatabaseError` of the server or the network."""
    parameters = {"connect_timeout": POOL_TIMEOUT_SECONDS, **connection.get_connection_params()}
    with connection.wrap_database_errors:
        connection.Database.connect(**parameters).close()  # type: ignore[attr-defined]


def has_pool(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def close_broken_connections(connection: BaseDatabaseWrapper) -> None:
    """Close the connection, and those of its pool that broke with it, so that the next operation gets a good one."""
    connection.close()
    if has_pool(connection):
        with suppress(Exception):  # an unreachable server cannot be queried
            connection.pool.check()  # type: ignore[attr-defined]


def _build_configuration_error(using: str, error: ImproperlyConfigured) -> CheckpointsError:
    kind = DriverMissing if isinstance(error.__context__, ImportError) else DatabaseNotConfigured
    return kind(using, _get_first_line(error))


def find_reason_and_build_connection_failed_error(
    connection: BaseDatabaseWrapper, error: DatabaseError
) -> ConnectionFailed:
    """Build the error with the server's reason, which a pool that timed out does not know."""
    if type(error.__cause__).__name__ == "PoolTimeout":
        try:
            _test_connection_outside_pool(connection)
        except DatabaseError as reason:
            error = reason
    return ConnectionFailed(f"The database says: {_get_first_line(error)}.", may_have_happened=False)


def _get_first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
