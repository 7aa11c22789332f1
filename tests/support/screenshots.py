"""Screenshots of the README from a real demo: `python -m tests.support.screenshots` writes docs/images/."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState, expect, sync_playwright

from tests.support.browser import launch_chromium, monitored_context, sign_in
from tests.support.site_process import free_port

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 920}
#: Theme → suffix of the name of a picture.
THEMES = {"light": "", "dark": "-dark"}


@dataclass(frozen=True)
class Demo:
    """Running demo whose agent waits for a decision."""

    address: str
    password: str
    card: str


@contextmanager
def run_demo_until_decision(folder: Path) -> Iterator[Demo]:
    """Start the demo on a database of its own, and yield it when it asks for a decision."""
    port = free_port()
    environment = {**os.environ, "HARNESS_DATABASE_URL": str(folder / "demo.sqlite3"), "PORT": str(port)}
    command = [sys.executable, "-m", "examples.demo", f"--state={folder / 'state'}"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as demo:
        try:
            yield _read_demo_output_until_ready(demo, f"http://127.0.0.1:{port}")
        finally:
            demo.terminate()
            demo.communicate()


def _read_demo_output_until_ready(demo: subprocess.Popen[str], address: str) -> Demo:
    output = ""
    for line in demo.stdout or ():
        output += line
        if match := re.search(rf"approver +(\S+).*Decide here: {address}(\S+)", output, re.DOTALL):
            return Demo(address, match.group(1), match.group(2))
    raise RuntimeError(f"The demo ended early:\n{output}")


def take_screenshots(browser: Browser, demo: Demo) -> None:
    """Take the pictures: first the queue and the card, then decide, then the session."""
    with monitored_context(browser, demo.address) as (context, _):
        sign_in(context.new_page(), "approver", demo.password)
        cookies = context.storage_state()
    for theme in THEMES:
        with _open_page(browser, demo, cookies, theme) as page:
            _take_screenshot(page, "/review/", "review", theme)
            _take_screenshot(page, demo.card, "card", theme, _fill_in_decision)
    with _open_page(browser, demo, cookies, "light") as page:
        page.goto(demo.card)
        _fill_in_decision(page)
        page.get_by_role("button", name="Record that it happened").click()
        expect(page.get_by_text("The session is completed with this result:")).to_be_visible(timeout=60_000)
        session = page.get_by_role("link", name="Open session", exact=True).get_attribute("href") or ""
    for theme in THEMES:
        with _open_page(browser, demo, cookies, theme) as page:
            _take_screenshot(page, session, "session", theme, _scroll_to_crash)
            _take_screenshot(page, f"{session}compare/?a=6&b=8", "compare", theme)


def _fill_in_decision(page: Page) -> None:
    page.get_by_role("radio", name="It happened").check()
    result = "Refunded 40.00 EUR to the card ending 4242, reference rf-17-1."
    page.get_by_role("textbox", name="Result for the agent").fill(result)
    page.get_by_role("textbox", name="Reason").fill("It is in the ledger of the shop.")
    page.get_by_text("Add evidence").click()
    page.get_by_role("textbox", name="Evidence").fill("ledger.jsonl, rf-17-1")
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")


def _scroll_to_crash(page: Page) -> None:
    """Scroll to the place where the agent calls refund_card, is killed, and continues."""
    call = page.locator("article", has=page.get_by_text("back to it"))
    for _ in range(2):  # elements get their final height when they come into view
        call.evaluate("article => article.scrollIntoView({ behavior: 'instant' })")
        page.wait_for_timeout(300)


@contextmanager
def _open_page(browser: Browser, demo: Demo, cookies: StorageState, theme: str) -> Iterator[Page]:
    options = {"color_scheme": theme, "viewport": SIZE, "device_scale_factor": 1.5, "storage_state": cookies}
    with monitored_context(browser, demo.address, **options) as (context, _):
        yield context.new_page()


def _take_screenshot(
    page: Page, path: str, name: str, theme: str, prepare: Callable[[Page], None] | None = None
) -> None:
    page.goto(path)
    if prepare is not None:
        prepare(page)
    page.screenshot(path=IMAGES / f"{name}{THEMES[theme]}.png", animations="disabled")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_demo_until_decision(Path(folder)) as demo,
        sync_playwright() as playwright,
        launch_chromium(playwright) as browser,
    ):
        take_screenshots(browser, demo)
    for image in sorted(IMAGES.glob("*.png")):
        print(image.relative_to(ROOT))


if __name__ == "__main__":
    main()
