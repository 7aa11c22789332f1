"""A reason that is typed but not recorded survives live updates, reloads, outages and sign-outs."""

from playwright.sync_api import Page, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.browser import LOST_REQUESTS, LOST_WEBSOCKET, PageMonitor, sign_in
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import PASSWORD, Site

PARTIAL_REASON = "Seen in the ledger of the sh"
#: Record the texts of the connection message from the start of the page.
RECORD_CONNECTION_MESSAGES = """addEventListener("DOMContentLoaded", () => {
    const stale = document.getElementById("stale");
    window.connectionMessages = [stale?.textContent];
    const observer = new MutationObserver(() => connectionMessages.push(stale.textContent));
    if (stale) observer.observe(stale, { childList: true });
})"""


def type_partial_reason(page: Page) -> None:
    page_actions.choose_answer(page, "It did not happen")
    page_actions.reason_field(page).press_sequentially(PARTIAL_REASON)


def expect_partial_reason(page: Page) -> None:
    expect(page_actions.reason_field(page)).to_have_value(PARTIAL_REASON)
    expect(page.get_by_role("radio", name="It did not happen")).to_be_checked()


def drop_post_response(route: Route) -> None:
    if route.request.method == "POST":
        route.fetch()
        route.abort()
    else:
        route.fallback()


