"""Menus in the head of a session: labels and exports."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage
from tests.support import axe
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site


@pytest.fixture
def session_address(site: Site, order_number: int, open_page: OpenPage) -> Iterator[str]:
    """Address of the page of a session that waits for an approval."""
    payer = site.payer(f"inv-{order_number}")
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    yield page_actions.session_link(page).get_attribute("href") or ""
    payer.stop()


@only_exhaustive
def test_one_menu_is_open_at_a_time(open_page: OpenPage, session_address: str) -> None:
    page = open_page("alice", viewport={"width": 1366, "height": 768})
    page.goto(session_address)
    labels, exports = (page.locator("#session-head summary", has_text=name) for name in ("Labels", "Export"))
    before = page.get_by_role("navigation", name="Session", exact=True).bounding_box()
    labels.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="New label")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Add label")).to_be_focused()
    page.keyboard.press("?")  # belongs to the text
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    assert axe.list_accessibility_violations(page) == []
    exports.click()
    expect(page.get_by_role("link", name="Session file")).to_be_visible()
    expect(page.get_by_role("textbox", name="New label")).to_be_hidden()
    assert axe.list_accessibility_violations(page) == []
    assert page.get_by_role("navigation", name="Session", exact=True).bounding_box() == before
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Session file")).to_be_hidden()
    expect(exports).to_be_focused()


@pytest.mark.parametrize("java_script", mark_all_but_each(2, [True, False]))
def test_label_is_added_and_removed(
    open_page: OpenPage, session_address: str, page_monitors: list[PageMonitor], java_script: bool
) -> None:
    page = open_page("alice", java_script_enabled=java_script, viewport={"width": 390, "height": 844})
    address_of_tab = f"{session_address}calls/"
    page.goto(address_of_tab)
    page.locator("#session-head summary", has_text="Labels").click()
    page.get_by_role("textbox", name="New label").fill("vip")
    page.get_by_role("button", name="Add label").click()
    expect(page.locator("#session-head .facts").get_by_role("link", name="vip")).to_be_attached()
    if java_script:
        expect(page.get_by_role("textbox", name="New label")).to_be_focused()  # the menu stays open for the next one
        page_monitors[-1].ignore("status of 422")
        expect(page.locator(".htmx-settling")).to_have_count(0)  # HTMX sends the new form from then on
        page.keyboard.press("Enter")
        expect(page.locator("#labels")).to_contain_text("Enter a label.")
        assert page.url.endswith(address_of_tab)
        assert overflowing_elements(page) == []
    else:
        page.locator("#session-head summary", has_text="Labels").click()
    page.get_by_role("button", name="Remove the label vip").click()
    expect(page.locator("#session-head .facts").get_by_role("link", name="vip")).to_have_count(0)
