"""A real browser, and a watch over what its pages do that they must not."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

#: How long a page may take to do what is asked of it, in milliseconds.
PATIENCE = 20_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The Chromium of this machine, without a window."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise FileNotFoundError(f"There is none of {', '.join(_NAMES)} on the PATH.")
    browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()


class Watch:
    """Listens to every page of a context: complaints on the console (a breach of the content policy is one), errors of
    scripts, and requests to another host than `address`."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.complaints: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        context.on("console", self._console)
        context.on("weberror", lambda error: self._complain(f"script error: {error.error}"))
        context.on("request", self._request)

    def expect(self, pattern: str) -> None:
        """A complaint that belongs to what the test does."""
        self._expected.append(re.compile(pattern))

    def _console(self, said: ConsoleMessage) -> None:
        if said.type in {"error", "warning"}:
            self._complain(f"console {said.type}: {said.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self._complain(f"request to another host: {request.url}")

    def _complain(self, what: str) -> None:
        if not any(pattern.search(what) for pattern in self._expected):
            self.complaints.append(what)


@contextmanager
def watched(browser: Browser, address: str, **options: Any) -> Iterator[tuple[BrowserContext, Watch]]:
    """A context of its own for pages below `address`, and the watch over it. `options` are Playwright's."""
    context = browser.new_context(base_url=address, **options)
    context.set_default_timeout(PATIENCE)
    try:
        yield context, Watch(context, address)
    finally:
        context.close()


def sign_in(page: Page, name: str, password: str) -> None:
    """Through the form, as a person does."""
    page.goto("/accounts/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(re.compile(r"/(review|sessions)/"))
