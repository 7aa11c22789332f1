"""Two people at one call, fifty calls lost at once, a keyboard, a phone, no JavaScript."""

import re

import pytest
from playwright.sync_api import Page, Response, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support import axe, interrupted_calls
from tests.support.browser import Watch
from tests.support.page_overflow import sticking_out
from tests.support.site_process import Site

WHY = "The carrier's list says so."
#: What the desktop would show: the browser's own notifications cannot be seen from outside.
SHOWN = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, options) { super(); window.shown.push(`${title} ${options.body}`); }
};
"""
PHONE = {"width": 360, "height": 740}


@pytest.fixture
def parcels(own_site: Site) -> Site:
    interrupted_calls.lose(own_site, 50)
    return own_site


def group(page: Page) -> None:
    """Wait for what stands above the list."""
    expect(page.get_by_role("link", name="50 calls of ship_parcel interrupted by one outage")).to_be_visible()


def listen(page: Page) -> list[Response]:
    """The answers that the page gets from now on."""
    heard: list[Response] = []
    page.on("response", lambda response: heard.append(response))
    return heard


def until_told(page: Page, heard: list[Response], words: str) -> None:
    """Until the card on the page was sent with those words, shown or not."""
    while not any("?seen=" in response.url and words in response.text() for response in heard):
        page.wait_for_event("response")


def test_two_people_see_each_other_at_a_call(site: Site, start_agent: StartAgent, visit: Visit, order: int) -> None:
    start_agent(site, order)
    alice, bob = visit("alice"), visit("bob")
    for page in (alice, bob):
        page_actions.open_card(page, order)
    expect(alice.get_by_text("Also open for: bob")).to_be_visible()

    alice.keyboard.press("c")
    expect(alice.get_by_text("Claimed by you", exact=True)).to_be_visible()
    expect(bob.get_by_text(re.compile(r"^Claimed by alice since \d\d:\d\d:\d\d$"))).to_be_visible()
    bob.get_by_role("button", name="Take over").click()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_be_visible()
    expect(alice.get_by_text(re.compile(r"^Claimed by bob since"))).to_be_visible()

    page_actions.fill(alice, "It did not happen", WHY)
    page_actions.record(alice, "It did not happen")
    expect(bob.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_have_count(0)


def test_an_answer_comes_when_its_button_is_gone(
    site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch], order: int
) -> None:
    """The page hears of the claim, and is renewed, before the click that made it is answered."""
    start_agent(site, order)
    alice, bob = visit("alice"), visit("bob")
    # Where the late answer and an update meet, the library of the swaps may warn; nothing is kept twice, as seen below.
    watches[1].expect("duplicate ids found during morph")
    for page in (alice, bob):
        page_actions.open_card(page, order)
    alice.keyboard.press("c")
    late: list[Route] = []
    bob.route("**/claim/", lambda route: late.append(route))
    button = bob.get_by_role("button", name="Take over")
    button.evaluate("button => { window.pressed = button; }")
    with bob.expect_request("**/claim/"):
        button.click()
    answer = late[0].fetch()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_be_visible()
    assert not bob.evaluate("window.pressed.isConnected")

    late[0].fulfill(response=answer)
    bob.get_by_role("button", name="Release").click()
    expect(bob.get_by_role("button", name="Claim")).to_be_visible()
    expect(bob.locator("#people")).to_have_count(1)


def test_a_click_reaches_what_it_began_on(site: Site, start_agent: StartAgent, visit: Visit, order: int) -> None:
    """Between press and release the session ends, and what the card says of that would move the link away."""
    agent = start_agent(site, order, pace=0.7)
    page = visit("alice")
    page_actions.open_card(page, order)
    page_actions.fill(page, "It did not happen", WHY)
    page_actions.record(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    heard = listen(page)
    link = page.get_by_role("link", name="Open session", exact=True)
    link.hover()
    page.mouse.down()
    expect(page_actions.finished(page)).to_be_hidden()
    agent.wait()
    until_told(page, heard, "The session is completed with this result:")
    expect(page_actions.finished(page)).to_be_hidden()

    page.mouse.up()
    page.wait_for_url("**/sessions/*/")


def test_what_waited_for_a_press_comes_with_the_release(
    site: Site, start_agent: StartAgent, visit: Visit, order: int
) -> None:
    start_agent(site, order)
    alice, bob = visit("alice"), visit("bob")
    for page in (alice, bob):
        page_actions.open_card(page, order)
    decided = alice.get_by_role("heading", level=1, name="Decided: it did not happen")
    page_actions.reason(alice).focus()
    alice.get_by_role("heading", level=1).hover()
    heard = listen(alice)
    alice.mouse.down()
    page_actions.fill(bob, "It did not happen", WHY)
    page_actions.record(bob, "It did not happen")
    until_told(alice, heard, "Decided: it did not happen")
    expect(decided).to_be_hidden()
    alice.mouse.up()
    expect(decided).to_be_visible()


def test_fifty_interruptions_by_keyboard(parcels: Site, visit: Visit) -> None:
    page = visit("alice", parcels)
    page.goto("/review/")
    group(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="50 of 50 calls need a decision")).to_be_visible()
    page.keyboard.press("s")
    page.keyboard.type(WHY)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="10 of 50 calls need a decision")).to_be_visible()
    expect(page.get_by_label("Outcome").get_by_text("It happened", exact=True)).to_have_count(40)

    page.keyboard.press("j")
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="It did not happen")).to_be_checked()
    page_actions.reason(page).fill(WHY)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()


def test_an_outage_on_a_phone_and_for_everybody(parcels: Site, visit: Visit) -> None:
    page = visit("alice", parcels, viewport=PHONE)
    page.goto("/review/?sort=risk")
    page.get_by_text("Filter and sort").click()
    assert axe.violations(page) == []
    page.get_by_role("link", name="50 calls of ship_parcel interrupted by one outage").click()
    expect(page.get_by_role("button", name="Decide 40 calls by their evidence")).to_be_visible()
    assert axe.violations(page) == []
    assert sticking_out(page) == []


def test_an_outage_without_javascript(parcels: Site, visit: Visit) -> None:
    page = visit("alice", parcels, java_script_enabled=False)
    page.goto("/review/")
    page.get_by_role("link", name="50 calls of ship_parcel interrupted by one outage").click()
    page.get_by_role("region", name="2. Decide by late results").get_by_role("textbox").fill(WHY)
    page.get_by_role("button", name="Decide 40 calls by their evidence").click()
    expect(page.get_by_role("heading", level=1, name="10 of 50 calls need a decision")).to_be_visible()
    page.get_by_role("link", name="Ship parcel 0", exact=True).click()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("Claimed by you", exact=True)).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("button", name="Claim")).to_be_visible()


def test_the_desktop_tells_of_an_outage_once_and_only_who_wants_it(own_site: Site, visit: Visit) -> None:
    pages = [visit(name, own_site) for name in ("alice", "bob")]
    for page in pages:
        page.add_init_script(SHOWN)
        page.goto("/review/")
    pages[0].get_by_role("button", name="Notify me while a page is open").click()
    expect(pages[0].get_by_role("button", name="Turn off notifications")).to_have_attribute("aria-pressed", "true")
    interrupted_calls.lose(own_site, 50)
    for page in pages:
        group(page)
        expect(page).to_have_title(re.compile(r"^\(50\) "))
        expect(page.locator("#favicon")).to_have_attribute("href", re.compile("favicon-many"))
    pages[0].wait_for_function("window.shown.some((one) => !one.startsWith('Did this'))")
    told = ["Calls of ship_parcel were interrupted by one outage Their outcome is unknown."]
    assert [page.evaluate("window.shown.filter((one) => !one.startsWith('Did this'))") for page in pages] == [told, []]
