"""Real browser for tests, and a monitor that collects errors of its pages."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright, Request

#: Timeout of a page action, in milliseconds; only a failing test takes so long.
ACTION_TIMEOUT_MS = 60_000
#: The first is Chromium without windows, which takes a quarter less processor time.
_EXECUTABLE_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
#: Problems that a page reports when its WebSocket is refused or lost: htmx logs the error event as an object.
LOST_WEBSOCKET = r"WebSocket connection|\[object Event\]"
#: Problems that a page reports when its requests reach no server.
LOST_REQUESTS = r"net::ERR_|htmx:sendError|htmx:afterRequest|\[object Event\]"
#: Reports identifiers that several elements have after an update: a part was inserted beside or into the one it
#: replaces.
_REPORT_DUPLICATE_IDS = """document.addEventListener("htmx:afterSettle", () => {
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  const duplicates = ids.filter((id, index) => ids.indexOf(id) !== index);
  if (duplicates.length) console.error(`duplicate ids: ${duplicates.join(", ")}`);
});"""
#: Keeps the last events of a page, which tell why a failed test has not found what should follow an action.
_RECORD_EVENTS = """(() => {
  const events = (window.lastEvents = []);
  const describe = (it) => (it?.tagName ? `${it.tagName}#${it.id}.${it.className}` : "");
  const kinds = ["pointerdown", "pointerup", "click", "keydown", "change", "submit", "focusin", "DOMContentLoaded",
    "htmx:beforeRequest", "htmx:afterRequest", "htmx:beforeSwap", "htmx:afterSettle"];
  for (const kind of kinds) {
    document.addEventListener(kind, ({ target, detail, clientX, clientY, key }) => {
      const place = clientX === undefined ? undefined : `${clientX},${clientY}`;
      const requester = describe(detail?.requestConfig?.elt);
      const response = [detail?.xhr?.status, detail?.shouldSwap];
      const parts = [Math.round(performance.now()), kind, describe(target), key ?? place, requester, ...response];
      events.push(parts.filter((part) => part !== "" && part !== undefined).join(" "));
      if (events.length > 80) events.shift();
    }, true);
  }
})();"""
_CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def launch_chromium(playwright: Playwright) -> Iterator[Browser]:
    """Start the Chromium of this machine, headless."""
    executable = next(filter(None, map(shutil.which, _EXECUTABLE_NAMES)), None)
    if executable is None:
        raise FileNotFoundError(f"There is none of {', '.join(_EXECUTABLE_NAMES)} on the PATH.")
    browser = playwright.chromium.launch(executable_path=executable, args=_CHROMIUM_ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()


#: What HTMX writes to the console about a request that the browser has ended.
_ABORTED_UPDATE: Final = re.compile(r"^console error: htmx:(afterRequest|sendError|sendAbort)\b")


class PageMonitor:
    """Monitor of all pages of a browser context.

    Collects console errors and warnings (also violations of the content security policy), script errors, duplicate
    identifiers after an update, and requests to another host than `address`.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self._problems: list[str] = []
        self._expected_patterns: list[re.Pattern[str]] = []
        self._has_aborted_request = False
        self._context = context
        context.add_init_script(_REPORT_DUPLICATE_IDS)
        context.add_init_script(_RECORD_EVENTS)
        context.on("console", self._on_console)
        context.on("requestfailed", self._on_request_failed)
        context.on("weberror", lambda error: self._add_problem(f"script error: {error.error}"))
        context.on("request", self._on_request)

    @property
    def problems(self) -> list[str]:
        """Problems that no test expects. A page that is left aborts its live updates, which HTMX reports."""
        if not self._has_aborted_request:
            return self._problems
        return [problem for problem in self._problems if not _ABORTED_UPDATE.search(problem)]

    def ignore(self, pattern: str) -> None:
        """Ignore problems that match the pattern, because the test causes them."""
        self._expected_patterns.append(re.compile(pattern))

    def describe_last_events(self) -> str:
        """Return the last events of the open pages, one in a line, each with its milliseconds since the page began."""
        lines = []
        for page in self._context.pages:
            lines.append(page.url)
            try:
                lines += page.evaluate("window.lastEvents ?? []")
            except Error as error:  # the page is being left
                lines.append(str(error))
        return "\n".join(lines)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._add_problem(f"console {message.type}: {message.text}")

    def _on_request_failed(self, request: Request) -> None:
        self._has_aborted_request |= request.failure == "net::ERR_ABORTED"

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self._add_problem(f"request to another host: {request.url}")

    def _add_problem(self, problem: str) -> None:
        if not any(pattern.search(problem) for pattern in self._expected_patterns):
            self._problems.append(problem)


@contextmanager
def monitored_context(browser: Browser, address: str, **options: Any) -> Iterator[tuple[BrowserContext, PageMonitor]]:
    """Open a browser context for pages below `address`, with a monitor. `options` are Playwright's.

    The reader prefers reduced motion: an element that still moves would not get a click that follows at once.
    """
    context = browser.new_context(base_url=address, **{"reduced_motion": "reduce", **options})
    context.set_default_timeout(ACTION_TIMEOUT_MS)
    try:
        yield context, PageMonitor(context, address)
    finally:
        context.close()


def sign_in(page: Page, name: str, password: str) -> None:
    """Log in through the form."""
    page.goto("/accounts/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(re.compile(r"/(review|sessions|first-steps)/"))
