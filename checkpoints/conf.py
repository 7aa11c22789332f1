"""Settings, and how a database URL becomes a Django connection, inside a Django project or without one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import django
from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.db import connections

from checkpoints.exceptions import InvalidDatabaseUrl

LEASE_SECONDS = 30.0
#: Stored rows name the shape they were written in; a larger number than this one is from the future.
SCHEMA_VERSION = 1
#: The largest message, argument object or plan that is taken, in bytes of canonical JSON.
MAX_VALUE_BYTES = 64 * 1024 * 1024

#: What Django calls the databases that this library runs on.
SUPPORTED_VENDORS = frozenset({"sqlite", "postgresql"})
#: WAL lets readers and one writer work at once; FULL keeps what was acknowledged through a power cut; what is
#: deleted is overwritten.
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
#: How long to wait for a lock before saying so, and for a connection: that long a server that is gone is tried.
BUSY_TIMEOUT_SECONDS = 30
POOL_TIMEOUT_SECONDS = 5
POOL_SIZE = 8
#: A statement that a connection has run so often is prepared on it: the server parses and plans it no more.
PREPARE_THRESHOLD = 3


def database_from_url(url: str) -> dict[str, Any]:
    """The entry of `settings.DATABASES` for `sqlite:///path`, a bare path, or `postgresql://…`.

    Raises `InvalidDatabaseUrl`. Query parameters of a PostgreSQL URL become connection options
    (`?sslmode=require`). Statements are prepared on the server, which a connection pooler that hands a connection
    on after each transaction may not allow: `?prepare_threshold=none` turns it off.
    """
    if not url:
        raise InvalidDatabaseUrl("no path or URL was given")
    scheme = url.partition("://")[0] if "://" in url else "path"
    if scheme == "path":
        return _sqlite(url)
    if scheme == "sqlite":
        return _sqlite(_sqlite_path(url))
    if scheme in {"postgres", "postgresql"}:
        return _postgresql(url)
    raise InvalidDatabaseUrl(f"{scheme}:// is not a scheme this library knows")


def _sqlite_path(url: str) -> str:
    path = unquote(url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise InvalidDatabaseUrl("a SQLite URL is sqlite:///relative.db or sqlite:////absolute.db")
    return path[1:]


def _sqlite(path: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(path).absolute()),
        "OPTIONS": {
            "timeout": BUSY_TIMEOUT_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_PRAGMAS,
        },
    }


def _postgresql(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidDatabaseUrl(f"the address is not understood ({error})") from error
    if not parts.path.strip("/"):
        raise InvalidDatabaseUrl("the PostgreSQL URL names no database")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "OPTIONS": {
            "options": f"-c lock_timeout={BUSY_TIMEOUT_SECONDS}s",
            "server_side_binding": True,
            "prepare_threshold": PREPARE_THRESHOLD,
            **_postgresql_options(parts.query),
            "pool": {
                "min_size": 0,
                "max_size": POOL_SIZE,
                "timeout": POOL_TIMEOUT_SECONDS,
                "reconnect_timeout": POOL_TIMEOUT_SECONDS,
            },
        },
    }


def _postgresql_options(query: str) -> dict[str, Any]:
    given: dict[str, Any] = dict(parse_qsl(query))
    threshold = given.get("prepare_threshold")
    if threshold is not None:
        if threshold != "none" and not threshold.isdecimal():
            raise InvalidDatabaseUrl(f"prepare_threshold is {threshold!r}; it is a number, or none")
        given["prepare_threshold"] = None if threshold == "none" else int(threshold)
    return given


def ensure_configured() -> None:
    """Set Django up where nobody has: with the project's settings where one is named, else with none but this app.

    A plain script thus needs no settings; it opens its database by URL.
    """
    if not settings.configured and not os.environ.get(ENVIRONMENT_VARIABLE):
        settings.configure(**library_settings())
    if not apps.ready and not apps.loading:
        django.setup()


def library_settings(database: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Django settings of a program that uses this library alone; `database` becomes the default connection."""
    return {
        "DATABASES": {} if database is None else {"default": database},
        "INSTALLED_APPS": ["checkpoints"],
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
    }


def open_alias(url: str) -> str:
    """A connection alias for the database at `url`."""
    database = database_from_url(url)
    ensure_configured()
    return _alias_for(database)


def _alias_for(database: dict[str, Any]) -> str:
    wanted = _place(database)
    for alias in connections:
        known = connections.databases[alias]
        if _place(known) == wanted and _password(known) == _password(database):
            return alias
    alias = "harness_" + hashlib.blake2b(repr(wanted).encode(), digest_size=6).hexdigest()
    while alias in connections.databases:  # with another password
        alias += "_"
    defaults = connections.configure_settings({"default": {}, alias: database})
    connections.databases[alias] = defaults[alias]
    return alias


def _place(database: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(database.get(key) or "") for key in ("ENGINE", "NAME", "USER", "HOST", "PORT"))


def _password(database: dict[str, Any]) -> str:
    return str(database.get("PASSWORD") or "")
