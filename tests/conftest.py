"""Fixtures for every test that uses the library on a real database."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import TransactionTestCase, override_settings
from django.utils import timezone, translation
from hypothesis import HealthCheck, settings

from checkpoints import SyncCheckpointer
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.models import Workspace
from harness_site.core import deferred_writes
from harness_site.installation import database_readiness
from tests.support.database_cleanup import delete_test_rows
from tests.support.exhaustive_mode import EXHAUSTIVE, SAMPLED, choose_sample
from tests.support.forked_site import QUICK_PASSWORD_HASHER
from tests.support.migrated_once import migrate_once
from tests.support.processes import Child, database_url
from tests.support.sealed_mode import empty_witness, is_sealed, set_sealed_environment

Open = Callable[..., SyncCheckpointer]
StartChild = Callable[..., Child]

#: Folders with the tests that take longest.
LONG = {"mutations", "property", "crash", "concurrency", "packaging", "serving", "embedding", "demo", "docs"}
#: Beginning of the tests that repeat those of the library over HTTP. An ordinary run has a sample of their cases.
REPEATING = "tests/integration/api/remote/test_contract.py::"
#: Number of tests that are left out, for the end of the run.
LEFT_OUT = pytest.StashKey[int]()

# A busy machine exceeds each limit of time on random examples. Those of one test share its fixtures.
settings.register_profile(
    "harness",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("harness")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "begins_first: is the longest browser test of its file, which would run alone at the end otherwise"
    )
    config.addinivalue_line("markers", "exhaustive: is left out without HARNESS_TEST_EXHAUSTIVE=1")
    config.addinivalue_line("markers", "unsealed(reason): is left out with HARNESS_TEST_SEALED=1, for a stated reason")


def pytest_sessionstart() -> None:
    """Disable garbage collection while tests are imported, which creates no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the imported objects from later garbage collections, and collect seldom: tests hold little for long."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out(config, items, lambda item: is_sealed(item.nodeid) and item.get_closest_marker("unsealed") is not None)
    if not EXHAUSTIVE:
        _leave_out(config, items, lambda item: item.get_closest_marker("exhaustive") is not None)
    if SAMPLED:
        _leave_out_cases_beyond_sample(config, items, items)
    elif not EXHAUSTIVE:
        _leave_out_cases_beyond_sample(config, items, [item for item in items if item.nodeid.startswith(REPEATING)])
    _spread_long_tests(items)


def _leave_out_cases_beyond_sample(
    config: pytest.Config, items: list[pytest.Item], sampled: Sequence[pytest.Item]
) -> None:
    """Of the parametrized tests among the `sampled` ones, leave out the cases that are not in the sample."""
    names: dict[str, list[str]] = defaultdict(list)
    for item in sampled:
        names[item.nodeid.partition("[")[0]].append(item.nodeid)
    left_out = set(chain.from_iterable(names.values())).difference(*map(choose_sample, names.values()))
    _leave_out(config, items, lambda item: item.nodeid in left_out)


