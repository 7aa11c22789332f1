"""Times are in the time zone of the browser, the theme is the chosen one, and the typefaces come from the site."""

from playwright.sync_api import expect

from tests.e2e.conftest import Visit
from tests.support.axe import violations

LOCAL = """() => {
  const time = document.querySelector("time[data-time='at']");
  return time.textContent.endsWith(new Date(time.dateTime).toLocaleTimeString("en-GB")) && time.title.endsWith(" UTC");
}"""
FONTS = """() => document.fonts.ready.then((fonts) =>
  [...fonts].some((font) => font.status === "loaded" && font.family.includes("Inter")))"""
PAPER = "() => getComputedStyle(document.body).backgroundColor"


def test_the_reader_chooses_zone_and_theme(visit: Visit) -> None:
    page = visit("carol", timezone_id="Asia/Tokyo", color_scheme="light")
    page.goto("/audit/")
    page.reload()  # the first page has named the time zone
    assert page.evaluate(LOCAL)
    expect(page.get_by_text("Times are in Asia/Tokyo.")).to_be_visible()
    assert page.evaluate(FONTS)
    page.goto("/accounts/display/")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_label("Theme").select_option("dark")
    light = page.evaluate(PAPER)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Times on the pages are in Europe/Berlin now.")).to_be_visible()
    assert page.evaluate(PAPER) != light
    assert violations(page) == []
    page.goto("/overview/?period=24h")
    assert violations(page) == []
    page.goto("/overview/?first=2026-03-02&last=2026-03-01")
    expect(page.get_by_role("alert")).to_contain_text("Swap them.")
