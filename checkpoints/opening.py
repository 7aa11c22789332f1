"""Opening a database by path or URL: the connection, the file, the tables."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import call_command
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from checkpoints import conf, migrations
from checkpoints.exceptions import BlockingCallInAsyncCode, InvalidDatabaseUrl
from checkpoints.saving.connection import find_connection, reach_server
from checkpoints.saving.operations import operation

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes must not create one file at the same moment
    fcntl = None  # type: ignore[assignment]

#: The key of the PostgreSQL advisory lock under which tables are created.
_MIGRATION_LOCK = 0x4861726E


def opened(url: str | Path, *, migrate: bool | None = None) -> str:
    """The connection alias of the database at `url`, with Django configured and, for SQLite, file and tables in place.

    `migrate` None means: SQLite yes, PostgreSQL no. Raises `InvalidDatabaseUrl`, `DriverMissing`, and kinds of
    `StorageError`: `ConnectionFailed` at once where a PostgreSQL server lets nobody in.
    """
    alias = conf.open_alias(str(url))
    connection = find_connection(alias)
    if connection.vendor == "postgresql":
        _reach(connection)
    if migrate or (migrate is None and connection.vendor == "sqlite"):
        with _one_at_a_time(alias), operation(alias, writes=False):
            if not _current(alias):
                with operation(alias):
                    _migrate(alias)
    return alias


def _reach(connection: BaseDatabaseWrapper) -> None:
    """A server that lets nobody in says so when it is opened, not at the first use."""
    try:
        reach_server(connection)
    except SynchronousOnlyOperation as error:
        raise BlockingCallInAsyncCode from error


def _migrate(alias: str) -> None:
    """Bring the tables up to date in one transaction: a process that dies on the way leaves nothing half made.

    A single migration is not enough for that, because Django may write down that it was applied in a later one.
    """
    # SQLite cannot turn its checks off inside a transaction, and alters no table while they are on.
    with connections[alias].constraint_checks_disabled(), transaction.atomic(using=alias):
        call_command("migrate", "checkpoints", database=alias, verbosity=0, interactive=False)


def _current(alias: str) -> bool:
    """Whether every migration of this app has been applied."""
    shipped = {module.name for module in pkgutil.iter_modules(migrations.__path__)}
    applied = {name for app, name in MigrationRecorder(connections[alias]).applied_migrations() if app == "checkpoints"}
    return shipped <= applied


@contextmanager
def _one_at_a_time(alias: str) -> Iterator[None]:
    """Keep two processes from creating the same database at once."""
    connection = connections[alias]
    if connection.vendor == "postgresql":
        with operation(alias, writes=False), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
            try:
                yield
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATION_LOCK])
        return
    path = Path(connection.settings_dict["NAME"])
    if path.is_dir():
        raise InvalidDatabaseUrl(f"{path} is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise InvalidDatabaseUrl(f"{path} cannot be created ({error.strerror})") from error
    with lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
