"""Creation of the tables of several models in one operation of a migration.

After each `CreateModel`, Django builds the classes of all related models again, which takes most of the time of a first
migration. What this module groups is built once.
"""

from __future__ import annotations

from itertools import groupby
from typing import TypeVar

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import CreateModel, Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

AnyMigration = TypeVar("AnyMigration", bound=type[Migration])


class CreateModels(Operation):
    """Create several models, in the order of the operations. A foreign key may refer to a later one of them."""

    def __init__(self, creations: list[CreateModel]) -> None:
        self.creations = creations

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add all models, and have all classes built when they are asked for next."""
        state.__dict__.pop("apps", None)
        for creation in self.creations:
            creation.state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        for creation in self.creations:
            creation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        for creation in reversed(self.creations):
            creation.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return f"Create models {', '.join(creation.name for creation in self.creations)}"


def create_models_together(migration: AnyMigration) -> AnyMigration:
    """Group the `CreateModel` operations of a migration that follow each other. It decorates the class."""
    grouped: list[Operation] = []
    for kind, operations in groupby(migration.operations, type):
        if kind is CreateModel:
            grouped.append(CreateModels([each for each in operations if isinstance(each, CreateModel)]))
        else:
            grouped += operations
    migration.operations = grouped
    return migration
