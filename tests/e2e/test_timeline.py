"""The timeline page by keyboard, and without JavaScript."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import Site


def test_timeline_by_keyboard(site: Site, order_number: int, start_agent: StartAgent, open_page: OpenPage) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    page_actions.session_link(page).click()
    page.wait_for_url("**/sessions/*/")

    open_link_by_keyboard(page, page.get_by_role("link", name="Timeline", exact=True))
    expect(page.get_by_role("link", name="Timeline", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("row", name="Outcome unknown")).to_be_visible()

    open_link_by_keyboard(page, page.get_by_role("link", name="Zoom in"))
    page.wait_for_url("**/timeline/?from=*&to=*")
    closer = page.url
    open_link_by_keyboard(page, page.get_by_role("link", name="Zoom out"))
    expect(page).not_to_have_url(closer)
    page.go_back()
    expect(page).to_have_url(closer)
    open_link_by_keyboard(page, page.get_by_role("link", name="Whole session"))
    page.wait_for_url("**/timeline/")

    open_link_by_keyboard(page, page.get_by_role("row", name="Outcome unknown").get_by_role("link"))
    page.wait_for_url("**/calls/*/")
    expect(page.get_by_role("heading", name="Record")).to_be_visible()


@only_exhaustive
def test_timeline_without_javascript(
    site: Site, order_number: int, start_agent: StartAgent, open_page: OpenPage
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    page_actions.session_link(page).click()
    page.wait_for_url("**/sessions/*/")

    page_without_javascript = open_page("carol", java_script_enabled=False)
    page_without_javascript.goto(f"{page.url}timeline/")
    drawing = page_without_javascript.get_by_role("group", name="Timeline of")
    expect(drawing).to_have_attribute("aria-label", re.compile("Outcome unknown"))
    page_without_javascript.get_by_text("As a table").click()
    expect(page_without_javascript.get_by_role("table", name="Cost, tokens and messages by version")).to_be_visible()
    page_without_javascript.get_by_role("link", name="Zoom in").click()
    expect(page_without_javascript.get_by_role("link", name="Whole session")).to_be_visible()


def open_link_by_keyboard(page: Page, link: Locator) -> None:
    """Press Tab until a link has the focus, and open it."""
    expect(link).to_be_visible()
    for _ in range(80):
        page.keyboard.press("Tab")
        if link.and_(page.locator(":focus")).count():
            page.keyboard.press("Enter")
            return
    raise AssertionError("Tab does not reach the link.")
