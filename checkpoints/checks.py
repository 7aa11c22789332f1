"""System checks of a Django project that embeds the library: settings that break its guarantees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import router

from checkpoints.constants import BUSY_TIMEOUT_SECONDS, SQLITE_PRAGMAS
from checkpoints.exceptions import SealError, TimesNotInUtc
from checkpoints.seals.decision_keys import get_decision_keys
from checkpoints.seals.seal_keys import get_seal_keys

#: Least lock timeout of a SQLite file in seconds; with less, writes of several processes fail.
MIN_TIMEOUT_SECONDS = 10
_INIT_COMMAND = f'"init_command": "{SQLITE_PRAGMAS}"'
_PRAGMA_PATTERN = re.compile(r"pragma\s+(?:main\.)?(\w+)\s*[=(]\s*['\"]?(\w+)")
_FROM_URL_HINT = "checkpoints.database_url.database_from_url makes a whole entry of DATABASES."


def check_settings_of_library_database(*, app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check the entry of `DATABASES` that stores the models of this app. Opens no connection."""
    alias = router.db_for_write(apps.get_model("checkpoints", "Session"))
    database = settings.DATABASES.get(alias, {})
    messages = [*_check_times_in_utc(alias, database), *_check_transaction_settings(alias, database)]
    if str(database.get("ENGINE", "")).endswith("sqlite3"):
        messages += _check_sqlite_options(alias, database)
    return messages


def check_seal_and_decision_keys(*, app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check that the configured keys of seals and of decisions can be used."""
    messages: list[CheckMessage] = []
    for read_keys, id in ((get_seal_keys, "checkpoints.E001"), (get_decision_keys, "checkpoints.E002")):
        try:
            read_keys()
        except SealError as error:
            messages.append(Error(error.detail, hint=error.hint, id=id))
    return messages


def _check_times_in_utc(alias: str, database: dict[str, Any]) -> Iterator[CheckMessage]:
    if not settings.USE_TZ or database.get("TIME_ZONE") not in {None, "UTC"}:
        what = f"has the TIME_ZONE {database['TIME_ZONE']}" if settings.USE_TZ else "keeps times without a zone"
        yield Error(
            f"The database {alias!r} {what}: the library cannot be used, and raises TimesNotInUtc.",
            hint=TimesNotInUtc.hint.partition(";")[0] + ".",
            id="checkpoints.E003",
        )


def _check_transaction_settings(alias: str, database: dict[str, Any]) -> Iterator[CheckMessage]:
    if database.get("ATOMIC_REQUESTS") and not _has_same_database_without_atomic_requests(alias, database):
        yield Warning(
            f"The database {alias!r} has ATOMIC_REQUESTS: in a view, whatever promises to be durable is refused with "
            "InsideTransaction.",
            hint=(
                "Decorate each view that uses the library with transaction.non_atomic_requests. No check can know "
                "which do: if all of them are decorated, or none uses the library, say so with SILENCED_SYSTEM_CHECKS "
                '= ["checkpoints.W001"]. Or, on PostgreSQL, add a second alias for the same database, without '
                "ATOMIC_REQUESTS, and use Checkpointer(using=…); then this warning is not given. " + _FROM_URL_HINT
            ),
            id="checkpoints.W001",
        )
    if not database.get("AUTOCOMMIT", True):
        yield Warning(
            f"The database {alias!r} has AUTOCOMMIT off: every write of the library is refused with InsideTransaction.",
            hint=f"Remove AUTOCOMMIT, or give the library an alias of its own: Checkpointer(using=…). {_FROM_URL_HINT}",
            id="checkpoints.W002",
        )


def _has_same_database_without_atomic_requests(alias: str, database: dict[str, Any]) -> bool:
    """Return whether the project has given the library a connection of its own to the same database."""

    def get_server_and_name(entry: dict[str, Any]) -> list[str]:
        return [str(entry.get(key) or "") for key in ("ENGINE", "NAME", "HOST", "PORT")]

    other_databases = (entry for name, entry in settings.DATABASES.items() if name != alias)
    return any(
        get_server_and_name(entry) == get_server_and_name(database) and not entry.get("ATOMIC_REQUESTS")
        for entry in other_databases
    )


def _check_sqlite_options(alias: str, database: dict[str, Any]) -> Iterator[CheckMessage]:
    options = database.get("OPTIONS", {})
    pragmas = dict(_PRAGMA_PATTERN.findall(str(options.get("init_command") or "").lower()))
    if str(options.get("transaction_mode") or "").upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        yield _build_sqlite_option_warning(
            alias,
            "begins transactions without the lock for writing: one that reads first and writes then fails at once with "
            "'database is locked' where another process has written in between.",
            '"transaction_mode": "IMMEDIATE"',
            "checkpoints.W003",
        )
    if pragmas.get("journal_mode") != "wal":
        yield _build_sqlite_option_warning(
            alias,
            "does not ask for the write-ahead log: readers and the writer keep each other waiting.",
            _INIT_COMMAND,
            "checkpoints.W004",
        )
    if pragmas.get("synchronous") not in {"full", "extra", "2", "3"}:
        yield _build_sqlite_option_warning(
            alias,
            "does not ask for synchronous=FULL: with some builds of SQLite a power cut takes back what was "
            "acknowledged.",
            _INIT_COMMAND,
            "checkpoints.W005",
        )
    timeout = options.get("timeout", 5)
    if timeout < MIN_TIMEOUT_SECONDS:
        yield _build_sqlite_option_warning(
            alias,
            f"waits {timeout:g} seconds for a lock, which is little where several processes write.",
            f'"timeout": {BUSY_TIMEOUT_SECONDS}',
            "checkpoints.W006",
        )


def _build_sqlite_option_warning(alias: str, what: str, option: str, id: str) -> CheckMessage:
    return Warning(
        f"The SQLite database {alias!r} {what}", hint=f"Set {option} in its OPTIONS; {_FROM_URL_HINT}", id=id
    )
