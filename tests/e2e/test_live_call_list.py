"""Live updates of a session's call list."""

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.support.log_call import log_call_in_child
from tests.support.reloaded_page import expect_to_be_as_reloaded
from tests.support.site_process import Site


def log_call(site: Site, session_id: str, call_id: str, word: str) -> str:
    """Log a call, or change the arguments of a logged one; return the path of the session's call list."""
    key = site.run(log_call_in_child, session_id=session_id, call_id=call_id, word=word)
    return f"/sessions/{key}/calls/"


def test_new_and_changed_calls_are_displayed(site: Site, open_page: OpenPage) -> None:
    page = open_page("carol")
    page.goto(log_call(site, "followed", "call_1", "apples"))
    rows = page.locator("table.calls tbody tr")
    log_call(site, "followed", "call_2", "pears")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("pears")
    log_call(site, "followed", "call_1", "cherries")
    expect(rows.last).to_contain_text("cherries")
    expect(rows.last).not_to_contain_text("apples")
    expect_to_be_as_reloaded(page)
