"""Search, labels, saved views, comparison and export of sessions, by keyboard and without JavaScript."""

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from harness_site.core.streamed_downloads import JSONL
from tests.e2e.conftest import OpenPage
from tests.support.axe import list_accessibility_violations
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.long_session import make_long_session_in_child
from tests.support.site_process import Site

#: Words that each session contains, in calls and their messages.
SEARCH_WORDS = "refund_card order 18"


@pytest.fixture(scope="session")
def equal_sessions(site: Site) -> list[str]:
    """Paths of two sessions with equal transcripts."""
    names = ("audited", "audited-again")
    return [f"/sessions/{site.run(make_long_session_in_child, count=120, session_id=name)}/" for name in names]


def search(page: Page, address: str, text: str, sessions: list[str]) -> None:
    """Search for a text until the index, which a background thread builds, contains the sessions."""
    for _ in range(100):
        page.goto(address)
        page.get_by_label("Text in messages").fill(text)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("q="))
        if all(page.locator(f"#session-{session.split('/')[2]}").count() for session in sessions):
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"{text} is not found.")


def test_search_result_is_opened_and_copied_by_keyboard(open_page: OpenPage, equal_sessions: list[str]) -> None:
    page, passage = open_page("carol"), f'.match-list a[href^="{equal_sessions[0]}?at=16&"]'
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    search(page, "/sessions/?first=2025-03-04&last=2025-03-04", "lamp of order 16", equal_sessions)
    results = page.url
    assert re.findall(r"[?&](\w+)=", results) == [
        "q",
        "first",
        "last",
        "zone",
    ]  # of the filters, only those with a value
    # The index may have the session before this message.
    for _ in range(100):
        if page.locator(passage).count():
            break
        page.wait_for_timeout(200)
        page.reload()
    page.locator(passage).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"find=.*#m-16$"))
    expect(page.locator("#m-16").locator("mark", has_text="lamp").first).to_be_in_viewport()
    message = page.locator("#m-18")
    message.get_by_role("button", name="Copy arguments").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#announcement")).to_have_text("Copied.")
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == {"amount": "40.00", "order": 18}

    # Without the clipboard interface, as on pages served without HTTPS, the page selects and copies the text.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    message.get_by_role("button", name=re.compile("^Copy message")).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#announcement")).to_have_text("Copied.")
    expect(message.get_by_role("button", name=re.compile("^Copy message"))).to_be_focused()
    assert list_accessibility_violations(page) == []
    page.go_back()
    expect(page).to_have_url(results)
    page.goto("/calls/?tool=refund_card&first=2025-03-04&last=2025-03-04")
    assert list_accessibility_violations(page) == []


@only_exhaustive
def test_labels_and_saved_views_without_javascript(open_page: OpenPage, equal_sessions: list[str]) -> None:
    page = open_page("alice", java_script_enabled=False)
    search(page, "/sessions/", SEARCH_WORDS, equal_sessions)
    page.goto("/sessions/?first=2025-03-04&last=2025-03-04&agent=refund-desk")
    for address in equal_sessions:
        page.locator(f"#pick-{address.split('/')[2]}").check()
    page.get_by_placeholder("Label").fill("tuesday")
    page.get_by_role("button", name="Add label").click()
    expect(page.get_by_role("link", name="tuesday", exact=True)).to_have_count(2)
    place = page.locator("#sessions").bounding_box()
    page.get_by_text("Save this view for the team").click()
    page.get_by_label("Name of the view").fill("On Tuesday")
    assert page.locator("#sessions").bounding_box() == place, "the form does not move the list"
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("link", name="On Tuesday")).to_have_attribute("aria-current", "page")
    page.locator("summary", has_text="Change this view").click()
    page.get_by_text("Delete this view").click()
    page.get_by_role("button", name="Delete view").click()
    page.locator(f'a[data-row][href^="{equal_sessions[0]}"]').click()
    expect(page).to_have_url(re.compile(r"at=0#m-0$"))
    expect(page.get_by_role("button", name=re.compile("^Copy")).first).to_be_hidden()
    page.get_by_role("link", name="Timeline", exact=True).click()
    expect(page.get_by_role("table").first).to_contain_text("refund_card")


