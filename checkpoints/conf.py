"""Constants of the library, and the configuration of Django where a program has no project of its own."""

from __future__ import annotations

import os
from typing import Any

import django
from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE, settings

LEASE_SECONDS = 30.0
#: Schema version of the stored rows; a row with a larger number was written by a newer version of this library.
SCHEMA_VERSION = 1
#: Size limit of a message, argument object or plan, in bytes of canonical JSON.
MAX_VALUE_BYTES = 64 * 1024 * 1024

#: Vendor names of the supported databases.
SUPPORTED_VENDORS = frozenset({"sqlite", "postgresql"})
#: WAL lets readers and one writer work at once; FULL keeps acknowledged writes through a power failure; deleted
#: data is overwritten. The page size is that of a new file, and has to come before WAL. For turns of two messages of
#: 2 KB, pages of 4 / 8 / 16 KB took 1.68 / 1.36 / 1.20 bytes of the file for a byte of text, since fewer pages end in
#: a gap; a save wrote 47 / 85 / 157 KB to the log, and an empty database has 0.4 / 0.8 / 1.5 MB.
SQLITE_PRAGMAS = "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
#: Timeout of locks and of connection attempts, in seconds.
BUSY_TIMEOUT_SECONDS = 30
POOL_TIMEOUT_SECONDS = 5
POOL_SIZE = 8
#: Number of executions after which the server prepares a statement and no longer parses and plans it.
PREPARE_THRESHOLD = 3


def ensure_configured() -> None:
    """Configure Django unless it is: with the project's settings if there are any, else with this app alone.

    A plain script thus needs no settings; it opens its database by URL.
    """
    if not settings.configured and not os.environ.get(ENVIRONMENT_VARIABLE):
        settings.configure(**build_library_settings())
    if not apps.ready and not apps.loading:
        django.setup()


def build_library_settings(database: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build the Django settings of a program that uses only this library; `database` becomes the default connection."""
    return {
        "DATABASES": {} if database is None else {"default": database},
        "INSTALLED_APPS": ["checkpoints"],
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
    }
