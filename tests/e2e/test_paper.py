"""Pages on paper: folds have their content, controls are left out, and boxes go on over the page."""

from playwright.sync_api import Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.site_process import Site

#: A4 without its margins, in CSS pixels.
SHEET_WIDTH = 688


def print_page(page: Page) -> None:
    """Show a page as it is printed."""
    page.set_viewport_size({"width": SHEET_WIDTH, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")


def test_paper_has_the_technical_details_of_a_decision(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    details = page.locator("#about details.raw")
    expect(details.get_by_text("Call id")).to_be_hidden()
    print_page(page)
    assert details.get_attribute("open") is None
    is_shown = "each => each.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})"
    for part in (details.locator("dt", has_text="Call id"), details.locator(".digest").first):
        assert part.evaluate(is_shown)
        assert part.evaluate("each => each.getBoundingClientRect().height") > 5
    # the arguments stand above, and are not printed twice
    assert page.locator("#about dl.kv:not(.raw dl)").first.evaluate(is_shown)
    expect(details.locator("pre")).to_be_hidden()
    for selector in (".copy", ".btn", ".withdraw form"):
        expect(page.locator(f".deciding {selector}").filter(visible=True)).to_have_count(0)
    for box in ("#about", ".context-messages .call >> nth=0"):
        assert page.locator(box).evaluate("each => getComputedStyle(each).boxDecorationBreak") == "clone"
    page.emulate_media(media="screen")
    expect(details.get_by_text("Call id")).to_be_hidden()


def test_paper_says_how_many_lines_of_a_long_fold_it_leaves_out(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    print_page(page)
    # in one step, because the page replaces what is not of the server
    measure = """isOpen => {
      const [fold, text] = ["details.raw", "details.raw pre"].map(each => document.querySelector(`#about ${each}`));
      fold.open = isOpen;
      text.classList.remove("not-on-paper");
      text.textContent = "line\\n".repeat(60);
      for (const event of ["afterprint", "beforeprint"]) window.dispatchEvent(new Event(event));
      return [getComputedStyle(text, "::after").content, text.getBoundingClientRect().height];
    }"""
    said, height = page.evaluate(measure, False)
    assert said == '"Not printed: 60 lines. Open this part on the page to print it."'
    assert height < 60
    said, height = page.evaluate(measure, True)
    assert said == "none"
    assert height > 600


def test_paper_has_the_wide_drawing_of_a_timeline(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    page_actions.session_link(page).click()
    page.get_by_role("link", name="Timeline", exact=True).click()
    drawings = page.locator("svg.drawing")
    expect(drawings.first).to_be_visible()
    print_page(page)
    expect(drawings.filter(visible=True).first).to_have_class("drawing wide")
    box = drawings.filter(visible=True).first.bounding_box()
    assert box is not None
    assert box["width"] > 0.9 * SHEET_WIDTH


def test_paper_of_the_audit_trail_has_details_and_filter_but_no_fields(site: Site, open_page: OpenPage) -> None:
    page = open_page("carol")
    page.goto("/audit/?actor=carol")
    print_page(page)
    expect(page.locator(".filter-form")).to_be_hidden()
    expect(page.get_by_text("Printed by carol, as of")).to_contain_text("/audit/?actor=carol ·")
    entry = page.locator("#entries > li", has=page.locator("details:not(.folded)")).first
    assert entry.locator("dd").first.evaluate("each => each.getBoundingClientRect().height") > 5
    expect(entry.locator("summary")).to_be_hidden()