@only_exhaustive
@pytest.mark.parametrize("locale", mark_all_but_each(2, ["de-DE", "en-US"]))
def test_session_of_a_list_takes_three_lines_on_a_phone(
    open_page: OpenPage, equal_sessions: list[str], locale: str
) -> None:
    page = open_page("alice", viewport={"width": 390, "height": 844}, locale=locale)
    page.goto("/sessions/?first=2025-03-04&last=2025-03-04&agent=refund-desk")
    row = page.locator(f"#session-{equal_sessions[0].split('/')[2]}")
    parts = ("a[data-row]", ".time-cell", "th code", ".chip")
    boxes = [row.locator(part).bounding_box() for part in parts]
    title, time, name, chip = [box for box in boxes if box is not None]
    assert row.evaluate("row => row.offsetHeight") <= 92
    assert abs(title["y"] - time["y"]) <= 4
    assert title["x"] + title["width"] <= time["x"]
    assert title["y"] + title["height"] <= name["y"] + 4
    assert name["y"] + name["height"] <= chip["y"] + 4
    expect(row.get_by_role("checkbox")).to_be_hidden()
    page.locator("#select-mode").check()
    expect(row.get_by_role("checkbox")).to_be_visible()
    page.set_viewport_size({"width": 320, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@only_exhaustive
def test_expanded_comparison_is_kept_on_back_and_reload(open_page: OpenPage, equal_sessions: list[str]) -> None:
    page = open_page("carol")
    page.goto(f"{equal_sessions[0]}compare/?a=1&b=2")
    page.get_by_text("Another session").click()
    choices = page.locator("#session-choices")
    page.get_by_label("Id or title of a session").press_sequentially("no such session")
    expect(choices).to_contain_text("No other session has these words")
    page.get_by_label("Id or title of a session").fill("audited-again")
    choices.get_by_role("link", name="audited-again").click()
    expect(page.locator(".comparison-head h2")).to_contain_text("audited-again")
    page.get_by_role("link", name="show the first 50 here").click()
    expect(page).to_have_url(re.compile(r"with=\d+&open=0#m-0$"))
    expect(page.locator("#m-48")).to_have_count(1)
    page.reload()
    expect(page.locator("#m-48")).to_have_count(1)
    page.locator("#m-7 a").first.click()
    expect(page).to_have_url(re.compile(r"at=7#m-7$"))
    page.go_back()
    expect(page.locator("#m-48")).to_have_count(1)
    assert list_accessibility_violations(page) == []


def choose_in_export_menu(page: Page, name: str) -> None:
    """Click a link of the menu, which a click outside of it closes."""
    link = page.get_by_role("link", name=re.compile(f"^{name}"))
    if not link.is_visible():
        page.get_by_text("Export", exact=True).click()
    link.click()


def test_export_shows_progress_and_can_be_stopped(
    open_page: OpenPage, page_monitors: list[PageMonitor], equal_sessions: list[str]
) -> None:
    page = open_page("dora")
    page_monitors[-1].ignore("status of 403")  # the session file, as long as secrets are masked
    page.goto(equal_sessions[0])
    export = page.get_by_role("group", name="Export")
    pending_routes: list[Route] = []
    page.route("**/export/jsonl/", lambda route: pending_routes.append(route))
    with page.expect_request("**/export/jsonl/"):
        choose_in_export_menu(page, "Records")
    expect(export.get_by_role("status")).to_have_text("Export: reading …")
    export.get_by_role("button", name="Stop").click()
    expect(export.get_by_role("status")).to_have_text("The export was stopped. Nothing was saved.")
    export.get_by_role("button", name="Close").click()
    expect(export).to_have_count(0)
    page.unroute("**/export/jsonl/")

    headers = {"Content-Disposition": 'attachment; filename="s.jsonl"', "Harness-Ending": JSONL.ending}
    page.route("**/export/jsonl/", lambda route: route.fulfill(headers=headers, body=JSONL.failed))
    choose_in_export_menu(page, "Records")
    expect(export.get_by_role("status")).to_have_text("The export broke off. Nothing was saved.")
    export.get_by_role("button", name="Close").click()
    page.unroute("**/export/jsonl/")

    for name, ending in (("Records", "jsonl"), ("Page to read offline", "html")):
        with page.expect_download() as download:
            choose_in_export_menu(page, name)
        file_name = download.value.suggested_filename
        assert re.fullmatch(rf"audited-v\d+\.{ending}", file_name)
        expect(export.get_by_role("status")).to_have_text(re.compile(rf"^{re.escape(file_name)} is saved, \d+ KB\.$"))
        export.get_by_role("button", name="Close").click()
    choose_in_export_menu(page, "Session file")
    expect(page.get_by_role("heading", name="The session file contains secrets")).to_be_visible()
