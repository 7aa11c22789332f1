"""Accessibility and horizontal overflow of every page at several widths, of every second one in both themes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, SignInState
from tests.support import axe
from tests.support.browser import PageMonitor, monitored_context
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site, fresh_database

#: Path of each page by name, with placeholders for the keys of `sample_site`.
PAGES = {
    "review": "/review/",
    "review, filtered": "/review/?tool=refund_card",
    "review, decided": "/review/?tab=decided",
    "review, decided by people": "/review/?tab=decided&by=people&first=2026-01-01",
    "review, awaiting": "/review/?tab=awaiting",
    "review, approvals of one tool": "/review/approvals/?tool=pay_invoice&people=2",
    "card, one of two": "/review/calls/{awaiting_call}/",
    "card, rejected": "/review/calls/{rejected_call}/",
    "session, awaiting": "/sessions/{awaiting_session}/",
    "card, open": "/review/calls/{waiting_call}/",
    "card, decided": "/review/calls/{decided_call}/",
    "sessions": "/sessions/",
    "sessions, found": "/sessions/?q=cracked+shade",
    "sessions, narrowed": "/sessions/?tool=refund_card&sort=cost&least=0",
    "overview": "/overview/",
    "overview, 24 hours": "/overview/?period=24h",
    "interrupted calls": "/calls/?interrupted=1",
    "session": "/sessions/{session}/",
    "session, waiting": "/sessions/{waiting_session}/",
    "session, earlier": "/sessions/{session}/?v=3",
    "message": "/sessions/{session}/messages/1/",
    "timeline": "/sessions/{session}/timeline/",
    "timeline, waiting": "/sessions/{waiting_session}/timeline/",
    "versions": "/sessions/{session}/versions/",
    "fork": "/sessions/{session}/fork/?v=3",
    "fork, undecided": "/sessions/{waiting_session}/fork/",
    "compare": "/sessions/{session}/compare/?a=2&b=7",
    "compare, unfolded": "/sessions/{session}/compare/?a=2&b=7&open=0",
    "calls": "/sessions/{session}/calls/",
    "call": "/sessions/{session}/calls/{decided_call}/",
    "plan": "/sessions/{session}/plan/",
    "history": "/sessions/{session}/history/",
    "no such session": "/sessions/999999/",
    "no such version": "/sessions/{session}/?v=999",
    "no such page": "/nowhere/",
}


#: Pages that answer with status 404.
NOT_FOUND_PAGES = tuple(name for name in PAGES if name.startswith("no such"))


#: Pages with the same parts as another one, for other values.
VARIANTS = (
    "review, filtered",
    "review, decided by people",
    "review, awaiting",
    "session, awaiting",
    "sessions, narrowed",
    "overview, 24 hours",
    "session, earlier",
    "timeline",
    "fork",
    "compare",
    "no such session",
    "no such version",
)


#: Adds the bars of a chart to a page; the sample has too few values for one.
BARS = """() => document.getElementById("main").insertAdjacentHTML("beforeend", `
  <figure class="plot"><svg viewBox="0 0 700 160">
    <a href="#one" aria-label="Tue 10 Nov: 1 new; 0 paused, idle"><rect class="hit-area" width="350" height="160"/></a>
    <a href="#two" aria-label="14:00: 2 started"><rect class="hit-area" x="350" width="350" height="160"/></a>
  </svg></figure>`)"""


#: Returns by how much the page is longer while a part of it is open.
HEIGHT_OF_OPEN_PART = """part => {
  const heights = [false, true].map(open => { part.open = open; return document.documentElement.scrollHeight; });
  return heights[1] - heights[0];
}"""


@dataclass(frozen=True)
class SampleSite:
    """Site with a completed session, a session that needs a decision, and two payments that need approvals."""

    site: Site
    keys: dict[str, str]

    def path(self, name: str) -> str:
        return PAGES[name].format(**self.keys)


@pytest.fixture(scope="module")
def sample_site(
    browser: Browser, sign_in_state: SignInState, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SampleSite]:
    folder = tmp_path_factory.mktemp("scene")
    with (
        fresh_database(folder, template_database) as database,
        Site(database, folder, forked=True) as site,
        monitored_context(browser, site.address, storage_state=sign_in_state(site, "alice")) as (context, _),
    ):
        yield SampleSite(site, _create_decided_sessions(context.new_page(), site))


def _create_decided_sessions(page: Page, site: Site) -> dict[str, str]:
    """Run the agents and record decisions; return the keys in the paths of the pages."""
    agent = site.agent(17)
    page_actions.open_refund_card(page, 17)
    page_actions.fill_in_decision(page, "Run it once more", "Not in the books of the card processor.")
    page_actions.record_decision(page, "Run it once more")
    agent.wait()
    keys = {"decided_call": _key_in_url(page, "calls")}
    page.get_by_role("link", name="Open session", exact=True).click()
    page.wait_for_url("**/sessions/*/")
    keys["session"] = _key_in_url(page, "sessions")
    site.agent(18)
    page_actions.open_refund_card(page, 18)
    keys["waiting_call"] = _key_in_url(page, "calls")
    page_actions.session_link(page).click()
    page.wait_for_url("**/sessions/*/")
    keys["waiting_session"] = _key_in_url(page, "sessions")
    return keys | _create_payments(page, site)


def _create_payments(page: Page, site: Site) -> dict[str, str]:
    """Create a payment with one of two approvals, a rejected one, and one without a decision; return the first keys."""
    keys = {}
    for name, answer in (("awaiting", "Approve"), ("rejected", "Reject")):
        site.payer(f"inv-{name}", "--approvals=2", "--decide-within=3600")
        page_actions.open_payment_card(page, f"inv-{name}")
        keys[f"{name}_call"] = _key_in_url(page, "calls")
        page_actions.choose_answer(page, answer)
        field = page.get_by_role("textbox", name="Why") if answer == "Reject" else page_actions.reason_field(page)
        field.fill("I have read the invoice.")
        page_actions.record_decision(page, answer)
        expect(page.get_by_text("I have read the invoice.").first).to_be_visible()
    other = site.payer("inv-open", "--approvals=2", "--decide-within=3600")
    page_actions.open_payment_card(page, "inv-open")
    other.stop()  # its call is still listed beside the first one
    page.goto(f"/review/calls/{keys['awaiting_call']}/")
    page_actions.session_link(page).click()
    page.wait_for_url("**/sessions/*/")
    return keys | {"awaiting_session": _key_in_url(page, "sessions")}


def _key_in_url(page: Page, segment: str) -> str:
    match = re.search(rf"/{segment}/(\d+)/", page.url)
    assert match, page.url
    return match.group(1)


@pytest.mark.begins_first
def test_pages_are_accessible_and_do_not_overflow(
    sample_site: SampleSite, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 1440, "height": 900})
    page_monitors[0].ignore("status of 404")
    names = [name for name in PAGES if name not in VARIANTS]
    problems = [
        problem for number, name in enumerate(names) for problem in list_problems(page, sample_site, name, number)
    ]
    assert not problems, "\n".join(problems)


@only_exhaustive
def test_variants_of_pages_are_accessible_and_do_not_overflow(
    sample_site: SampleSite, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 1440, "height": 900})
    page_monitors[0].ignore("status of 404")
    problems = [
        problem for number, name in enumerate(VARIANTS) for problem in list_problems(page, sample_site, name, number)
    ]
    assert not problems, "\n".join(problems)


def list_problems(page: Page, sample_site: SampleSite, name: str, number: int) -> list[str]:
    response = page.goto(sample_site.path(name))
    assert response
    assert response.status == (404 if name in NOT_FOUND_PAGES else 200)
    if name in NOT_FOUND_PAGES:
        expect(page.get_by_role("main").get_by_role("link").first).to_be_visible()
    titles, themes = page.get_by_role("heading", level=1).all_inner_texts(), axe.choose_themes(number)
    problems = [f"{name}: {violation}" for violation in axe.list_accessibility_violations(page, themes)]
    problems += [] if len(titles) == 1 else [f"{name}: main headings {titles}"]
    problems += [f"{name}, {overflow}" for overflow in overflowing_elements(page)]
    page.set_viewport_size({"width": 1440, "height": 900})
    return problems


def test_open_forms_do_not_overflow_horizontally(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 390, "height": 844})
    overflows = []
    for name, summary in (("session", "Labels"), ("overview", "Custom"), ("review, decided", "Filter")):
        page.goto(sample_site.path(name))
        page.get_by_text(summary, exact=True).click()
        overflows += [f"{name}, {overflow}" for overflow in overflowing_elements(page)]
    assert not overflows, "\n".join(overflows)


@only_exhaustive
def test_custom_period_opens_over_the_page(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 1366, "height": 768})
    page.goto(sample_site.path("overview"))
    page.get_by_text("Custom", exact=True).click()
    expect(page.get_by_label("From", exact=True)).to_be_visible()
    # In one step, because the page may be updated at any time.
    assert page.locator("details", has=page.get_by_label("From", exact=True)).evaluate(HEIGHT_OF_OPEN_PART) == 0
    page.keyboard.press("Escape")
    expect(page.get_by_label("From", exact=True)).to_be_hidden()


@only_exhaustive
def test_numbers_of_a_bar_are_shown_on_hover_and_on_focus(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site)
    page.goto(sample_site.path("overview"))
    page.evaluate(BARS)
    first, second = (page.locator(f".plot a[href='#{name}']") for name in ("one", "two"))
    tip = page.locator(".chart-tip")
    first.hover()
    assert tip.inner_text().split("\n") == ["Tue 10 Nov", "1 new", "0 paused, idle"]
    page.mouse.move(0, 0)  # where no other chart comes to lie when the page scrolls
    expect(tip).to_have_count(0)
    first.focus()
    page.keyboard.press("Tab")
    assert tip.inner_text().split("\n") == ["14:00", "2 started"]
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    expect(second).to_be_focused()


def test_session_list_fits_a_small_laptop(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 960, "height": 768})
    page.goto(sample_site.path("sessions"))
    assert page.evaluate("document.scrollingElement.scrollWidth") == 960


@only_exhaustive
def test_chosen_agent_is_applied_at_once_and_keeps_the_focus(
    sample_site: SampleSite, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", sample_site.site)
    page_monitors[0].ignore("htmx:(afterRequest|sendAbort)")  # a choice replaces a live update that is on its way
    page.goto(sample_site.path("overview, 24 hours"))
    agents = page.get_by_role("combobox", name="Agent")
    expect(page.locator(".of-agent button")).to_be_hidden()
    agents.focus()
    agents.select_option("refund-desk")
    page.wait_for_url("**/overview/?period=24h&agent=refund-desk")
    expect(agents).to_be_focused()
    expect(agents).to_have_value("refund-desk")
    agents.select_option(label="All agents")
    page.wait_for_url("**/overview/?period=24h")  # without an empty parameter


@only_exhaustive
def test_timeline_fits_a_phone(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 390, "height": 844})
    page.goto(sample_site.path("timeline, waiting"))
    expect(page.locator(".drawing.narrow .lost").last).to_be_in_viewport(ratio=1)
    expect(page.locator(".drawing.narrow .wait").last).to_be_in_viewport(ratio=0.9)


@only_exhaustive
def test_menu_of_tabs_on_a_phone_names_the_current_one(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 390, "height": 844})
    page.goto(sample_site.path("session"))
    tabs = page.get_by_role("navigation", name="Session")
    expect(tabs.get_by_role("link", name="History")).to_be_hidden()
    tabs.get_by_text("More", exact=True).click()
    tabs.get_by_role("link", name="History").click()
    page.wait_for_url("**/history/")
    expect(tabs.locator("summary")).to_have_text("History")
    expect(tabs.locator("summary")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("java_script", mark_all_but_each(2, [True, False]))
def test_menu_of_a_phone_has_the_other_pages(sample_site: SampleSite, open_page: OpenPage, java_script: bool) -> None:
    size = ViewportSize(width=390, height=844)
    page = open_page("alice", sample_site.site, java_script_enabled=java_script, viewport=size)
    page.goto(sample_site.path("sessions"))
    menu = page.get_by_role("navigation", name="Main")
    more = menu.get_by_role("button", name="More")
    more.press("Enter")
    expect(menu.get_by_role("link", name="Audit")).to_be_visible()
    if java_script:
        assert axe.list_accessibility_violations(page) == []
    page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Audit")).to_be_hidden()
    expect(more).to_be_focused()
    more.press("Enter")
    menu.get_by_role("link", name="Tool calls").press("Enter")
    expect(page.get_by_role("heading", level=1, name="Tool calls")).to_be_visible()


def test_decision_form_is_one_click_from_any_place_on_a_phone(sample_site: SampleSite, open_page: OpenPage) -> None:
    page = open_page("alice", sample_site.site, viewport={"width": 390, "height": 844})
    page.goto(sample_site.path("card, open"))
    to_form = page.get_by_role("link", name="Decide", exact=True)
    for top in (0, 100_000):
        page.evaluate(f"scrollTo(0, {top})")
        expect(to_form).to_be_in_viewport()
        to_form.click()
        expect(page.get_by_role("radio", name="It happened")).to_be_in_viewport()
        expect(page.get_by_role("button", name="Record decision")).to_be_in_viewport()
        expect(to_form).to_be_hidden()


def test_sign_in_page_has_no_accessibility_violations(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/accounts/login/")
    assert axe.list_accessibility_violations(page) == []
