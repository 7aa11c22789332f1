"""The timeline by keyboard, and without JavaScript."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.site_process import Site


def test_the_timeline_by_keyboard(site: Site, order: int, start_agent: StartAgent, visit: Visit) -> None:
    start_agent(site, order)
    page = visit("alice")
    page_actions.open_card(page, order)
    page.get_by_role("link", name=f"order-{order}", exact=True).click()
    page.wait_for_url("**/sessions/*/")

    _enter(page, page.get_by_role("link", name="Timeline", exact=True))
    expect(page.get_by_role("link", name="Timeline", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("row", name="Outcome unknown")).to_be_visible()

    _enter(page, page.get_by_role("link", name="Zoom in"))
    page.wait_for_url("**/timeline/?from=*&to=*")
    closer = page.url
    _enter(page, page.get_by_role("link", name="Zoom out"))
    expect(page).not_to_have_url(closer)
    page.go_back()
    expect(page).to_have_url(closer)
    _enter(page, page.get_by_role("link", name="Whole session"))
    page.wait_for_url("**/timeline/")

    _enter(page, page.get_by_role("row", name="Outcome unknown").get_by_role("link"))
    page.wait_for_url("**/calls/*/")
    expect(page.get_by_role("heading", name="Record")).to_be_visible()


def test_the_timeline_without_javascript(site: Site, order: int, start_agent: StartAgent, visit: Visit) -> None:
    start_agent(site, order)
    page = visit("alice")
    page_actions.open_card(page, order)
    page.get_by_role("link", name=f"order-{order}", exact=True).click()
    page.wait_for_url("**/sessions/*/")

    plain = visit("carol", java_script_enabled=False)
    plain.goto(f"{page.url}timeline/")
    drawing = plain.get_by_role("region", name="Drawing")
    expect(drawing.get_by_role("group")).to_have_attribute("aria-label", re.compile("Outcome unknown"))
    plain.get_by_text("As a table").click()
    expect(plain.get_by_role("table", name="Cost, tokens and messages by version")).to_be_visible()
    plain.get_by_role("link", name="Zoom in").click()
    expect(plain.get_by_role("link", name="Whole session")).to_be_visible()


def _enter(page: Page, link: Locator) -> None:
    """Tab to a link and open it."""
    expect(link).to_be_visible()
    for _ in range(80):
        page.keyboard.press("Tab")
        if link.and_(page.locator(":focus")).count():
            page.keyboard.press("Enter")
            return
    raise AssertionError("Tab does not reach the link.")
