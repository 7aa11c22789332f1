"""Menus in the head of a session: labels and exports."""

import pytest
from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage
from tests.support import axe
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site


@pytest.fixture
def session_address(private_site: Site, open_page: OpenPage) -> str:
    """Address of the page of a session that waits for an approval."""
    private_site.payer("inv-menus")
    page = open_page("alice", private_site)
    page_actions.open_payment_card(page, "inv-menus")
    return page.get_by_role("link", name="inv-menus", exact=True).get_attribute("href") or ""


def test_one_menu_is_open_at_a_time(private_site: Site, open_page: OpenPage, session_address: str) -> None:
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    page.goto(session_address)
    labels, exports = (page.locator("#session-head summary", has_text=name) for name in ("Labels", "Export"))
    before = page.get_by_role("navigation", name="Session", exact=True).bounding_box()
    labels.click()
    expect(page.get_by_role("textbox", name="New label")).to_be_visible()
    assert axe.list_accessibility_violations(page) == []
    exports.click()
    expect(page.get_by_role("link", name="Session file")).to_be_visible()
    expect(page.get_by_role("textbox", name="New label")).to_be_hidden()
    assert axe.list_accessibility_violations(page) == []
    assert page.get_by_role("navigation", name="Session", exact=True).bounding_box() == before
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Session file")).to_be_hidden()
    expect(exports).to_be_focused()


@pytest.mark.parametrize("java_script", [True, False])
def test_label_is_added_and_removed(
    private_site: Site, open_page: OpenPage, session_address: str, java_script: bool
) -> None:
    page = open_page("alice", private_site, java_script_enabled=java_script, viewport={"width": 390, "height": 844})
    page.goto(session_address)
    page.locator("#session-head summary", has_text="Labels").click()
    page.get_by_role("textbox", name="New label").fill("vip")
    page.get_by_role("button", name="Add label").click()
    expect(page.locator("#session-head .facts").get_by_role("link", name="vip")).to_be_attached()
    page.locator("#session-head summary", has_text="Labels").click()
    if java_script:
        assert overflowing_elements(page) == []
    page.get_by_role("button", name="Remove the label vip").click()
    expect(page.locator("#session-head .facts").get_by_role("link", name="vip")).to_have_count(0)
