"""The library in another Django project with ATOMIC_REQUESTS, in processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.support.processes import ROOT
from tests.support.site_process import fresh_database

SHOP = "tests.integration.embedding.shop"
Run = Callable[..., subprocess.CompletedProcess[str]]


def prepare_run(database: str, effects: Path) -> Run:
    """Return what runs a module with arguments in the project; names in capitals are its environment."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    project = {
        "DJANGO_SETTINGS_MODULE": f"{SHOP}.settings",
        "SHOP_DATABASE_URL": database,
        "SHOP_EFFECTS": str(effects),
        "SHOP_ATOMIC_REQUESTS": "1",
    }

    def run_(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", module, *arguments],
            cwd=ROOT,
            env={**given, **project, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run_


@pytest.fixture
def run(fresh_url: str, effects: Path) -> Run:
    return prepare_run(fresh_url, effects)


@pytest.fixture(scope="module")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Database with the tables of the project, which the tests use copies of."""
    folder = tmp_path_factory.mktemp("migrated")
    with fresh_database(folder) as database:
        migrated = prepare_run(database, folder / "effects.log")("django", "migrate", "--verbosity", "0")
        assert migrated.returncode == 0, migrated.stderr
        yield database


@pytest.fixture
def shop(migrated_database: str, tmp_path: Path, effects: Path) -> Iterator[Run]:
    """The project with its tables."""
    with fresh_database(tmp_path, migrated_database) as database:
        yield prepare_run(database, effects)


def visit(shop: Run, *paths: str, **environment: str) -> list[Any]:
    """Return the responses to requests that one process serves."""
    done = shop(f"{SHOP}.visit", *paths, **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_view_in_the_request_transaction_is_refused(shop: Run, effects: Path) -> None:
    """The tool is never reached, so a kill inside it does not matter."""
    mortal = visit(shop, "/charge/1/", "/charge-and-answer/2/", SHOP_DIES="1")
    unhandled, handled, outside = visit(shop, "/charge/1/", "/charge-and-answer/2/", "/charge-outside/3/")

    assert unhandled == [500, None]
    assert (handled[0], handled[1]["error"]) == (409, "inside_transaction")
    assert mortal == [unhandled, handled]
    assert outside == [200, {"content": "paid 3"}]
    assert effects.read_text() == "paid 3\n"


def test_killed_view_outside_transactions_needs_a_decision(shop: Run, effects: Path) -> None:
    died = shop(f"{SHOP}.visit", "/charge-outside/1/", SHOP_DIES="1")
    again = visit(shop, "/charge-outside/1/")

    assert died.returncode == -signal.SIGKILL
    assert (again[0][0], again[0][1]["error"]) == (409, "review_required")
    assert effects.read_text() == "paid 1\n"


def test_own_connection_beside_the_request_transaction(shop: Run, effects: Path) -> None:
    """On PostgreSQL the intent survives the transaction of the request that was killed. SQLite takes one writer at a
    time, and that is the request: the library waits, and nothing is paid."""
    own = (
        {"SHOP_SECOND_ALIAS": "1", "SHOP_TIMEOUT": "0.2"}
        if connection.vendor == "sqlite"
        else {"SHOP_SECOND_ALIAS": "1"}
    )
    if connection.vendor == "sqlite":
        ((status, body),) = visit(shop, "/charge-beside/1/", **own)
        assert (status, body["error"]) == (409, "storage_busy")
        assert "transaction.atomic()" in body["hint"]
        assert effects.read_text() == ""
        return
    died = shop(f"{SHOP}.visit", "/charge-beside/1/", SHOP_DIES="1", **own)
    again = visit(shop, "/charge-beside/1/", **own)

    assert died.returncode == -signal.SIGKILL
    assert (again[0][0], again[0][1]["error"]) == (409, "review_required")
    assert effects.read_text() == "paid 1\n"


def test_project_tests_with_both_django_test_cases(run: Run) -> None:
    done = run("django", "test", f"{SHOP}.cases", SHOP_SECOND_ALIAS="1")

    assert (done.returncode, "Ran 11 tests" in done.stderr) == (0, True), done.stderr


def test_system_checks_of_the_project(run: Run) -> None:
    atomic = run("django", "check", "--fail-level", "WARNING")
    plain = run("django", "check", "--fail-level", "WARNING", "--tag", "checkpoints", SHOP_ATOMIC_REQUESTS="0")
    second = run("django", "check", "--fail-level", "WARNING", SHOP_SECOND_ALIAS="1")

    assert (atomic.returncode, "checkpoints.W001" in atomic.stderr) == (1, True)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert (second.returncode, second.stderr) == (0, "")
