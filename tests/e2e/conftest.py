"""Fixtures for tests with a real site, real agents and a real browser. They run separately: `pytest tests/e2e`."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from tests.support.browser import ACTION_TIMEOUT_MS, PageMonitor, launch_chromium, monitored_context, sign_in
from tests.support.site_process import PASSWORD, Agent, Site, create_tables_and_accounts, fresh_database

_order_numbers = count(17)
#: Shorter than the time after which the site asks for the password again.
SIGN_IN_MAX_AGE_SECONDS = 600.0
expect.set_options(timeout=ACTION_TIMEOUT_MS)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as instance:
        yield instance


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launch_chromium(playwright) as instance:
        yield instance


@pytest.fixture(scope="session")
def template_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a database with tables and accounts, which the databases of all sites are copied from.

    All processes of a run share a SQLite file, and each has a database of its own on a server.
    """
    with fresh_database(tmp_path_factory.mktemp("prepared")) as database:
        if database.startswith("postgres"):
            create_tables_and_accounts(database)
            yield database
        else:
            base = tmp_path_factory.getbasetemp()
            yield str(_prepare_shared_database(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base))


def _prepare_shared_database(folder: Path) -> Path:
    """Create the file in a folder once, whichever process is first."""
    database = folder / "template.sqlite3"
    with (folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            partial = folder / "template.partial"
            create_tables_and_accounts(str(partial))
            partial.rename(database)
    return database


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, template_database: str) -> Iterator[Site]:
    """Site that all tests share. Each test uses sessions of its own."""
    folder: Path = tmp_path_factory.mktemp("site")
    with fresh_database(folder, template_database) as database, Site(database, folder) as started_site:
        yield started_site
        assert [line for line in started_site.log().splitlines() if "ERROR" in line] == []


@pytest.fixture
def private_site(tmp_path: Path, template_database: str) -> Iterator[Site]:
    """Site that only this test uses, and may stop."""
    with fresh_database(tmp_path, template_database) as database, Site(database, tmp_path) as running:
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
def sign_in_state(browser: Browser) -> SignInState:
    """Sign in once for each site and user, because password hashing is slow.

    A sign-in is repeated before it is so old that the site asks for the password again.
    """
    states: dict[tuple[str, str], Any] = {}
    signed_in_at: dict[tuple[str, str], float] = {}

    def get_state(site: Site, name: str) -> Any:
        if (
            time.monotonic() - signed_in_at.get((site.address, name), -SIGN_IN_MAX_AGE_SECONDS)
            >= SIGN_IN_MAX_AGE_SECONDS
        ):
            signed_in_at[site.address, name] = time.monotonic()
            with monitored_context(browser, site.address) as (context, _):
                sign_in(context.new_page(), name, PASSWORD)
                states[site.address, name] = context.storage_state()
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
