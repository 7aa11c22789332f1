"""Forks, also without JavaScript."""

import re

from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import Site


@only_exhaustive
def test_fork_without_javascript(
    site: Site, order_number: int, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    start_agent(site, order_number)
    session_page = open_page("alice")
    page_actions.open_refund_card(session_page, order_number)
    page_actions.session_link(session_page).click()
    session_page.wait_for_url("**/sessions/*/")

    page = open_page("alice", java_script_enabled=False)
    page_monitors[1].ignore("status of 422")
    page.goto(f"{session_page.url}versions/")
    page.get_by_role("link", name="Fork from version 2").click()
    expect(page.get_by_role("heading", name="Fork from version 2")).to_be_visible()
    expect(page.get_by_text("1 call is undecided, and stays undecided in the fork.")).to_be_visible()
    page.get_by_role("textbox", name="Id of the new session").fill(f"order-{order_number}")
    page.get_by_role("button", name="Create the fork").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose an id that is not taken.")
    page.get_by_role("textbox", name="Id of the new session").fill(f"copy-{order_number}")
    page.get_by_role("button", name="Create the fork").click()

    expect(page.get_by_text(f"Forked from version 2 of order-{order_number}")).to_be_visible()
    expect(page.get_by_text("Paused — 1 call needs a decision").first).to_be_visible()
    page.get_by_role("link", name=f"order-{order_number}", exact=True).click()
    expect(page.get_by_text(f"forks: copy-{order_number} from version 2")).to_be_visible()
    page.goto(f"{session_page.url}history/")
    forked = f"alice forked order-{order_number} at v2 into copy-{order_number}"
    expect(page.locator("main").get_by_text(forked)).to_be_visible()


@only_exhaustive
def test_back_after_a_corrected_form_shows_the_form_again(
    site: Site, order_number: int, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    page_actions.open_refund_card(page, order_number)
    page_actions.session_link(page).click()
    page.wait_for_url("**/sessions/*/")
    page.goto(f"{page.url}fork/?v=1")
    page.get_by_role("textbox", name="Title of the new session").fill("What if")
    page.get_by_label("Version", exact=True).select_option("2")
    expect(page.get_by_role("heading", name="Fork from version 2")).to_be_visible()
    expect(page.get_by_role("textbox", name="Title of the new session")).to_have_value("What if")
    expect(page).to_have_url(re.compile(r"/fork/\?v=2$"))
    page.get_by_role("textbox", name="Id of the new session").fill(f"order-{order_number}")
    page.get_by_role("button", name="Create the fork").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose an id that is not taken.")
    page.get_by_role("textbox", name="Id of the new session").fill(f"again-{order_number}")
    page.get_by_role("button", name="Create the fork").click()
    expect(page.get_by_text(f"Created from v2 of order-{order_number}.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Fork from version 2")).to_be_visible()
