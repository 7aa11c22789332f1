"""Django settings of a benchmark process.

This library uses connections as it configures them; the plain app uses the same without the library's options beyond
Django's defaults (prepared statements).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from checkpoints.database_url import database_from_url

#: Names of the databases that need a Django connection.
NAMES = (
    "append",
    "save",
    "async",
    "statement",
    "driver",
    "orm",
    "agents_library",
    "agents_statement",
    "processes_library",
    "processes_statement",
    "fresh",
)

_OWN_TABLE_SUFFIXES = ("statement", "orm")


def configure_django(urls: Mapping[str, str]) -> None:
    """Configure Django with a connection for each alias of `urls`."""
    settings.configure(
        DATABASES={"default": {}} | {alias: _build_database_settings(alias, url) for alias, url in urls.items()},
        INSTALLED_APPS=["checkpoints", "benchmarks.plain_tables"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        TIME_ZONE="UTC",
    )
    django.setup()


def _build_database_settings(alias: str, url: str) -> dict[str, Any]:
    database = database_from_url(url)
    if alias.endswith(_OWN_TABLE_SUFFIXES):
        for option in ("server_side_binding", "prepare_threshold"):
            database["OPTIONS"].pop(option, None)
    return database


def create_library_tables(alias: str) -> None:
    call_command("migrate", "checkpoints", database=alias, verbosity=0)
    connections[alias].close()


def create_plain_tables(alias: str) -> None:
    from benchmarks.plain_tables.models import Call, Entry, Thread, Version

    with connections[alias].schema_editor() as editor:
        for model in (Thread, Entry, Version, Call):
            editor.create_model(model)
    connections[alias].close()
