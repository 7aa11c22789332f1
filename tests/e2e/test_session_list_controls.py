"""The head of the session list selects all its rows, and its order applies at once."""

import re

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.support import axe
from tests.support.site_process import Site


def test_all_rows_are_selected_and_a_chosen_order_applies(private_site: Site, open_page: OpenPage) -> None:
    for name in ("inv-1", "inv-2"):
        private_site.payer(name)
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    page.goto("/sessions/")
    everything = page.get_by_role("checkbox", name="Select all sessions on this page")
    rows = page.locator("tbody .pick input")
    everything.check()
    expect(page.locator("tbody .pick :checked")).to_have_count(rows.count())
    rows.first.uncheck()
    expect(everything).to_have_js_property("indeterminate", True)
    everything.check()
    everything.uncheck()
    expect(page.locator("tbody .pick :checked")).to_have_count(0)
    assert axe.list_accessibility_violations(page) == []
    page.get_by_label("Sort by").select_option("Lowest cost")
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=cost-asc$"))
    page.get_by_role("columnheader", name="Cost").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=cost$"))


def test_headings_sort_and_no_box_selects_all_without_javascript(private_site: Site, open_page: OpenPage) -> None:
    private_site.payer("inv-1")
    page = open_page("alice", private_site, java_script_enabled=False, viewport={"width": 1366, "height": 768})
    page.goto("/sessions/")
    expect(page.get_by_role("checkbox", name="Select all sessions on this page")).to_be_hidden()
    page.get_by_role("columnheader", name="Updated").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/sessions/\?sort=updated-asc$"))
