"""State of the database's tables."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@dataclass(frozen=True)
class SchemaState:
    """Numbers of applied migrations, and names of those that are missing or that this code does not know."""

    applied: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return not self.missing


def load_schema_state() -> SchemaState:
    """Compare the migrations of the installed apps with those that the database has. Raises `django.db.Error`."""
    executor = MigrationExecutor(connection)
    loader = executor.loader
    plan = executor.migration_plan(loader.graph.leaf_nodes())
    own_apps = loader.migrated_apps
    unknown = [
        f"{app}.{name}"
        for app, name in sorted(loader.applied_migrations)
        if app in own_apps and (app, name) not in loader.disk_migrations
    ]
    missing = tuple(f"{migration.app_label}.{migration.name}" for migration, _ in plan)
    return SchemaState(len(loader.applied_migrations), missing, tuple(unknown))


class SchemaProbe:
    """Answer of the readiness probe; once the tables are complete, they are not looked at again."""

    def __init__(self) -> None:
        self._is_current = False

    def is_current(self) -> bool:
        """Return whether every migration is applied. Raises `django.db.Error`."""
        self._is_current = self._is_current or load_schema_state().is_current
        return self._is_current


probe = SchemaProbe()
