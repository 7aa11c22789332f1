"""Display settings: time zone, theme and fonts."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.test_live_call_list import log_call
from tests.support.axe import list_accessibility_violations
from tests.support.site_process import Site

IS_LOCAL_TIME = """() => {
  const time = document.querySelector("time[data-time='at']");
  return time.textContent.endsWith(new Date(time.dateTime).toLocaleTimeString("en-GB")) && time.title.endsWith(" UTC");
}"""
HAS_SITE_FONT = """() => document.fonts.ready.then((fonts) =>
  [...fonts].some((font) => font.status === "loaded" && font.family.includes("Inter")))"""
BACKGROUND_COLOR = "() => getComputedStyle(document.body).backgroundColor"


def test_user_changes_time_zone_and_theme(open_page: OpenPage) -> None:
    page = open_page("carol", timezone_id="Asia/Tokyo", color_scheme="light")
    page.goto("/audit/")
    page.reload()  # the first page has reported the time zone of the browser
    assert page.evaluate(IS_LOCAL_TIME)
    expect(page.get_by_text("Times are in Asia/Tokyo.")).to_be_visible()
    assert page.evaluate(HAS_SITE_FONT)
    page.goto("/accounts/display/")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_label("Theme").select_option("dark")
    light = page.evaluate(BACKGROUND_COLOR)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Times on the pages are in Europe/Berlin now.")).to_be_visible()
    assert page.evaluate(BACKGROUND_COLOR) != light
    assert list_accessibility_violations(page) == []
    page.goto("/overview/?period=24h")
    assert list_accessibility_violations(page) == []
    page.goto("/overview/?first=2026-03-02&last=2026-03-01")
    expect(page.get_by_role("alert")).to_contain_text("Swap the two days")


def test_times_are_those_of_the_browser_before_any_script_runs(open_page: OpenPage, private_site: Site) -> None:
    page = open_page("carol", private_site, timezone_id="Asia/Kolkata")
    address = log_call(private_site, "followed", "call_1", "pears")
    page.goto(address)  # names the time zone of this browser
    response = page.goto(address)
    assert response is not None
    times = re.findall(r'<time [^>]*datetime="([^"]+)" title="([^"]+)" data-time="at">([^<]+)</time>', response.text())
    assert times
    for moment, exact, text in times:
        utc = datetime.fromisoformat(moment)
        assert exact == f"{utc:%Y-%m-%d %H:%M:%S} UTC"
        assert text.endswith(f"{utc.astimezone(ZoneInfo('Asia/Kolkata')):%H:%M:%S}")
    page.wait_for_load_state("networkidle")
    assert page.locator("time[data-time='at']").all_inner_texts() == [text for *_, text in times]


def test_printed_times_are_in_the_zone_that_the_page_names(open_page: OpenPage, private_site: Site) -> None:
    page = open_page("carol", private_site, timezone_id="Asia/Kolkata")
    address = log_call(private_site, "printed", "call_1", "pears")
    for _names_zone_of_browser in range(2):
        page.goto(address)
    page.emulate_media(media="print")
    expect(page.get_by_text("Printed by carol, as of")).to_contain_text("Asia/")
    kinds = "time:is([data-time=ago], [data-time=at])"
    printed = page.locator(kinds).evaluate_all("all => all.map(each => getComputedStyle(each, '::after').content)")
    assert printed
    assert not [time for time in printed if not time.endswith(' +05:30"')]