def _leave_out(config: pytest.Config, items: list[pytest.Item], condition: Callable[[pytest.Item], bool]) -> None:
    left_out = [item for item in items if condition(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not condition(item)]
        config.stash[LEFT_OUT] = config.stash.get(LEFT_OUT, 0) + len(left_out)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:  # of a process of pytest-xdist
        output["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)  # the same in each process


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"Left out of this run: {left_out} tests and cases (see CONTRIBUTING.md).")


def _spread_long_tests(items: list[pytest.Item]) -> None:
    """Give each process some of the longest tests first, so that none runs alone at the end.

    A process gets whole modules, because each process that runs a part of one repeats its setup. The processes first
    get parts of the list that follow each other and are of one size.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    quick = [item for item in items if LONG.isdisjoint(item.path.parts)]
    long = [item for item in items if not LONG.isdisjoint(item.path.parts)]
    modules = [list(module) for _, module in groupby(long, attrgetter("path"))]
    count = len(items)
    items.clear()
    for process in range(processes):
        mine = list(chain.from_iterable(modules[process::processes]))
        end = count * (process + 1) // processes
        room = max(end - len(items) - len(mine), 0)
        items += [*mine, *quick[:room]]
        del quick[:room]
    items += quick


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """On SQLite, migrate one test database for all processes of a run: the others copy it.

    A run that a test starts is no process of this one, though it has its environment: it migrates its own database.
    """
    with pytest.MonkeyPatch.context() as patch:
        if connection.vendor == "sqlite" and hasattr(pytestconfig, "workerinput"):
            migrate_once(tmp_path_factory.getbasetemp().parent, patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def database_is_emptied_quickly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", delete_test_rows)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_are_found_when_asked_for() -> Iterator[None]:
    """Look up static files on request; listing all of them for each client takes a tenth of the run."""
    with override_settings(WHITENOISE_AUTOREFRESH=True):
        yield


@pytest.fixture(scope="session", autouse=True)
def passwords_are_hashed_quickly() -> Iterator[None]:
    """A password takes half a second of processor time with the hasher of the site."""
    with override_settings(PASSWORD_HASHERS=[QUICK_PASSWORD_HASHER]):
        yield


@pytest.fixture(scope="session", autouse=True)
def tables_are_known_to_exist() -> Iterator[None]:
    """Spare the first request of each test run the look at the tables, which `pytest-django` has created."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_readiness.probe, "_is_current", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def leftover_database_files_are_removed() -> Iterator[None]:
    """Remove files beside the database file of this process: locks and journals of aborted connections."""
    yield
    if connection.vendor == "sqlite" and (name := connection.settings_dict["TEST"]["NAME"]):
        file = Path(name)
        for left in file.parent.glob(f"{file.name}*"):
            left.unlink()


@pytest.fixture(scope="module", autouse=True)
def rows_are_sealed_where_wanted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    if not is_sealed(request.node.nodeid):
        yield
        return
    with set_sealed_environment(tmp_path_factory.mktemp("sealed")):
        yield


@pytest.fixture(autouse=True)
def witness_is_emptied_where_rows_are_sealed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget the sessions of a test, whose rows are deleted after it, so that the next one may start them anew."""
    yield
    if is_sealed(request.node.nodeid):
        empty_witness()


@pytest.fixture(autouse=True)
def language_and_time_zone_are_reset() -> Iterator[None]:
    """The language and the time zone of a request stay active in its thread until the next request."""
    yield
    translation.deactivate()
    timezone.deactivate()


@pytest.fixture(scope="session", autouse=True)
def deferred_writes_wait_for_flush() -> Iterator[None]:
    """On SQLite, a thread that writes would wait for the transaction of a test, and its end for the thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deferred_writes, "DELAY_SECONDS", 3600.0)
        yield


@pytest.fixture(autouse=True)
def state_of_the_site_is_forgotten() -> Iterator[None]:
    """What a test leaves to be written would be written during another test, where other rows have the same keys."""
    yield
    deferred_writes.discard_all_waiting_values()
    clients = sys.modules.get("harness_site.api.client_checkpointer_cache")
    if clients is not None:  # a test of the site; children and tests of the library alone cannot import it
        clients.clear_client_cache()


@pytest.fixture
def workspace(transactional_db: None) -> Workspace:
    """The default workspace, on a database with real transactions that is emptied after the test."""
    return Workspace.objects.get(slug=DEFAULT_WORKSPACE)


@pytest.fixture
def open_checkpointer(workspace: Workspace) -> Iterator[Open]:
    """Open checkpointers on the test database; all are closed at the end."""
    opened: list[SyncCheckpointer] = []

    def open_(**options: Any) -> SyncCheckpointer:
        opened.append(SyncCheckpointer(**options))
        return opened[-1]

    yield open_
    for checkpointer in opened:
        checkpointer.close()


@pytest.fixture
def cp(open_checkpointer: Open) -> SyncCheckpointer:
    return open_checkpointer()


@pytest.fixture
def start_child(workspace: Workspace) -> Iterator[StartChild]:
    """Start child processes; running ones are killed at the end."""
    children: list[Child] = []

    def start(function: Callable[..., object], **arguments: Any) -> Child:
        children.append(Child(function, **arguments))
        return children[-1]

    yield start
    for child in children:
        child.kill()


@pytest.fixture
def fresh_url(workspace: object, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database of the tested kind."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path}/fresh.db"
        return
    name = f"fresh_{uuid4().hex}"
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    url, _, _ = database_url().rpartition("/")
    yield f"{url}/{name}"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """File to which tools append one line per effect."""
    path = tmp_path / "effects.log"
    path.touch()
    return path
