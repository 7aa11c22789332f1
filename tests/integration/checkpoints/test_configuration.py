"""Configuration errors: each has its own type, a message and a hint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import BlockingCallInAsyncCode, DatabaseNotConfigured, TimesNotInUtc
from tests.integration.checkpoints.session_setups import start_session
from tests.integration.checkpoints.test_open_and_migrate import in_a_process
from tests.support.exhaustive_mode import mark_all_but_combinations

BLOCKING: dict[str, Callable[[SyncCheckpointer], Any]] = {
    "start_session": lambda cp: cp.start_session("s"),
    "save_checkpoint": lambda cp: cp.save_checkpoint("s", [], None, 0),
    "load_latest": lambda cp: cp.load_latest("s"),
    "pending_tool_calls": lambda cp: cp.pending_tool_calls("s"),
    "resume": lambda cp: cp.resume("s"),
    "not owned": lambda cp: cp.append_checkpoint("other", [], expected_version=1),
    "dispatch": lambda cp: pay(cp),
    "prune": lambda cp: cp.prune("s", keep_last=1),
    "close": lambda cp: cp.close(),
}


def pay(cp: SyncCheckpointer) -> Any:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda: pytest.fail("the tool has run"))
    return registry.dispatch("pay", {}, "call_1")


@pytest.mark.parametrize("opened", [True, False], ids=["open connection", "no connection"])
def test_blocking_checkpointer_in_async_code_names_the_async_one(cp: SyncCheckpointer, opened: bool) -> None:
    start_session(cp)

    async def call(method: Callable[[SyncCheckpointer], Any]) -> None:
        with pytest.raises(BlockingCallInAsyncCode, match=r"checkpoints\.Checkpointer.*asyncio\.to_thread"):
            method(cp)

    for method in BLOCKING.values():
        if not opened:
            connection.close()
        asyncio.run(call(method))
    assert cp.pending_tool_calls("s") == []


def test_blocking_open_in_async_code_names_the_async_class(tmp_path: Any) -> None:
    async def open_() -> None:
        SyncCheckpointer(tmp_path / "agent.db")

    with pytest.raises(BlockingCallInAsyncCode):
        asyncio.run(open_())


@pytest.mark.parametrize("kind", [SyncCheckpointer, Checkpointer])
def test_alias_that_is_not_in_databases_is_named(kind: Any) -> None:
    with pytest.raises(DatabaseNotConfigured, match=r"'durable': DATABASES has no such alias.*database_from_url"):
        kind(using="durable")


@pytest.mark.parametrize("kind", [SyncCheckpointer, Checkpointer])
def test_database_of_another_kind_is_named(kind: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    monkeypatch.setattr(connections["default"], "display_name", "Oracle")
    with pytest.raises(DatabaseNotConfigured, match="it is Oracle, neither SQLite nor PostgreSQL"):
        kind(using="default")


@pytest.mark.parametrize("kind", [SyncCheckpointer, Checkpointer])
def test_project_without_time_zones_is_refused_before_anything_is_written(
    kind: Any, settings: Any, tmp_path: Path
) -> None:
    settings.USE_TZ = False

    with pytest.raises(TimesNotInUtc, match=r"'default' would be wrong: USE_TZ is off.*Set USE_TZ = True"):
        kind()
    with pytest.raises(TimesNotInUtc):
        kind(tmp_path / "agent.db")
    assert not (tmp_path / "agent.db").exists()


def test_connection_with_a_time_zone_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "timezone_name", "America/New_York")

    with pytest.raises(TimesNotInUtc, match="has the TIME_ZONE America/New_York"):
        SyncCheckpointer()


def raised(code: str, *, without: str = "") -> tuple[str, str]:
    """Return name and text of the error of a script, without the package `without`."""
    name, output = in_a_process(
        f"import json, sys; sys.modules.update({{{without!r}: None}})\n"
        "from checkpoints import Checkpointer, SyncCheckpointer\n"
        f"try: {code}\n"
        "except Exception as error: print(json.dumps([type(error).__name__, str(error)]))"
    )
    return name, output


@pytest.mark.parametrize("kind", ["Checkpointer", "SyncCheckpointer"])
def test_error_of_a_script_without_a_database_shows_how_to_open_one(kind: str) -> None:
    name, text = raised(f"{kind}()")

    assert name == "DatabaseNotConfigured"
    assert 'Checkpointer("agent.db")' in text


@pytest.mark.parametrize(
    ("kind", "missing"), mark_all_but_combinations(["Checkpointer", "SyncCheckpointer"], ["psycopg", "psycopg_pool"])
)
def test_missing_driver_error_names_the_package_to_install(kind: str, missing: str) -> None:
    name, text = raised(f"{kind}('postgresql://someone@127.0.0.1:1/name')", without=missing)

    assert name == "DriverMissing"
    assert "pip install 'psycopg[binary,pool]'" in text


def test_missing_client_of_a_server_names_the_extra_to_install() -> None:
    name, text = raised("SyncCheckpointer('https://harness.example', token='x')", without="httpx")

    assert name == "HttpClientMissing"
    assert "'https://harness.example' cannot be reached: httpx is not installed" in text
    assert "pip install 'harness-checkpoints[remote]'" in text
    assert "psycopg" not in text


def test_address_of_a_server_without_a_scheme_is_named() -> None:
    name, text = raised("SyncCheckpointer('127.0.0.1:8000', token='x')")

    assert name == "InvalidInput"
    assert "'127.0.0.1:8000' has no scheme. Begin the address of a server with https:// or http://" in text
