"""Django for a benchmark process: this library and the plain app, on connections as the library configures them."""

from __future__ import annotations

from collections.abc import Mapping

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from checkpoints.conf import database_from_url

#: Databases that need a Django connection.
NAMES = (
    "append",
    "save",
    "async",
    "statement",
    "driver",
    "orm",
    "crowd_library",
    "crowd_statement",
    "processes_library",
    "processes_statement",
    "fresh",
)


def configure(urls: Mapping[str, str]) -> None:
    """Set Django up with a connection for each alias of `urls`."""
    settings.configure(
        DATABASES={"default": {}} | {alias: database_from_url(url) for alias, url in urls.items()},
        INSTALLED_APPS=["checkpoints", "benchmarks.plain"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        TIME_ZONE="UTC",
    )
    django.setup()


def create_library_tables(alias: str) -> None:
    call_command("migrate", "checkpoints", database=alias, verbosity=0)
    connections[alias].close()


def create_plain_tables(alias: str) -> None:
    from benchmarks.plain.models import Call, Entry, Thread, Version

    with connections[alias].schema_editor() as editor:
        for model in (Thread, Entry, Version, Call):
            editor.create_model(model)
    connections[alias].close()
