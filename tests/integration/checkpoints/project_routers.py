"""Database routers as a project has them."""

from __future__ import annotations

from typing import Any

from django.db.models import Model


class ReplicaRouter:
    """The router of Django's documentation for a primary and replicas. There is no alias `replica` here."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return "default"

    def allow_relation(self, first: Model, second: Model, **hints: Any) -> bool | None:
        known = {"default", "replica"}
        return True if first._state.db in known and second._state.db in known else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return True


class OneDatabaseForAgents(ReplicaRouter):
    """A router that creates the library's tables under one alias alone."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == "agents") == (app_label == "checkpoints")
