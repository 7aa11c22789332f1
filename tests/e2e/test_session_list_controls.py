"""The head of the session list selects all its rows, and its order and status apply at once."""

import re

from playwright.sync_api import Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage
from tests.support import axe
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import Site


def open_list(page: Page, site: Site, *sessions: str) -> None:
    """Start agents and open the list when the sessions of all of them wait for an approval.

    A list that is open offers a new session by a link above its rows.
    """
    for name in sessions:
        site.payer(name)
    page.goto("/review/")
    for name in sessions:
        expect(page_actions.payment_link(page, name)).to_be_visible()
    page.goto("/sessions/")


def test_all_rows_are_selected_and_a_chosen_order_or_status_applies(private_site: Site, open_page: OpenPage) -> None:
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    open_list(page, private_site, "inv-1", "inv-2", "inv-3")
    everything = page.get_by_role("checkbox", name="Select all sessions on this page")
    rows = page.locator("tbody .pick input")
    expect(rows).to_have_count(3)
    everything.check()
    expect(page.locator("tbody .pick :checked")).to_have_count(rows.count())
    comparison = page.get_by_role("link", name="Compare sessions")
    expect(page.get_by_text("Two sessions can be compared, not more.")).to_be_visible()
    expect(comparison).to_be_hidden()
    rows.last.uncheck()
    expect(page.get_by_text("Two sessions can be compared, not more.")).to_be_hidden()
    expect(comparison).to_have_attribute("href", re.compile(r"^/sessions/\d+/compare/\?with=\d+$"))
    rows.first.uncheck()
    expect(comparison).to_be_hidden()
    expect(page.get_by_text("Select one more to compare the two.")).to_be_visible()
    expect(everything).to_have_js_property("indeterminate", True)
    everything.check()
    everything.uncheck()
    expect(page.locator("tbody .pick :checked")).to_have_count(0)
    assert axe.list_accessibility_violations(page) == []
    page.get_by_label("Sort by").select_option("Lowest cost")
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=cost-asc$"))
    page.get_by_role("columnheader", name="Cost").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=cost$"))
    page.get_by_label("Status").select_option("Running")
    expect(page).to_have_url(re.compile(r"[?&]status=running(&|$)"))


@only_exhaustive
def test_phone_selects_all_rows_and_shows_whole_ids_and_labels(private_site: Site, open_page: OpenPage) -> None:
    page = open_page("alice", private_site, viewport={"width": 390, "height": 844})
    open_list(page, private_site, "order-4711-replacement-second-attempt", "inv-2")
    expect(page.locator("tbody tr")).to_have_count(2)
    for label in ("emea", "returns-and-refunds", "vip"):
        page.get_by_role("checkbox", name="Select sessions").check()
        page.get_by_role("checkbox", name="Select all sessions on this page").check()
        page.get_by_placeholder("Label").fill(label)
        page.get_by_role("button", name="Add label").click()
        expect(page.locator("tbody .label", has_text=label)).to_have_count(2)
        page.wait_for_load_state()
    page.get_by_role("checkbox", name="Select sessions").check()
    row = page.locator("tbody tr", has_text="order-4711")
    cut = "parts => parts.filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.textContent)"
    assert row.locator("code, .label").evaluate_all(cut) == []
    edge = row.evaluate("row => row.getBoundingClientRect().right")
    boxes = row.locator("code, .label").evaluate_all("parts => parts.map(part => part.getBoundingClientRect().right)")
    assert len(boxes) == 4
    assert max(boxes) <= edge
    assert axe.list_accessibility_violations(page) == []


def test_headings_sort_and_no_box_selects_all_without_javascript(private_site: Site, open_page: OpenPage) -> None:
    open_list(open_page("alice", private_site), private_site, "inv-1")
    page = open_page("alice", private_site, java_script_enabled=False, viewport={"width": 1366, "height": 768})
    page.goto("/sessions/")
    expect(page.get_by_role("checkbox", name="Select all sessions on this page")).to_be_hidden()
    page.get_by_role("columnheader", name="Updated").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=updated-asc$"))
