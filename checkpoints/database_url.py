"""Conversion of a database URL to the settings of a Django connection, and to a connection alias."""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from django.db import connections

from checkpoints import django_configuration
from checkpoints.constants import (
    BUSY_TIMEOUT_SECONDS,
    POOL_SIZE,
    POOL_TIMEOUT_SECONDS,
    PREPARE_THRESHOLD,
    SQLITE_PRAGMAS,
)
from checkpoints.exceptions import InvalidDatabaseUrl

_PARTS_NOT_CLEAR: Final = (
    "the parts of the PostgreSQL URL are not clear. Its port is a number, and in its user name, password and database "
    "name / is written as %2F, @ as %40, : as %3A, # as %23, ? as %3F, [ as %5B and % as %25"
)
#: Begin of a value that was meant as a URL, or as user:password@host. One letter may be the drive of a path.
_BROKEN_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: Held while the connections of this process are searched and one is added.
_connections_lock = threading.Lock()
#: Aliases that this module has added to the connections of the process.
registered_aliases: Final[set[str]] = set()


def database_from_url(url: str) -> dict[str, Any]:
    """Build the entry of `settings.DATABASES` for `sqlite:///path`, a bare path, or `postgresql://…`.

    Raises `InvalidDatabaseUrl`, also for a bare path that is a URL without `//`, and for the path of a folder. Query
    parameters of a PostgreSQL URL become connection options (`?sslmode=require`). Statements are prepared on the
    server; a connection pooler in transaction mode may not allow that: `?prepare_threshold=none` turns it off.
    """
    if not url:
        raise InvalidDatabaseUrl("no path or URL was given")
    scheme = url.partition("://")[0] if "://" in url else "path"
    if scheme == "path":
        if _BROKEN_URL.match(url):  # the text may have a password
            raise InvalidDatabaseUrl("the value has a colon as a URL has, but no :// after its first word")
        return _build_sqlite_settings(url)
    if scheme == "sqlite":
        return _build_sqlite_settings(_parse_sqlite_path(url))
    if scheme in {"postgres", "postgresql"}:
        return _build_postgresql_settings(url)
    raise InvalidDatabaseUrl(f"{scheme}:// is not a scheme this library knows")


def _parse_sqlite_path(url: str) -> str:
    path = unquote(url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise InvalidDatabaseUrl("a SQLite URL is sqlite:///relative.db or sqlite:////absolute.db")
    return path[1:]


def _build_sqlite_settings(path: str) -> dict[str, Any]:
    if path.endswith("/") or not Path(path).name or Path(path).is_dir():
        raise InvalidDatabaseUrl(f"{path!r} is a folder, not a file")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(path).absolute()),
        "OPTIONS": {
            "timeout": BUSY_TIMEOUT_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_PRAGMAS,
        },
    }


def _build_postgresql_settings(url: str) -> dict[str, Any]:
    try:
        url_parts = urlsplit(url)
        port = url_parts.port
    except ValueError:  # its text may have a part of the password
        raise InvalidDatabaseUrl(_PARTS_NOT_CLEAR) from None
    if "@" in url_parts.path:
        raise InvalidDatabaseUrl(_PARTS_NOT_CLEAR)
    if not url_parts.path.strip("/"):
        raise InvalidDatabaseUrl("the PostgreSQL URL names no database")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url_parts.path[1:]),
        "USER": unquote(url_parts.username or ""),
        "PASSWORD": unquote(url_parts.password or ""),
        "HOST": unquote(url_parts.hostname or ""),
        "PORT": str(port or ""),
        "OPTIONS": {
            "options": f"-c lock_timeout={BUSY_TIMEOUT_SECONDS}s",
            "server_side_binding": True,
            "prepare_threshold": PREPARE_THRESHOLD,
            **_parse_postgresql_options(url_parts.query),
            "pool": {
                "min_size": 0,
                "max_size": POOL_SIZE,
                "timeout": POOL_TIMEOUT_SECONDS,
                "reconnect_timeout": POOL_TIMEOUT_SECONDS,
            },
        },
    }


def _parse_postgresql_options(query: str) -> dict[str, Any]:
    parameters: dict[str, Any] = dict(parse_qsl(query))
    threshold = parameters.get("prepare_threshold")
    if threshold is not None:
        if threshold != "none" and not threshold.isdecimal():
            raise InvalidDatabaseUrl(f"prepare_threshold is {threshold!r}; it is a number, or none")
        parameters["prepare_threshold"] = None if threshold == "none" else int(threshold)
    return parameters


def get_or_register_connection_alias(url: str) -> str:
    """Return a connection alias for the database at `url`."""
    database = database_from_url(url)
    django_configuration.ensure_django_configured()
    with _connections_lock:
        identity = _get_database_identity(database)
        for alias in connections:
            known = connections.databases[alias]
            if _get_database_identity(known) == identity and _get_password_of_settings_or_empty(
                known
            ) == _get_password_of_settings_or_empty(database):
                return alias
        alias = "harness_" + hashlib.blake2b(repr(identity).encode(), digest_size=6).hexdigest()
        while alias in connections.databases:  # the same database with another password
            alias += "_"
        defaults = connections.configure_settings({"default": {}, alias: database})
        connections.databases[alias] = defaults[alias]
        registered_aliases.add(alias)
        return alias


def _get_database_identity(database: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(database.get(key) or "") for key in ("ENGINE", "NAME", "USER", "HOST", "PORT"))


def _get_password_of_settings_or_empty(database: dict[str, Any]) -> str:
    return str(database.get("PASSWORD") or "")
