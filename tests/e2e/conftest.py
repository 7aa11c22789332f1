"""A real site, a real agent and a real browser. Run as a process of its own: `pytest tests/e2e`."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from tests.support.browser import PATIENCE, Watch, chromium, sign_in, watched
from tests.support.site_process import PASSWORD, Agent, Site, fresh_database, prepare

_orders = count(17)
#: Seconds: less than after which a sign-in no longer counts as a proof.
LATELY = 600.0
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with chromium(playwright) as running:
        yield running


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The database that those of all sites are copies of: with tables and the cast."""
    with fresh_database(tmp_path_factory.mktemp("prepared")) as database:
        prepare(database)
        yield database


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, prepared: str) -> Iterator[Site]:
    """The site that all tests share: each brings its own session."""
    folder: Path = tmp_path_factory.mktemp("site")
    with fresh_database(folder, prepared) as database, Site(database, folder) as running:
        yield running
        assert [line for line in running.log().splitlines() if "ERROR" in line] == []


@pytest.fixture
def own_site(tmp_path: Path, prepared: str) -> Iterator[Site]:
    """A site that this test may stop."""
    with fresh_database(tmp_path, prepared) as database, Site(database, tmp_path) as running:
        yield running


@pytest.fixture
def order() -> int:
    """The number of an order that no other test has."""
    return next(_orders)


class StartAgent(Protocol):
    """Starts the refund desk about an order, with a model that takes `pace` seconds to answer."""

    def __call__(self, site: Site, order: int, *, pace: float = 0.0) -> Agent: ...


@pytest.fixture
def start_agent() -> Iterator[StartAgent]:
    """Agents that are stopped at the end of the test, so that none waits on for ever."""
    with ExitStack() as leaving:

        def started(site: Site, order: int, *, pace: float = 0.0) -> Agent:
            agent = site.agent(order, pace=pace)
            leaving.callback(agent.stop)
            return agent

        yield started


class Visit(Protocol):
    """Opens a browser of one person's own, signed in (nobody: signed out), and returns its page.

    `options` are those of a Playwright context: `java_script_enabled`, `color_scheme`, `viewport`.
    """

    def __call__(self, name: str = "", site: Site = ..., **options: Any) -> Page: ...


#: The cookies of somebody who has signed in to a site.
SignedIn = Callable[[Site, str], Any]


@pytest.fixture(scope="session")
def signed_in(browser: Browser) -> SignedIn:
    """Signs in seldom for each site and name, because passwords are hashed slowly; but often enough that nobody is
    asked for theirs again."""
    known: dict[tuple[str, str], Any] = {}
    since: dict[tuple[str, str], float] = {}

    def cookies(site: Site, name: str) -> Any:
        if time.monotonic() - since.get((site.address, name), -LATELY) >= LATELY:
            since[site.address, name] = time.monotonic()
            with watched(browser, site.address) as (context, _):
                sign_in(context.new_page(), name, PASSWORD)
                known[site.address, name] = context.storage_state()
        return known[site.address, name]

    return cookies


@pytest.fixture
def watches() -> list[Watch]:
    """The watch over each browser that `visit` opened, in order."""
    return []


@pytest.fixture
def visit(browser: Browser, site: Site, signed_in: SignedIn, watches: list[Watch]) -> Iterator[Visit]:
    with ExitStack() as leaving:

        def opened(name: str = "", site: Site = site, **options: Any) -> Page:
            if name:
                options["storage_state"] = signed_in(site, name)
            context, watch = leaving.enter_context(watched(browser, site.address, **options))
            watches.append(watch)
            return context.new_page()

        yield opened
        assert [complaint for watch in watches for complaint in watch.complaints] == []
