"""Fixtures for tests with a real site, real agents and a real browser. They run separately: `pytest tests/e2e`."""

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from tests.support.browser import ACTION_TIMEOUT_MS, PageMonitor, launch_chromium, monitored_context, sign_in
from tests.support.launched_process import start_launcher
from tests.support.site_process import CAST, PASSWORD, Agent, Site, create_tables_and_accounts_in_child, fresh_database

_order_numbers = count(17)
#: Shorter than the time after which the site asks for the password again.
SIGN_IN_MAX_AGE_SECONDS = 600.0
expect.set_options(timeout=ACTION_TIMEOUT_MS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests marked `begins_first` first, and their files where processes get whole files in this order."""
    items.sort(key=lambda item: item.get_closest_marker("begins_first") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last events of the pages to the report of a failed test."""
    report = yield
    if call.when == "call" and report.failed and isinstance(item, pytest.Function):
        for monitor in cast("list[PageMonitor]", item.funcargs.get("page_monitors", [])):
            report.sections.append(("Last events of the pages", monitor.describe_last_events()))
    return report


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as instance:
        yield instance


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launch_chromium(playwright) as instance:
        yield instance


@dataclass(frozen=True)
class Template:
    """Database that those of all sites are copied from, with tables, accounts, and a browser session of each user."""

    database: str
    #: Storage state of a browser in which the user has signed in, by name.
    states: dict[str, Any]
    signed_in_at: float


@pytest.fixture(scope="session")
def template(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    """All processes of a run share a SQLite file, and each has a database of its own on a server."""
    start_launcher(with_site=True)  # it loads the site while another process prepares the file
    folder = tmp_path_factory.mktemp("prepared")
    with fresh_database(folder) as database:
        if database.startswith("postgres"):
            yield Template(database, _prepare_database(browser, database, folder), time.time())
        else:
            base = tmp_path_factory.getbasetemp()
            yield _prepare_shared_database(browser, base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


def _prepare_shared_database(browser: Browser, folder: Path) -> Template:
    """Create the file in a folder once, whichever process is first."""
    database, states = folder / "template.sqlite3", folder / "template.json"
    with (folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not states.exists():
            database.unlink(missing_ok=True)
            text = json.dumps(_prepare_database(browser, str(database), folder))
            with closing(sqlite3.connect(database)) as connection:  # only this file is copied, without its journal
                assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            states.write_text(text)
    return Template(str(database), json.loads(states.read_text()), states.stat().st_mtime)


def _prepare_database(browser: Browser, database: str, folder: Path) -> dict[str, Any]:
    """Create tables and accounts, sign all users in, and return their storage states."""
    site = Site(database, folder, forked=True)
    site.run(create_tables_and_accounts_in_child)
    with site:
        return {name: _sign_in(browser, site, name) for name in CAST}


def _sign_in(browser: Browser, site: Site, name: str) -> Any:
    with monitored_context(browser, site.address) as (context, _):
        sign_in(context.new_page(), name, PASSWORD)
        return context.storage_state()


@pytest.fixture(scope="session")
def template_database(template: Template) -> str:
    return template.database


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, template_database: str) -> Iterator[Site]:
    """Site that all tests share. Each test uses sessions of its own."""
    folder: Path = tmp_path_factory.mktemp("site")
    with fresh_database(folder, template_database) as database, Site(database, folder, forked=True) as started_site:
        yield started_site
        assert [line for line in started_site.log().splitlines() if "ERROR" in line] == []


@pytest.fixture
def private_site(tmp_path: Path, template_database: str) -> Iterator[Site]:
    """Site that only this test uses, and may stop."""
    with fresh_database(tmp_path, template_database) as database, Site(database, tmp_path, forked=True) as running:
        yield running


@pytest.fixture
def order_number() -> int:
    """Order number that no other test uses."""
    return next(_order_numbers)


class StartAgent(Protocol):
    """Function that starts the refund desk for an order, with a model that takes `pace` seconds to answer."""

    def __call__(self, site: Site, order_number: int, *, pace: float = 0.0) -> Agent: ...


@pytest.fixture
def start_agent() -> Iterator[StartAgent]:
    """Start agents, and stop them at the end of the test."""
    with ExitStack() as stack:

        def start(site: Site, order_number: int, *, pace: float = 0.0) -> Agent:
            agent = site.agent(order_number, pace=pace)
            stack.callback(agent.stop)
            return agent

        yield start


class OpenPage(Protocol):
    """Function that opens a new browser context and returns a page of it.


    The browser is signed in as `name`, or signed out if `name` is empty. `options` are those of a Playwright context,
    such as `java_script_enabled`, `color_scheme` and `viewport`.
    """

    def __call__(self, name: str = "", site: Site = ..., **options: Any) -> Page: ...


#: Function that returns the storage state of a browser in which a user has signed in to a site.
SignInState = Callable[[Site, str], Any]


@pytest.fixture(scope="session")
def sign_in_state(browser: Browser, template: Template) -> SignInState:
    """Sign in once for all sites and each user, because password hashing is slow.

    Sign-ins are repeated on each site before they are so old that the site asks for the password again.
    """
    states: dict[tuple[str, str], Any] = {}
    signed_in_at: dict[tuple[str, str], float] = {}

    def get_state(site: Site, name: str) -> Any:
        if time.time() - template.signed_in_at < SIGN_IN_MAX_AGE_SECONDS:
            return template.states[name]
        if time.time() - signed_in_at.get((site.address, name), 0) >= SIGN_IN_MAX_AGE_SECONDS:
            signed_in_at[site.address, name] = time.time()
            states[site.address, name] = _sign_in(browser, site, name)
        return states[site.address, name]

    return get_state


@pytest.fixture
def page_monitors() -> list[PageMonitor]:
    """Monitors of the browser contexts that `open_page` has opened, in order."""
    return []


@pytest.fixture
def open_page(
    browser: Browser, site: Site, sign_in_state: SignInState, page_monitors: list[PageMonitor]
) -> Iterator[OpenPage]:
    with ExitStack() as stack:

        def open_in_new_context(name: str = "", site: Site = site, **options: Any) -> Page:
            if name:
                options["storage_state"] = sign_in_state(site, name)
            context, monitor = stack.enter_context(monitored_context(browser, site.address, **options))
            page_monitors.append(monitor)
            return context.new_page()

        yield open_in_new_context
        assert [problem for monitor in page_monitors for problem in monitor.problems] == []
