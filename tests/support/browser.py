"""Real browser for tests, and a watch for forbidden behaviour of its pages."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

#: Timeout of a page action, in milliseconds.
PATIENCE = 20_000
#: The first is Chromium without windows, which takes a quarter less processor time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
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
    """Start the Chromium of this machine, headless."""
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    if executable is None:
        raise FileNotFoundError(f"There is none of {', '.join(_NAMES)} on the PATH.")
    browser = playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()


class Watch:
    """Watch over every page of a context.

    It collects console errors and warnings (also violations of the content security policy), script errors, and
    requests to another host than `address`.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.complaints: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        context.on("console", self._console)
        context.on("weberror", lambda error: self._complain(f"script error: {error.error}"))
        context.on("request", self._request)

    def expect(self, pattern: str) -> None:
        """Ignore complaints that match the pattern, because the test causes them."""
        self._expected.append(re.compile(pattern))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._complain(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self._complain(f"request to another host: {request.url}")

    def _complain(self, complaint: str) -> None:
        if not any(pattern.search(complaint) for pattern in self._expected):
            self.complaints.append(complaint)


@contextmanager
def watched(browser: Browser, address: str, **options: Any) -> Iterator[tuple[BrowserContext, Watch]]:
    """Open a context for pages below `address`, and watch it. `options` are Playwright's."""
    context = browser.new_context(base_url=address, **options)
    context.set_default_timeout(PATIENCE)
    try:
        yield context, Watch(context, address)
    finally:
        context.close()


def sign_in(page: Page, name: str, password: str) -> None:
    """Log in through the form."""
    page.goto("/accounts/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(re.compile(r"/(review|sessions|first-steps)/"))
