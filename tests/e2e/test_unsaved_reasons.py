"""A half-typed reason outlives whatever happens around it."""

from playwright.sync_api import Page, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.browser import Watch, sign_in
from tests.support.site_process import PASSWORD, Site

HALF = "Seen in the ledger of the sh"
#: Collect what the page says about its connection, from its first moment.
WATCH_STALE = """addEventListener("DOMContentLoaded", () => {
    const stale = document.getElementById("stale");
    window.saidStale = [stale?.textContent];
    if (stale) new MutationObserver(() => saidStale.push(stale.textContent)).observe(stale, { childList: true });
})"""


def _type_half(page: Page) -> None:
    page_actions.choose(page, "It did not happen")
    page_actions.reason(page).press_sequentially(HALF)


def _expect_half(page: Page) -> None:
    expect(page_actions.reason(page)).to_have_value(HALF)
    expect(page.get_by_role("radio", name="It did not happen")).to_be_checked()


def _lose_the_answer(route: Route) -> None:
    if route.request.method == "POST":
        route.fetch()
        route.abort()
    else:
        route.fallback()


def test_a_live_update_leaves_the_reason_and_the_focus_alone(
    site: Site, start_agent: StartAgent, visit: Visit, order: int
) -> None:
    start_agent(site, order)
    page, other = visit("alice"), visit("bob")
    page_actions.open_card(page, order)
    _type_half(page)
    probes = page.get_by_text("outcome still unknown", exact=True).filter(visible=True)
    before = probes.count()

    page_actions.open_card(other, order)
    other.get_by_role("button", name="Verify again").click()

    # The other page has its answer too: one that comes after the page is closed finds nothing to replace.
    for reader in (page, other):
        expect(reader.get_by_label("Did it happen?").get_by_text("outcome still unknown", exact=True)).to_have_count(2)
    assert probes.count() > before
    _expect_half(page)
    expect(page_actions.reason(page)).to_be_focused()
    page_actions.reason(page).press_sequentially("op.")
    expect(page_actions.reason(page)).to_have_value(f"{HALF}op.")


def test_a_reload_leaves_the_reason_and_a_recorded_one_is_forgotten(
    site: Site, start_agent: StartAgent, visit: Visit, order: int
) -> None:
    start_agent(site, order)
    page = visit("alice")
    page_actions.open_card(page, order)
    _type_half(page)
    page.reload()
    _expect_half(page)
    expect(page.get_by_role("button", name=page_actions.RECORD["It did not happen"])).to_be_visible()
    page.goto("/review/")
    page_actions.open_card(page, order)
    _expect_half(page)
    page_actions.record(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    page.wait_for_function("!Object.keys(sessionStorage).some((key) => key.startsWith('typed:'))")


def test_a_lost_connection_is_said_and_loses_nothing(
    own_site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch]
) -> None:
    agent = start_agent(own_site, 17)
    page = visit("alice", own_site)
    watches[0].expect(r"net::ERR_|WebSocket connection|htmx:sendError|htmx:afterRequest|\[object Event\]")
    page.add_init_script(WATCH_STALE)
    page_actions.open_card(page, 17)
    _type_half(page)
    assert not any(page.evaluate("saidStale")), "nothing is lost while the page connects"

    own_site.stop()
    stale = page.get_by_role("status").filter(has_text="Connection lost — showing")
    expect(stale).to_be_visible()
    _expect_half(page)

    own_site.start()
    expect(stale).to_be_hidden(timeout=30_000)
    _expect_half(page)
    page_actions.record(page, "It did not happen")
    expect(page_actions.finished(page)).to_be_visible()
    agent.wait()
    assert (agent.refunds, agent.mails) == (1, 1)


def test_a_decision_whose_answer_is_lost_is_not_called_unrecorded(
    site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch], order: int
) -> None:
    start_agent(site, order)
    page = visit("alice")
    watches[0].expect(r"net::ERR_|htmx:sendError|htmx:afterRequest|\[object Event\]")
    page_actions.open_card(page, order)
    page_actions.fill(page, "It did not happen", HALF)
    page.route(page.url, _lose_the_answer)
    page_actions.record(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(page.get_by_text("You have decided this call; your decision is above.")).to_be_visible()
    expect(page.get_by_text("Your decision was not recorded")).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text="We could not confirm")).to_be_hidden()


def test_a_sign_out_elsewhere_is_said_and_leaves_the_reason(
    own_site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch]
) -> None:
    start_agent(own_site, 17)
    page = visit("alice", own_site)
    watches[0].expect("status of 40[13]|Error Code 40[13]|WebSocket connection")
    page_actions.open_card(page, 17)
    _type_half(page)

    elsewhere = page.context.new_page()
    elsewhere.goto("/review/")
    elsewhere.get_by_role("button", name="Sign out").click()
    expect(elsewhere.get_by_role("button", name="Sign in", exact=True)).to_be_visible()

    note = page.get_by_role("alert").filter(has_text="You are signed out")
    expect(note).to_be_visible()
    _expect_half(page)

    sign_in(elsewhere, "alice", PASSWORD)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(note).to_be_hidden()
    expect(page.locator("#refusal .note")).to_have_count(0)
    _expect_half(page)
    page_actions.record(page, "It did not happen")
    expect(page_actions.finished(page)).to_be_visible()


def test_without_a_socket_the_page_says_so_and_asks_by_itself(
    site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch], order: int
) -> None:
    page = visit("alice")
    watches[0].expect(r"WebSocket|\[object Event\]")
    page.context.route_web_socket("**/ws/live/**", lambda socket: socket.close())
    page.goto(page_actions.REFUNDS)
    expect(page.get_by_role("status").filter(has_text="Connection lost — showing")).to_be_visible()
    start_agent(site, order)
    expect(page_actions.refund_of(page, order)).to_be_visible()
