"""Database router for the models of the library, before the routers of a project.

A project's routers choose by model: a replica for what is read, one alias for what is written. The rows of a client
are in the database that it was opened with, and what belongs to a row is read and written where the row is.
"""

from __future__ import annotations

from django.db import router
from django.db.models import Model

from checkpoints import database_url

_APP_LABEL = "checkpoints"


class LibraryRouter:
    """Router that leaves the choice to the next one, except for what belongs to a row of the library."""

    def db_for_read(self, model: type[Model], *, instance: Model | None = None, **_: object) -> str | None:
        return _find_database_of_row(model, instance)

    def db_for_write(self, model: type[Model], *, instance: Model | None = None, **_: object) -> str | None:
        return _find_database_of_row(model, instance)

    def allow_relation(self, first: Model, second: Model, **_: object) -> bool | None:
        is_inside_library = first._meta.app_label == second._meta.app_label == _APP_LABEL
        return True if is_inside_library and first._state.db == second._state.db else None

    def allow_migrate(self, db: str, app_label: str, **_: object) -> bool | None:
        """Allow the tables of the library in a database that was opened by path or URL: no router knows its alias."""
        return True if app_label == _APP_LABEL and db in database_url.registered_aliases else None


def _find_database_of_row(model: type[Model], row: Model | None) -> str | None:
    if row is None or model._meta.app_label != _APP_LABEL or row._meta.app_label != _APP_LABEL:
        return None
    return row._state.db


def put_library_router_first() -> None:
    """Ask the router of the library before those of the project, if the project has any."""
    if router.routers and not isinstance(router.routers[0], LibraryRouter):
        router.routers.insert(0, LibraryRouter())
