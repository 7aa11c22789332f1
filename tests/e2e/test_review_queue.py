"""The review queue: claims, live updates, and an outage of fifty calls, by keyboard, on a phone, without JavaScript."""

import re

import pytest
from playwright.sync_api import Page, Response, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support import axe, interrupted_calls
from tests.support.browser import LOST_REQUESTS, LOST_WEBSOCKET, PageMonitor
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site

REASON = "The carrier's list says so."
#: Records desktop notifications in `window.shown`, because a test cannot see those of the browser.
RECORD_NOTIFICATIONS = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, options) { super(); window.shown.push(`${title} ${options.body}`); }
};
"""
#: Refreshes the people at a call, as a report of a change of its session does.
TRIGGER_LIVE_UPDATE = (
    "htmx.trigger('body', document.getElementById('people').getAttribute('hx-trigger').match(/live:[^ ]+/)[0])"
)
#: Returns how many alerts two live updates insert, and how many heights the answers have meanwhile.
WATCH_LIVE_UPDATES = """async () => {
    const heights = new Set();
    let alerts = 0;
    let isOver = false;
    const isAlert = (node) => node.matches?.("[role='alert']") && node.textContent.includes("Nothing was recorded");
    new MutationObserver((changes) => {
        for (const { addedNodes } of changes) alerts += [...addedNodes].filter(isAlert).length;
    }).observe(document.body, { childList: true, subtree: true });
    const measure = () => {
        heights.add(document.querySelector(".send-several").offsetHeight);
        if (!isOver) requestAnimationFrame(measure);
    };
    measure();
    for (let update = 0; update < 2; update++) {
        const settled = new Promise((resolve) => {
            document.body.addEventListener("htmx:afterSettle", ({ target }) => target.id === "outage" && resolve());
        });
        htmx.trigger("body", "live:any");
        await settled;
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    }
    isOver = true;
    return [alerts, heights.size];
}"""
PHONE_VIEWPORT = {"width": 360, "height": 740}


@pytest.fixture
def parcel_site(private_site: Site) -> Site:
    interrupted_calls.interrupt_calls(private_site, 50)
    return private_site


def expect_outage_row(page: Page) -> None:
    """Wait for the row of the outage in the queue."""
    expect(page.get_by_role("link", name="50 calls of ship_parcel interrupted")).to_be_visible()


def open_outage(page: Page, number: int) -> None:
    """Open the outage of a number of calls from the queue, and wait for the scripts of its page."""
    page.get_by_role("link", name=f"{number} calls of ship_parcel interrupted").click()
    page.wait_for_url("**/review/outages/**")


def collect_responses(page: Page) -> list[Response]:
    """Return a list that collects the responses that the page receives from now on."""
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    return responses


def wait_for_card_text(page: Page, responses: list[Response], text: str) -> None:
    """Wait until the page has received its card with a text, displayed or not."""
    while not any("?seen=" in response.url and text in response.text() for response in responses):
        page.wait_for_event("response")


@only_exhaustive
def test_way_back_to_the_list_focuses_the_row_that_was_opened(parcel_site: Site, open_page: OpenPage) -> None:
    page = open_page("alice", parcel_site)
    page.goto("/review/?tab=interrupted&tool=ship_parcel")
    page.wait_for_load_state()
    for _ in range(4):
        page.keyboard.press("j")
    opened = page.locator("#queue a[data-row]").nth(3)
    expect(opened).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/review/calls/**")
    page.wait_for_load_state()
    page.keyboard.press("u")
    page.wait_for_url("**/review/?tab=interrupted&tool=ship_parcel")
    expect(opened).to_be_focused()
    page.goto("/review/?tab=interrupted&tool=ship_parcel")
    page.wait_for_load_state()
    expect(opened).not_to_be_focused()


def test_claim_and_presence_are_shown_to_another_reviewer(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    alice, bob = open_page("alice"), open_page("bob")
    for page in (alice, bob):
        page_actions.open_refund_card(page, order_number)
    expect(alice.get_by_text("bob has this page open too")).to_be_visible()
    button = bob.get_by_role("button", name="Record decision")
    position = button.bounding_box()

    alice.keyboard.press("c")
    expect(alice.get_by_text("Claimed by you", exact=True)).to_be_visible()
    claim = bob.get_by_text(re.compile(r"^Claimed by alice since \d\d:\d\d:\d\d\. You can still decide\.$"))
    expect(claim).to_be_visible()
    assert button.bounding_box() == position  # the form stays where it is while somebody fills it in
    bob.get_by_role("button", name="Take over").click()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_be_visible()
    expect(alice.get_by_text(re.compile(r"^Claimed by bob since"))).to_be_visible()

    page_actions.fill_in_decision(alice, "It did not happen", REASON)
    page_actions.record_decision(alice, "It did not happen")
    expect(bob.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_have_count(0)


def test_reader_who_leaves_the_page_is_not_shown_to_colleagues(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    alice, bob = open_page("alice"), open_page("bob")
    for page in (alice, bob):
        page_actions.open_refund_card(page, order_number)
    bob_is_present = alice.get_by_text("bob has this page open too")
    expect(bob_is_present).to_be_visible()
    bob.goto("/overview/")
    alice.wait_for_timeout(3000)  # much less than presence lasts without a heartbeat
    alice.reload()
    assert bob_is_present.count() == 0


def test_call_is_handed_over_beside_its_claim_and_this_can_be_undone(
    site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor], order_number: int
) -> None:
    """Live updates arrive before the response to the hand-over, or after it; the page states the same."""
    start_agent(site, order_number)
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    page_actions.open_refund_card(page, order_number)
    people = page.locator("#people")
    for _ in range(2):
        people.locator("summary").click()
        expect(people.get_by_label("Hand over to")).to_be_focused()
        people.get_by_label("Note").press("Control+Enter")
        expect(people.get_by_text("Choose who gets the call.")).to_be_visible()
        expect(people.get_by_label("Hand over to")).to_be_focused()
        people.get_by_label("Hand over to").select_option("bob")
        people.get_by_label("Note").fill("You know the customer.")
        people.get_by_role("button", name="Hand over").click()
        expect(people.get_by_text(re.compile(r"You handed this call to bob at \d\d:\d\d:\d\d\."))).to_be_visible()
        expect(people.locator("summary")).to_have_count(0)
        expect(page.locator("main :is(a[data-next], h1):focus")).to_be_visible()  # other tests may leave a next call
        people.get_by_role("button", name="Undo hand-over").click()
        expect(page.get_by_role("button", name="Claim", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Comments").get_by_role("listitem")).to_have_count(2)


@only_exhaustive
def test_response_arrives_after_its_button_was_replaced(
    site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor], order_number: int
) -> None:
    """The live update replaces the button before the response to its click arrives."""
    start_agent(site, order_number)
    alice, bob = open_page("alice"), open_page("bob")

    # The swap library may warn when the delayed response meets an update. The last line checks for duplicates.
    page_monitors[1].ignore("duplicate ids found during morph")
    for page in (alice, bob):
        page_actions.open_refund_card(page, order_number)
    alice.keyboard.press("c")
    delayed_routes: list[Route] = []
    bob.route("**/claim/", lambda route: delayed_routes.append(route))
    button = bob.get_by_role("button", name="Take over")
    button.evaluate("button => { window.pressed = button; }")
    with bob.expect_request("**/claim/"):
        button.click()
    response = delayed_routes[0].fetch()
    expect(bob.get_by_text("Claimed by you", exact=True)).to_be_visible()
    assert not bob.evaluate("window.pressed.isConnected")

    delayed_routes[0].fulfill(response=response)
    bob.get_by_role("button", name="Release").click()
    expect(bob.get_by_role("button", name="Claim")).to_be_visible()
    expect(bob.locator("#people")).to_have_count(1)


@only_exhaustive
def test_response_to_a_handover_arrives_after_its_form_was_replaced(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    """A live update changes the form, and the next one removes it before the response: its target is there once."""
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    people = page.locator("#people")
    people.locator("summary").click()
    people.get_by_label("Hand over to").select_option("bob")
    people.get_by_label("Note").fill("You know the customer.")
    delayed_routes: list[Route] = []
    page.route("**/hand-over/", lambda route: delayed_routes.append(route))
    with page.expect_request("**/hand-over/"):
        people.get_by_role("button", name="Hand over").click()
    with page.expect_response("**/present/"):
        page.evaluate(TRIGGER_LIVE_UPDATE)
    response = delayed_routes[0].fetch()
    expect(people.get_by_role("button", name="Undo hand-over")).to_be_visible()

    with page.expect_response("**/hand-over/"):
        delayed_routes[0].fulfill(response=response)
    expect(page.get_by_role("region", name="Comments").get_by_text("You know the customer.")).to_be_visible()
    expect(people).to_have_count(1)
    people.get_by_role("button", name="Undo hand-over").click()
    expect(page.get_by_role("button", name="Claim", exact=True)).to_be_visible()


def test_live_update_waits_until_the_click_has_ended(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    """The session ends while the mouse button is down; an update at that moment would move the link."""
    agent = start_agent(site, order_number, pace=0.7)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    page_actions.fill_in_decision(page, "It did not happen", REASON)
    page_actions.record_decision(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    responses = collect_responses(page)
    link = page.get_by_role("link", name="Open session", exact=True)
    link.hover()
    page.mouse.down()
    expect(page_actions.completion_notice(page)).to_be_hidden()
    agent.wait()
    wait_for_card_text(page, responses, "The session is completed with this result:")
    expect(page_actions.completion_notice(page)).to_be_hidden()

    page.mouse.up()
    page.wait_for_url("**/sessions/*/")


@only_exhaustive
def test_delayed_update_is_applied_when_the_mouse_button_is_released(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    alice, bob = open_page("alice"), open_page("bob")
    for page in (alice, bob):
        page_actions.open_refund_card(page, order_number)
    decided = alice.get_by_role("heading", level=1, name="Decided: it did not happen")
    page_actions.reason_field(alice).focus()
    alice.get_by_role("heading", level=1).hover()
    responses = collect_responses(alice)
    alice.mouse.down()
    page_actions.fill_in_decision(bob, "It did not happen", REASON)
    page_actions.record_decision(bob, "It did not happen")
    wait_for_card_text(alice, responses, "Decided: it did not happen")
    expect(decided).to_be_hidden()
    alice.mouse.up()
    expect(decided).to_be_visible()


@pytest.mark.begins_first
def test_outage_is_decided_by_keyboard(
    private_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    interrupted_calls.interrupt_calls(private_site, 20)  # of which four have no late result
    page = open_page("alice", private_site, reduced_motion="no-preference")
    page_monitors[0].ignore(f"{LOST_REQUESTS}|{LOST_WEBSOCKET}")
    page.goto("/review/")
    expect(page.get_by_role("link", name="20 calls of ship_parcel interrupted")).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_text("You are offline — showing the state at")).to_be_visible()
    page.context.set_offline(False)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name=": 20 calls need a decision")).to_be_visible()
    expect(page.get_by_text("16 happened, 0 did not")).to_be_visible()
    expect(page.locator("html")).to_have_css("scroll-behavior", "auto")  # a moving button would miss a click
    page.wait_for_load_state()  # the scripts of a page run after its text is displayed
    page.keyboard.press("s")
    page.keyboard.type(REASON)
    page.context.set_offline(True)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Decide by late results").get_by_text("You are offline.")).to_be_visible()
    page.context.set_offline(False)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="4 of 20 calls need a decision")).to_be_focused()
    expect(page.get_by_label("Outcome").get_by_text("It happened", exact=True)).to_have_count(16)

    page.keyboard.press("3")  # chooses the first call, and answers nothing yet
    page.keyboard.press("2")
    answers = page.locator("li .answer select")
    expect(answers.first).to_have_value("mark_failed")
    row = page.get_by_role("link", name="Ship parcel 0", exact=True)
    expect(row).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Reason: Ship parcel 0")).to_be_focused()
    page.keyboard.press("Escape")
    expect(row).to_be_focused()
    page.keyboard.press("Control+Enter")  # records the answer instead of opening the call
    expect(page.get_by_text("Nothing was recorded. Correct the marked fields")).to_be_visible()
    assert len(page.context.pages) == 1
    expect(page.get_by_label("Reason: Ship parcel 0")).to_be_focused()
    page.keyboard.type(REASON)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="3 of 20 calls need a decision")).to_be_focused()

    page.keyboard.press("j")
    page.keyboard.press("2")
    page.keyboard.press("j")  # no text
    page.keyboard.press("a")
    expect(page.get_by_label("Answer for all")).to_be_focused()
    page.keyboard.type("run it 3 times")  # a text chooses no answer, neither by its letters nor by its digit
    expect(page.get_by_label("Answer for all")).to_have_value("")
    expect(page.get_by_text("What you typed was ignored")).to_be_visible()
    page.wait_for_timeout(1100)  # after this rest, keys choose answers again
    page.keyboard.press("3")
    expect(page.get_by_text("What you typed was ignored")).to_be_hidden()
    expect(page.get_by_label("Answer for all")).to_have_value("approve_rerun")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Evidence for all")).to_be_focused()
    expect(page.get_by_role("button", name="Record 3 decisions")).to_be_visible()
    expect(page.get_by_text("1 did not happen · 2 run once more")).to_be_visible()
    answers.first.select_option("as for all")
    for label, text in (("Evidence for all", "The carrier's list"), ("Reason for all", REASON)):
        page.get_by_label(label).fill(text)
    expect(page.get_by_role("button", name="Approve 3 more runs")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="all 20 calls are decided")).to_be_visible()


@only_exhaustive
def test_focus_after_a_decision_is_on_the_title_if_the_live_update_is_faster_than_the_response(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.interrupt_calls(private_site, 11)  # of which three have no late result
    page = open_page("alice", private_site)
    page.goto("/review/")
    open_outage(page, 11)
    page.evaluate("htmx.config.defaultSettleDelay = 2000")  # milliseconds from a swap to its focus
    delayed_routes: list[Route] = []
    page.route("**/review/outages/decide/", lambda route: delayed_routes.append(route))
    page.get_by_label("Answer: Ship parcel 0").select_option("It did not happen")
    page.get_by_label("Evidence: Ship parcel 0").fill("Not in the carrier's list")
    page.get_by_label("Reason: Ship parcel 0").fill(REASON)
    page.get_by_role("link", name="Ship parcel 0", exact=True).focus()
    with page.expect_request("**/review/outages/decide/"):
        page.keyboard.press("Control+Enter")
    expect(page.get_by_role("button", name="Record that 1 call did not happen")).to_be_disabled()
    with page.expect_response("**/review/outages/?**"):
        response = delayed_routes[0].fetch(max_redirects=0)

    delayed_routes[0].fulfill(response=response)
    expect(page.get_by_role("heading", level=1, name="10 of 11 calls need a decision")).to_be_focused()
    expect(page.get_by_label("Outcome").get_by_text("1 decision recorded")).to_be_visible()


def test_outage_on_a_phone_is_accessible_and_its_form_survives_errors_and_a_dead_server(
    parcel_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", parcel_site, viewport=PHONE_VIEWPORT)
    page.goto("/review/?sort=risk")
    filters = page.get_by_text("Filter and sort")
    place = filters.bounding_box()
    filters.click()
    expect(page.get_by_label("Tool", exact=True)).to_be_visible()
    assert filters.bounding_box() == place
    assert axe.list_accessibility_violations(page) == []
    open_outage(page, 50)
    expect(page.get_by_role("button", name="Decide 40 calls by their late results")).to_be_visible()
    # The bar at the lower edge covers what is behind it; a link that it covers in part would count as too small.
    page.locator(".send-several").evaluate("bar => { bar.style.position = 'static'; }")
    assert axe.list_accessibility_violations(page) == []
    assert overflowing_elements(page) == []

    page_monitors[0].ignore(f"status of 422|{LOST_REQUESTS}")
    by_evidence = page.get_by_role("region", name="Decide by late results")
    by_evidence.get_by_role("textbox").fill("Seen in the list of parcels.")
    others = page.get_by_role("region", name="Decide the others yourself")
    # Before an answer is chosen or in sight, a link in place of the button leads past the calls to the answer for all.
    expect(others.get_by_role("link", name="Answer for all")).to_be_visible()
    others.get_by_label("Answer for all").scroll_into_view_if_needed()
    expect(others.get_by_role("button", name="Record these decisions")).to_be_visible()
    expect(others.get_by_role("link", name="Answer for all")).to_be_hidden()
    page.evaluate("scrollTo(0, 0)")
    comes_after = "(field) => Boolean(field.compareDocumentPosition(document.querySelector('.for-all')) & 4)"
    assert others.locator("li .answer").first.evaluate(comes_after)
    others.get_by_label("Answer: Ship parcel 0").select_option("It did not happen")
    expect(others.get_by_role("link", name="Answer for all")).to_be_hidden()
    others.get_by_role("button", name="Record that 1 call did not happen").click()
    problem = others.get_by_text("Nothing was recorded. Correct the marked fields")
    expect(others.locator(".errorlist")).to_have_count(1)
    first_error = problem.get_by_role("link", name="Show the first error")
    expect(first_error).to_have_attribute("href", re.compile(r"^#id_call-\d+-reason$"))
    for answer_for_all, errors in (("It happened", 1), ("leave undecided", 0)):  # a reason counts for its own answer
        others.get_by_label("Answer for all").select_option(answer_for_all)
        others.get_by_label("Reason for all").fill(REASON)
        expect(others.locator(".errorlist")).to_have_count(errors)
    expect(others.locator("[aria-invalid]")).to_have_count(0)
    expect(problem).to_have_count(0)

    page.route("**/review/outages/decide/", lambda route: route.abort())
    others.get_by_role("button", name="Record that 1 call did not happen").click()
    expect(others.get_by_text("We could not confirm that this was recorded.")).to_be_visible()
    expect(by_evidence.get_by_text("We could not confirm")).to_be_hidden()
    page.unroute("**/review/outages/decide/")
    page.reload()
    others.get_by_role("button", name="Record that 1 call did not happen").click()
    expect(page.get_by_role("heading", level=1, name="49 of 50 calls need a decision")).to_be_focused()
    expect(page.get_by_label("Outcome").get_by_text("It did not happen", exact=True)).to_have_count(1)
    expect(by_evidence.get_by_role("textbox")).to_have_value("Seen in the list of parcels.")


@only_exhaustive
def test_answer_for_all_calls_is_not_one_for_the_call_that_somebody_else_leaves_undecided(
    private_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    interrupted_calls.interrupt_calls(private_site, 11)  # of which three have no late result
    alice, bob = (open_page(name, private_site) for name in ("alice", "bob"))
    page_monitors[0].ignore("status of 422")
    for page, answer in ((alice, "Run it once more"), (bob, "It did not happen")):
        page.goto("/review/")
        open_outage(page, 11)
        page.get_by_label("Answer for all").select_option(answer)
        page.get_by_label("Evidence for all").fill("The carrier's list")
        page.get_by_label("Reason for all").fill(REASON)
    expect(alice.get_by_role("button", name="Approve 3 more runs")).to_be_visible()
    twice = alice.get_by_text("If the first one did happen, it happens twice.")
    expect(twice.locator("visible=true")).to_have_count(1)

    bob.get_by_label("Answer: Ship parcel 10").select_option("leave undecided")
    bob.get_by_role("button", name="Record that 2 calls did not happen").click()
    notice = "bob decided 2 calls meanwhile. One call is left. The answer for all was not carried over to it."
    expect(alice.get_by_text(notice)).to_be_visible()
    for reload in (lambda: None, alice.reload):
        reload()
        expect(alice.get_by_label("Answer", exact=True)).to_have_value("")
        expect(alice.get_by_label("Evidence optional")).to_have_value("The carrier's list")
        expect(alice.get_by_label("Reason required, recorded with your name", exact=True)).to_have_value(REASON)
        expect(alice.get_by_role("button", name="Record decision")).to_be_visible()
    expect(twice.locator("visible=true")).to_have_count(0)
    alice.get_by_role("button", name="Record decision").click()
    expect(alice.get_by_text("Choose an answer.").first).to_be_visible()
    alice.get_by_label("Answer", exact=True).select_option("Run it once more")
    expect(twice.locator("visible=true")).to_have_count(1)
    alice.get_by_role("button", name="Approve 1 more run").click()
    expect(alice.get_by_label("Outcome").get_by_text("1 decision recorded")).to_be_visible()
    expect(bob.get_by_role("heading", level=1, name="8 of 11 calls need a decision")).to_be_visible()
    expect(bob.get_by_text("alice decided 1 call meanwhile.")).to_be_visible()  # where no form is left for other calls


def test_draft_of_an_outage_comes_back_with_its_button_and_total_and_can_be_discarded(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.interrupt_calls(private_site, 11)  # of which three have no late result
    page = open_page("alice", private_site)
    page.goto("/review/")
    open_outage(page, 11)
    note = page.get_by_text("Your draft is back")
    page.get_by_label("Answer: Ship parcel 0").select_option("It did not happen")
    page.get_by_label("Answer for all").select_option("Run it once more")
    page.get_by_label("Reason for all").fill(REASON)
    outage = page.url
    expect(note).to_be_hidden()
    for reopen in (
        page.reload,
        lambda: (page.goto("/review/"), page.goto(outage)),
        lambda: (page.goto("/review/"), page.go_back()),
    ):
        reopen()
        expect(note).to_be_visible()
        expect(page.get_by_label("Answer for all")).to_have_value("approve_rerun")
        expect(page.get_by_role("button", name="Record 3 decisions")).to_be_visible()
        expect(page.get_by_text("1 did not happen · 2 run once more")).to_be_visible()

    page.get_by_role("button", name="Discard").click()
    for reload in (lambda: None, page.reload):
        reload()
        expect(page.get_by_role("button", name="Record these decisions")).to_be_visible()
        expect(page.get_by_label("Answer for all")).to_have_value("")
        expect(page.get_by_label("Reason for all")).to_have_value("")
        expect(note).to_be_hidden()


def test_selection_of_calls_comes_back_and_its_outcome_leaves_the_other_calls_in_sight(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.request_approvals(private_site, 20)
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    page.goto("/review/approvals/?tool=ship_parcel&people=1")
    for parcel in range(8):
        page.get_by_role("checkbox", name=f"Ship parcel {parcel}", exact=True).check()
    page.get_by_role("radio", name="Reject").check()
    page.reload()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(8)
    expect(page.get_by_role("button", name="Reject 8 calls")).to_be_visible()

    select_all = page.get_by_role("checkbox", name="Select all 20 calls")
    assert select_all.evaluate("box => [box.checked, box.indeterminate]") == [False, True]

    page.get_by_role("textbox", name="Reason").fill(REASON)
    page.get_by_role("button", name="Reject 8 calls").click()
    expect(page.get_by_text("8 decisions recorded")).to_be_visible()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(0)
    first = page.get_by_role("checkbox", name="Ship parcel 8", exact=True)
    bounds, bar = first.bounding_box(), page.locator(".send-several").bounding_box()
    assert bounds is not None
    assert bar is not None
    assert bounds["y"] + bounds["height"] < bar["y"]


def test_number_answers_for_the_selected_calls_from_everywhere_and_the_button_counts_the_unusual_ones(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.request_approvals(private_site, 12, high_amounts=2)
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    page.goto("/review/approvals/?tool=ship_parcel&people=1")
    page.wait_for_load_state()
    page.get_by_role("button", name="Record these decisions").click()  # the browser says at once what is missing
    for error in ("Select at least one call.", "Choose an answer.", "Enter a reason. It is recorded with your name"):
        expect(page.locator(".errorlist").get_by_text(error)).to_be_visible()
    expect(page.get_by_text("First of 3: Select at least one call.")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Ship parcel 0", exact=True)).to_be_focused()
    page.keyboard.press("1")  # no call is selected
    approve, reject = (page.get_by_role("radio", name=name) for name in ("Approve", "Reject"))
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    usual, unusual = (
        page.get_by_role("checkbox", name=f"Select the {each} calls") for each in ("10 usual", "2 unusual")
    )
    usual.focus()
    page.keyboard.press("Space")
    expect(page.get_by_text("First of 2: Choose an answer.")).to_be_visible()
    expect(page.get_by_role("button", name="Record 10 decisions", exact=True)).to_be_visible()
    expect(page.get_by_text("2 calls with an unusual amount are not selected.")).to_be_visible()
    expect(unusual).not_to_be_checked()
    page.get_by_role("checkbox", name="Ship parcel 0", exact=True).check()
    assert unusual.evaluate("box => [box.checked, box.indeterminate]") == [False, True]
    expect(page.get_by_role("button", name="Record 11 decisions, 1 unusual")).to_be_visible()
    expect(page.get_by_text("1 of them has an unusual amount.")).to_be_visible()
    unusual.check()
    expect(page.get_by_role("button", name="Record 12 decisions, 2 unusual")).to_be_visible()
    usual.uncheck()
    expect(page.get_by_role("button", name="Record 2 decisions, 2 unusual")).to_be_visible()
    usual.check()
    page.keyboard.press("2")
    expect(reject).to_be_checked()
    reason = page.get_by_role("textbox", name="Reason")
    expect(reason).to_be_focused()
    page.keyboard.type("1")  # a text
    expect(reject).to_be_checked()
    reject.focus()
    page.keyboard.press("1")
    expect(approve).to_be_checked()
    page.locator("summary", has_text="Arguments").first.focus()
    page.keyboard.press("2")
    expect(reject).to_be_checked()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("1")
    expect(approve).to_be_checked()

    button = page.get_by_role("button", name="Approve 12 calls, 2 unusual")
    expect(button).to_have_accessible_description("1,900.00 in total 2 of them have an unusual amount.")
    page.get_by_role("checkbox", name="Ship parcel 0", exact=True).uncheck()
    expect(page.get_by_text("1 of them has an unusual amount.")).to_be_visible()
    page.get_by_role("checkbox", name="Ship parcel 1", exact=True).uncheck()
    expect(page.get_by_role("button", name="Approve 10 calls", exact=True)).to_be_visible()
    expect(page.get_by_text("2 calls with an unusual amount are not selected.")).to_be_visible()


def test_answer_for_several_approvals_covers_little_of_its_calls(private_site: Site, open_page: OpenPage) -> None:
    interrupted_calls.request_approvals(private_site, 12, high_amounts=2)
    measure = """() => Math.max(...[".send-several", ".send-several .row"].map(each => document.querySelector(each))
        .filter(each => getComputedStyle(each).position === "sticky")
        .map(each => each.getBoundingClientRect().height / innerHeight))"""
    is_above_bar = """field => new Promise(resolve => setTimeout(() => {
        const bar = document.querySelector(".send-several .row").getBoundingClientRect();
        const place = field.getBoundingClientRect();
        resolve(field.closest(".send-several") && innerWidth > 1099 || place.top >= 0 && place.bottom <= bar.top + 1);
    }, 700))"""
    for size, most in (((1366, 768), 0.12), ((390, 844), 0.2)):
        page = open_page("alice", private_site, viewport={"width": size[0], "height": size[1]})
        page.goto("/review/approvals/?tool=ship_parcel&people=1")
        page.wait_for_load_state()
        assert 0 < page.evaluate(measure) <= most
        page.get_by_role("checkbox", name="Select the 2 unusual calls").check()
        page.get_by_role("radio", name="Approve").check()
        expect(page.get_by_text("2 of them have an unusual amount.")).to_be_attached()
        assert 0 < page.evaluate(measure) <= most
        expect(page.get_by_text("Each selected call runs once")).to_be_visible()
        for field in (page.get_by_role("checkbox").last, page.get_by_role("textbox", name="Reason")):
            page.evaluate("scrollTo(0, 0)")
            field.focus()
            assert field.evaluate(is_above_bar)


def test_answers_of_an_outage_cover_little_of_its_calls_and_say_at_once_what_is_missing(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.interrupt_calls(private_site, 16)  # of which four have no late result
    page = open_page("alice", private_site, viewport={"width": 1366, "height": 768})
    page.goto("/review/")
    open_outage(page, 16)
    page.wait_for_load_state()
    bar = page.locator(".send-several")
    page.get_by_label("Answer for all").select_option("It happened")
    fields = [page.get_by_label(f"{name} for all") for name in ("Answer", "Result", "Evidence", "Reason")]
    button = page.get_by_role("button", name="Record that 4 calls happened")
    tops = [field.evaluate("field => Math.round(field.getBoundingClientRect().top)") for field in fields]
    assert len(set(tops)) == 1
    assert abs(button.evaluate("button => button.getBoundingClientRect().top") - tops[0]) < 12
    assert bar.evaluate("bar => bar.offsetHeight / innerHeight") <= 0.12
    button.click()
    expect(fields[2]).to_be_focused()
    expect(fields[2]).to_have_accessible_description("Enter evidence: this answer says what happened to several calls.")
    expect(fields[3]).to_have_accessible_description(re.compile("^Enter a reason"))
    expect(page.get_by_text("Nothing was recorded. Correct the marked fields")).to_be_visible()
    assert bar.evaluate("bar => bar.offsetHeight") < 190
    assert page.evaluate(WATCH_LIVE_UPDATES) == [0, 1]
    expect(page.get_by_text("Nothing was recorded. Correct the marked fields")).to_be_visible()
    expect(fields[2]).to_have_accessible_description("Enter evidence: this answer says what happened to several calls.")
    page.locator("li .answer select").first.select_option("It did not happen")
    button = page.get_by_role("button", name="Record 4 decisions")
    button.click()
    own = page.get_by_label(re.compile("^Reason: Ship parcel")).first
    expect(own).to_be_focused()
    expect(own).to_have_accessible_description(re.compile("The reason for all is about another answer"))
    for field in (fields[2], fields[3], own):
        field.fill(REASON)
    expect(page.locator("#outage .errorlist")).to_have_count(0)
    button.click()
    expect(page.get_by_text("4 decisions recorded")).to_be_visible()


@only_exhaustive
def test_outage_is_decided_without_javascript(parcel_site: Site, open_page: OpenPage) -> None:
    page = open_page("alice", parcel_site, java_script_enabled=False)
    page.goto("/review/")
    open_outage(page, 50)
    page.get_by_role("region", name="Decide by late results").get_by_role("textbox").fill(REASON)
    page.get_by_role("button", name="Decide 40 calls by their late results").click()
    others = page.get_by_role("region", name="Decide these calls yourself")
    others.get_by_label("Answer for all").select_option("It did not happen")
    others.get_by_label("Evidence for all").fill("The carrier's list")
    others.get_by_label("Reason for all").fill(REASON)
    others.get_by_label("Answer: Ship parcel 0").select_option("leave undecided")
    others.get_by_role("button", name="Record these decisions").click()
    expect(page.get_by_role("heading", level=1, name="1 of 50 calls needs a decision")).to_be_visible()
    page.locator("a[data-row]").filter(has_text=re.compile("^Ship parcel 0$")).click()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("Claimed by you", exact=True)).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("button", name="Claim")).to_be_visible()


@only_exhaustive
def test_browser_without_notifications_is_not_offered_them(site: Site, open_page: OpenPage) -> None:
    page = open_page("alice")
    page.add_init_script("delete window.Notification;")
    page.goto("/review/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("button", name="Notify me while a page is open")).to_be_hidden()


def test_outage_sends_one_desktop_notification_to_subscribers(private_site: Site, open_page: OpenPage) -> None:
    pages = [open_page(name, private_site) for name in ("alice", "bob")]
    for page in pages:
        page.add_init_script(RECORD_NOTIFICATIONS)
        page.goto("/review/")
    pages[0].get_by_role("button", name="Notify me while a page is open").click()
    expect(pages[0].get_by_role("button", name="Turn off notifications")).to_have_attribute("aria-pressed", "true")
    interrupted_calls.interrupt_calls(private_site, 50)
    for page in pages:
        expect_outage_row(page)
        expect(page).to_have_title(re.compile(r"^\(50\) "))
        expect(page.locator("#favicon")).to_have_attribute("href", re.compile("favicon-many"))
    page_actions.wait_until(pages[0], "window.shown.some((one) => !one.startsWith('Did this'))")
    shown = [page.evaluate("window.shown.filter((one) => !one.startsWith('Did this'))") for page in pages]
    assert [len(each) for each in shown] == [1, 0]
    duration = r"(in the same second|within \d+ s)"
    told = rf"\d+ calls of ship_parcel interrupted {duration} Their outcome is unknown\."
    assert re.fullmatch(told, shown[0][0])


@pytest.mark.parametrize("javascript", [True, False])
def test_call_without_an_answer_of_its_own_says_what_the_answer_for_all_means_now(
    private_site: Site, open_page: OpenPage, javascript: bool
) -> None:
    interrupted_calls.interrupt_calls(private_site, 11)  # of which three have no late result
    page = open_page("alice", private_site, java_script_enabled=javascript)
    page.goto("/review/")
    open_outage(page, 11)
    own = page.get_by_label("Answer: Ship parcel 0")
    meanings = page.get_by_text(re.compile("^now: ")).locator("visible=true")
    expect(meanings).to_have_text(["now: leave undecided"] * 3)
    expect(own).to_have_accessible_description("now: leave undecided")
    page.get_by_label("Answer for all").select_option("It did not happen")
    expect(meanings).to_have_text(["now: It did not happen"] * 3)
    own.select_option("Run it once more")
    expect(meanings).to_have_count(2)


def test_withdrawal_of_several_decisions_begins_at_its_reason_and_is_locked_while_it_is_sent(
    private_site: Site, open_page: OpenPage
) -> None:
    interrupted_calls.interrupt_calls(private_site, 11)  # of which three have no late result
    page = open_page("alice", private_site)
    page.goto("/review/")
    open_outage(page, 11)
    page.get_by_label("Answer for all").select_option("It did not happen")
    page.get_by_label("Evidence for all").fill("The carrier's list")
    page.get_by_label("Reason for all").fill(REASON)
    page.get_by_role("button", name="Record that 3 calls did not happen").click()
    page.get_by_role("link", name="Withdraw these 3 decisions").click()
    reason = page.get_by_label("Reason for the withdrawal")
    expect(reason).to_be_focused()
    expect(reason).to_be_in_viewport()
    expect(page.get_by_role("heading", name="Wrong decision?")).to_be_in_viewport()

    held: list[Route] = []
    page.route("**/review/bulk/*/", lambda route: hold_post(route, held))
    reason.fill("The list was of another day.")
    page.get_by_role("button", name="Withdraw 3 decisions").click()
    expect(page.get_by_role("button", name="Sending …")).to_be_disabled()
    page.evaluate("document.body.dispatchEvent(new CustomEvent('live:any'))")
    page.wait_for_timeout(1000)
    expect(page.get_by_role("button", name="Sending …")).to_be_disabled()
    expect(reason).to_be_disabled()
    expect(page.get_by_text("The decisions are withdrawn one after the other.")).to_be_visible()
    held.pop().continue_()
    expect(page.get_by_text("3 decisions are withdrawn.")).to_be_visible()
    expect(page.get_by_text("The decisions are withdrawn one after the other.")).to_have_count(0)


def hold_post(route: Route, held: list[Route]) -> None:
    if route.request.method == "POST":
        held.append(route)
    else:
        route.continue_()
