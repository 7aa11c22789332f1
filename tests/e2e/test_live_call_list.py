"""What a reader has unfolded, on a page that follows what happens."""

import subprocess
import sys

from playwright.sync_api import expect

from tests.e2e.conftest import Visit
from tests.support.site_process import Site


def logged(site: Site, call_id: str, word: str) -> str:
    """The address of a session's calls, after one was logged or its arguments were edited."""
    command = [sys.executable, "-m", "tests.support.log_call", "followed", call_id, word]
    made = subprocess.run(command, env=site.environment(), check=True, capture_output=True, text=True)
    return f"/sessions/{made.stdout.strip()}/calls/"


def test_unfolded_arguments_stay_with_their_call(site: Site, visit: Visit) -> None:
    page = visit("carol")
    page.goto(logged(site, "call_1", "apples"))
    rows = page.locator("table.calls tbody tr")
    arguments = rows.locator("td.args")
    rows.first.get_by_role("link", name="show all").click()
    expect(arguments.first.locator(":scope > .args")).to_be_visible()

    logged(site, "call_2", "pears")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("th")).to_contain_text("call_2")
    expect(arguments.first).to_contain_text("pears")
    expect(arguments.last.locator(":scope > .args")).to_contain_text("apples")

    logged(site, "call_1", "cherries")
    expect(arguments.last).to_contain_text("cherries")
    expect(arguments.last).not_to_contain_text("apples")
