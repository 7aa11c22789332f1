"""Pages of a session whose names are as long as names can be, in windows that a zoom of 200 % leaves."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.page_overflow import overflowing_elements
from tests.support.saved_transcripts import save_failed_calls, save_long_names
from tests.support.site_process import Site

#: Texts of the cells of a table that are not below the heading of their column, or reach out of the table's frame.
FIND_CELLS_OUTSIDE_COLUMNS = """(table) => {
  const right = (cell) => Math.round(cell.getBoundingClientRect().right);
  const heads = [...table.tHead.rows[0].cells].map(right);
  const frame = right(table.parentElement);
  return [...table.tBodies[0].rows].flatMap((row) => [...row.cells].filter((cell, column) =>
    cell.offsetWidth > 0 && (right(cell) !== heads[column] || right(cell) > frame))).map((cell) => cell.innerText);
}"""


@pytest.fixture
def long_names(site: Site, open_page: OpenPage) -> Page:
    """Open the card of a call with long names."""
    site.run(save_long_names)
    page = open_page("alice", viewport={"width": 683, "height": 384})
    page.goto("/review/?tab=awaiting")
    page.get_by_role("link", name="Order badge").first.click()
    expect(page.get_by_role("heading", name="May this happen?")).to_be_visible()
    return page


def test_long_names_fit_every_window(long_names: Page) -> None:
    page = long_names
    card = page.url
    session = page.get_by_role("main").locator("a[href^='/sessions/']").first.get_attribute("href") or ""
    overflows = []
    for path in (card, "/review/?tab=awaiting", "/calls/", session, f"{session}timeline/", f"{session}calls/"):
        page.goto(path)
        overflows += [f"{path}, {overflow}" for overflow in overflowing_elements(page)]
    assert not overflows, "\n".join(overflows)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/calls/")
    row = page.locator(".calls tbody tr").first.bounding_box()
    assert row is not None
    assert row["x"] + row["width"] <= 390


@only_exhaustive
def test_zoomed_page_shows_the_whole_menu(long_names: Page) -> None:
    for name in ("Audit", "Sign out"):
        expect(long_names.locator(".rail").get_by_text(name, exact=True)).to_be_in_viewport()
    path = long_names.locator(".crumbs").bounding_box()
    assert path is not None
    assert path["height"] < 60


def test_figures_of_agents_and_tools_stay_in_their_columns(site: Site, open_page: OpenPage) -> None:
    """One tool has too few calls for a share, and no agent states a cost."""
    site.run(save_failed_calls)
    page = open_page("alice")
    for width, height in ((1366, 768), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/overview/?period=24h")
        if width == 390:
            page.get_by_text("Agents, models and tools").click()
        for name in ("Cost by agent", "Tools that fail most"):
            table = page.get_by_role("region", name=name).get_by_role("table")
            expect(table).to_be_visible()
            assert table.evaluate(FIND_CELLS_OUTSIDE_COLUMNS) == [], f"{name}, {width} px wide"
