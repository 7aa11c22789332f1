"""System checks report each setting that breaks a guarantee, with a hint."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from checkpoints.checks import check_settings_of_library_database
from checkpoints.database_url import database_from_url

SQLITE = database_from_url("sqlite:///agent.db")
POSTGRESQL = database_from_url("postgresql://app@127.0.0.1/app")
PLAIN = {"ENGINE": "django.db.backends.sqlite3", "NAME": "agent.db"}


def found(monkeypatch: pytest.MonkeyPatch, **databases: dict[str, Any]) -> dict[str, str]:
    """Return the number and hint of each warning about the given databases."""
    monkeypatch.setattr(settings, "DATABASES", databases)
    warnings = check_settings_of_library_database(app_configs=None)
    assert all(warning.msg.endswith(".") and "'default'" in warning.msg for warning in warnings)
    return {str(warning.id).removeprefix("checkpoints."): str(warning.hint) for warning in warnings}


def options(**changes: Any) -> dict[str, Any]:
    return {**SQLITE, "OPTIONS": {**SQLITE["OPTIONS"], **changes}}


@pytest.mark.parametrize("database", [SQLITE, POSTGRESQL, {"ENGINE": POSTGRESQL["ENGINE"]}, {}], ids=str)
def test_safe_database_settings_cause_no_warning(monkeypatch: pytest.MonkeyPatch, database: dict[str, Any]) -> None:
    assert found(monkeypatch, default=database) == {}


@pytest.mark.parametrize(
    ("database", "numbers"),
    [
        ({**POSTGRESQL, "ATOMIC_REQUESTS": True}, ["W001"]),
        ({**POSTGRESQL, "AUTOCOMMIT": False}, ["W002"]),
        (options(transaction_mode="DEFERRED"), ["W003"]),
        (options(transaction_mode=None), ["W003"]),
        (options(transaction_mode="exclusive"), []),
        (options(init_command="PRAGMA synchronous = FULL"), ["W004"]),
        (options(init_command="PRAGMA journal_mode=delete; PRAGMA synchronous=2"), ["W004"]),
        (options(init_command="pragma journal_mode(wal); pragma main.synchronous = 'extra'"), []),
        (options(init_command="PRAGMA journal_mode=WAL"), ["W005"]),
        (options(init_command="PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"), ["W005"]),
        (options(timeout=5), ["W006"]),
        (options(timeout=20.5), []),
        (PLAIN, ["W003", "W004", "W005", "W006"]),
        ({**PLAIN, "ATOMIC_REQUESTS": True}, ["W001", "W003", "W004", "W005", "W006"]),
    ],
)
def test_unsafe_setting_is_reported_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, database: dict[str, Any], numbers: list[str]
) -> None:
    hints = found(monkeypatch, default=database)

    assert list(hints) == numbers
    assert all("checkpoints.database_url.database_from_url" in hint for hint in hints.values())


@pytest.mark.parametrize(
    ("zone", "use_tz", "numbers"),
    [("UTC", True, []), (None, True, []), ("Europe/Berlin", True, ["E003"]), (None, False, ["E003"])],
)
def test_times_in_another_zone_than_utc_are_an_error(
    monkeypatch: pytest.MonkeyPatch, zone: str | None, use_tz: bool, numbers: list[str]
) -> None:
    monkeypatch.setattr(settings, "USE_TZ", use_tz)
    hints = found(monkeypatch, default={**SQLITE, "TIME_ZONE": zone})

    assert list(hints) == numbers
    assert all("Set USE_TZ = True" in hint for hint in hints.values())


def test_hint_about_atomic_requests_names_what_to_do_in_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = found(monkeypatch, default={**POSTGRESQL, "ATOMIC_REQUESTS": True})["W001"]

    remedies = (
        "transaction.non_atomic_requests",
        'SILENCED_SYSTEM_CHECKS = ["checkpoints.W001"]',
        "Checkpointer(using",
    )
    assert [remedy for remedy in remedies if remedy not in hint] == []


def test_settings_in_the_sqlite_hints_pass_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    hints = found(monkeypatch, default=PLAIN)
    advised: dict[str, Any] = {}
    for number in ("W003", "W004", "W006"):
        advised |= eval("{" + hints[number].removeprefix("Set ").partition(" in its OPTIONS")[0] + "}")  # noqa: S307

    assert found(monkeypatch, default={**PLAIN, "OPTIONS": advised}) == {}


def test_second_alias_for_the_same_database_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    atomic = {**POSTGRESQL, "ATOMIC_REQUESTS": True}

    assert found(monkeypatch, default=atomic, durable=POSTGRESQL) == {}
    assert list(found(monkeypatch, default=atomic, another={**POSTGRESQL, "NAME": "another"})) == ["W001"]
    assert list(found(monkeypatch, default=atomic, another=atomic)) == ["W001"]


class ToReports:
    def db_for_write(self, model: type, **hints: object) -> str:
        return "reports"


def test_checked_database_is_that_of_the_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.router.routers", [ToReports()])
    monkeypatch.setattr(settings, "DATABASES", {"default": PLAIN, "reports": SQLITE})

    assert check_settings_of_library_database(app_configs=None) == []
