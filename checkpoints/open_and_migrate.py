"""Open a database by path or URL: the connection, the file, the tables."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps.registry import Apps
from django.apps.registry import apps as installed_apps
from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from checkpoints import database_url, migrations
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.db.connection import ensure_server_reachable, get_supported_connection
from checkpoints.db.related_rows_database_router import put_library_router_first
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import BlockingCallInAsyncCode, InvalidDatabaseUrl

try:
    import fcntl
except ImportError:  # not a POSIX system: there is no lock, and only one process may create a file at a time
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

#: Key of the PostgreSQL advisory lock under which tables are created.
_MIGRATION_LOCK = 0x4861726E
#: The primary key that the first migration gives the default workspace.
_DEFAULT_WORKSPACE_PK = 1


def open_database_and_get_alias(url: str | Path, *, migrate: bool | None = None) -> str:
    """Return the connection alias of the database at `url`, with Django configured.

    For SQLite, the file and its tables are created, and the log names a new file. `migrate` None means: SQLite yes,
    PostgreSQL no. Raises
    `InvalidDatabaseUrl`, `DriverMissing`, and subclasses of `StorageError`: `ConnectionFailed` at once if a PostgreSQL
    server refuses the connection.
    """
    alias = database_url.get_or_register_connection_alias(str(url))
    connection = get_supported_connection(alias)
    put_library_router_first()
    if connection.vendor == "postgresql":
        _require_server_reachable(connection)
    if migrate or (migrate is None and connection.vendor == "sqlite"):
        with _create_folder_and_hold_migration_lock(alias):
            is_new_file = connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists()
            with database_operation(alias, writes=False):
                if not _is_migrated(alias):
                    with database_operation(alias):
                        _migrate_atomically(alias)
        if is_new_file:  # not said by an exception, and a wrong path would look like success
            logger.warning("Created the SQLite database %s.", connection.settings_dict["NAME"])
    return alias


def _require_server_reachable(connection: BaseDatabaseWrapper) -> None:
    """Connect once, so that a server that refuses the connection raises now and not at the first use."""
    try:
        ensure_server_reachable(connection)
    except SynchronousOnlyOperation as error:
        raise BlockingCallInAsyncCode from error


def _migrate_atomically(alias: str) -> None:
    """Migrate the tables in one transaction: a process that dies meanwhile leaves nothing half done.

    A single migration is not enough for that, because Django may record it as applied in a later transaction.
    """
    # SQLite cannot turn foreign key checks off inside a transaction, and alters no table while they are on.
    with connections[alias].constraint_checks_disabled(), transaction.atomic(using=alias):
        call_command("migrate", "checkpoints", database=alias, verbosity=0, interactive=False)


def create_default_workspace_if_none(using: str, apps: Apps = installed_apps, **_: Any) -> None:
    """Create the default workspace where there is no workspace at all: `flush` has removed it, as Django does after
    each `TransactionTestCase`.

    It gets the primary key that it had, which clients remember.
    """
    try:
        workspace = apps.get_model("checkpoints", "Workspace")
    except LookupError:  # its table was just removed
        return
    rows = workspace.objects.using(using)
    if not router.allow_migrate_model(using, workspace) or rows.exists():
        return
    rows.create(pk=_DEFAULT_WORKSPACE_PK, slug=DEFAULT_WORKSPACE, name="Default")
    with connections[using].cursor() as cursor:
        for statement in connections[using].ops.sequence_reset_sql(no_style(), [workspace]):
            cursor.execute(statement)


def _is_migrated(alias: str) -> bool:
    """Return whether every migration of this app has been applied."""
    shipped = {module.name for module in pkgutil.iter_modules(migrations.__path__)}
    applied_names = {
        name for app, name in MigrationRecorder(connections[alias]).applied_migrations() if app == "checkpoints"
    }
    return shipped <= applied_names


@contextmanager
def _create_folder_and_hold_migration_lock(alias: str) -> Iterator[None]:
    """Lock against two processes that create the same database at once."""
    connection = connections[alias]
    if connection.vendor == "postgresql":
        with database_operation(alias, writes=False), connection.cursor() as cursor:
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