def test_live_update_keeps_reason_and_focus(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page, other = open_page("alice"), open_page("bob")
    page_actions.open_refund_card(page, order_number)
    type_partial_reason(page)

    page_actions.open_refund_card(other, order_number)
    other.get_by_role("button", name="Run the tool’s own check again").click()

    for reader in (page, other):
        expect(reader.get_by_label("Did it happen?").get_by_text("outcome still unknown", exact=True)).to_have_count(2)
    expect(page.get_by_text("The tool’s own check ran 2 times")).to_be_visible()
    expect_partial_reason(page)
    expect(page_actions.reason_field(page)).to_be_focused()
    page_actions.reason_field(page).press_sequentially("op.")
    expect(page_actions.reason_field(page)).to_have_value(f"{PARTIAL_REASON}op.")
    # A response that arrives while a page closes would find no element to replace.
    for reader in (page, other):
        page_actions.wait_until(reader, "!document.querySelector('.htmx-request')")


def test_reload_keeps_the_reason_until_it_is_recorded(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    type_partial_reason(page)
    page.reload()
    expect_partial_reason(page)
    expect(page.get_by_role("button", name=page_actions.RECORD_BUTTONS["It did not happen"])).to_be_visible()
    page.goto("/review/")
    page_actions.open_refund_card(page, order_number)
    expect_partial_reason(page)
    page_actions.record_decision(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    page_actions.wait_until(page, "!Object.keys(sessionStorage).some((key) => key.startsWith('decision-draft:'))")


def test_lost_connection_is_reported_and_keeps_the_reason(
    private_site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    agent = start_agent(private_site, 17)
    page = open_page("alice", private_site)
    page_monitors[0].ignore(f"{LOST_REQUESTS}|{LOST_WEBSOCKET}")
    page.add_init_script(RECORD_CONNECTION_MESSAGES)
    page_actions.open_refund_card(page, 17)
    type_partial_reason(page)
    assert not any(page.evaluate("connectionMessages")), "nothing is lost while the page connects"

    private_site.stop()
    stale = page.get_by_role("status").filter(has_text="Connection lost — showing")
    expect(stale).to_be_visible()
    expect_partial_reason(page)

    private_site.start()
    expect(stale).to_be_hidden(timeout=30_000)
    expect_partial_reason(page)
    page_actions.record_decision(page, "It did not happen")
    expect(page_actions.completion_notice(page)).to_be_visible()
    agent.wait()
    assert (agent.refunds, agent.mails) == (1, 1)


def test_decision_with_lost_response_is_shown_as_recorded(
    site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor], order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_monitors[0].ignore(LOST_REQUESTS)
    page_actions.open_refund_card(page, order_number)
    page_actions.fill_in_decision(page, "It did not happen", PARTIAL_REASON)
    page.route(page.url, drop_post_response)
    with page.expect_event("requestfailed"):  # a page that closes before would stop the request that is dropped
        page_actions.record_decision(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(page.get_by_text("You have decided this call; your decision is below.")).to_be_visible()
    expect(page.get_by_text("Your decision was not recorded")).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text="We could not confirm")).to_be_hidden()


@only_exhaustive
def test_sign_out_in_another_tab_is_reported_and_keeps_the_reason(
    private_site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    start_agent(private_site, 17)
    page = open_page("alice", private_site)
    page_monitors[0].ignore(f"status of 40[13]|Error Code 40[13]|{LOST_WEBSOCKET}")
    page_actions.open_refund_card(page, 17)
    type_partial_reason(page)

    second_tab = page.context.new_page()
    second_tab.goto("/review/")
    second_tab.get_by_role("button", name="Sign out").click()
    expect(second_tab.get_by_role("button", name="Sign in", exact=True)).to_be_visible()

    note = page.get_by_role("alert").filter(has_text="You are signed out")
    expect(note).to_be_visible()
    expect_partial_reason(page)
    unsent = page.get_by_role("alert").filter(has_text="Not sent. You are signed out.")
    for number, name in enumerate(("Claim", "Sign out"), 1):  # a button of HTMX, and a form that HTMX does not send
        page.get_by_role("button", name=name, exact=True).click()
        expect(unsent).to_have_count(number)
    expect_partial_reason(page)

    sign_in(second_tab, "alice", PASSWORD)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(unsent).to_have_count(0)
    expect(page.get_by_role("alert").filter(has_text="You are signed out")).to_be_hidden()
    expect(page.locator("#refusal .note")).to_have_count(0)
    expect_partial_reason(page)
    page_actions.record_decision(page, "It did not happen")
    expect(page_actions.completion_notice(page)).to_be_visible()


def test_sign_in_as_somebody_else_freezes_the_page_and_keeps_the_reason(
    private_site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    start_agent(private_site, 17)
    page = open_page("alice", private_site)
    page_monitors[0].ignore(f"status of 4(01|03|12)|Error Code 4(01|03|12)|{LOST_WEBSOCKET}")
    page_actions.open_refund_card(page, 17)
    type_partial_reason(page)

    second_tab = page.context.new_page()
    second_tab.goto("/review/")
    second_tab.get_by_role("button", name="Sign out").click()
    sign_in(second_tab, "carol", PASSWORD)

    note = page.get_by_role("alert").filter(has_text="You are now signed in as carol.")
    expect(note).to_be_visible()
    expect_partial_reason(page)
    expect(note).to_contain_text("Your text stays here. To record it, sign in as alice again in another tab.")
    record = page.get_by_role("button", name="It did not happen")
    expect(record).to_be_disabled()
    page_actions.reason_field(page).press("Control+Enter")
    page_actions.wait_until(page, "!document.querySelector('.htmx-request')")
    expect(note).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    expect(page.get_by_text("Your role is auditor.")).to_have_count(0)
    expect_partial_reason(page)

    page.get_by_role("button", name="Sign out").click()  # a form that HTMX does not send
    unsent = page.get_by_role("alert").filter(has_text="Not sent. You are now signed in as carol.")
    expect(unsent).to_be_visible()
    expect(note).to_have_count(2)
    expect_partial_reason(page)

    second_tab.get_by_role("button", name="Sign out").click()
    sign_in(second_tab, "alice", PASSWORD)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(note).to_have_count(0)
    expect(record).to_be_enabled()
    expect_partial_reason(page)

    second_tab.get_by_role("button", name="Sign out").click()
    sign_in(second_tab, "bob", PASSWORD)
    note = page.get_by_role("alert").filter(has_text="You are now signed in as bob.")
    note.get_by_role("link", name="Reload this page").first.click()
    page_actions.choose_answer(page, "It did not happen")
    expect(page_actions.reason_field(page)).to_have_value("")  # what alice typed is not for bob
    second_tab.goto("/review/")
    second_tab.get_by_role("button", name="Sign out").click()
    sign_in(second_tab, "alice", PASSWORD)
    page.get_by_role("alert").get_by_role("link", name="Reload this page").first.click()
    expect_partial_reason(page)
    page_actions.record_decision(page, "It did not happen")
    expect(page_actions.completion_notice(page)).to_be_visible()


def test_page_polls_without_a_websocket(
    site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor], order_number: int
) -> None:
    page = open_page("alice")
    page_monitors[0].ignore(f"{LOST_REQUESTS}|{LOST_WEBSOCKET}")
    page.context.route_web_socket("**/ws/live/**", lambda socket: socket.close())
    page.goto(page_actions.REFUND_QUEUE_URL)
    start_agent(site, order_number)
    expect(page_actions.refund_link(page, order_number)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Connection lost — showing")).to_be_hidden()
    page.context.route("**/review/**", lambda route: route.abort())
    expect(page.get_by_role("status").filter(has_text="Connection lost — showing")).to_be_visible()
