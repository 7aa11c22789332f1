"""The decision page on a laptop and a phone: what has to be filled in is in sight together with the button."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.browser import Watch
from tests.support.site_process import Payer, Site

SIZES = ((1366, 768), (1280, 720), (390, 844))
#: Answer → label of the field that it needs.
ANSWERS = {
    "It happened": "Result for the agent",
    "It did not happen": "Reason",
    "Run it once more": "Reason",
    "Approve": "Reason",
    "Edit": "Reason",
    "Reject": "Message to the agent",
    "Respond instead": "Answer to the agent",
}
StartPayer = Callable[..., Payer]


@pytest.fixture
def start_payer(site: Site, order: int) -> Iterator[StartPayer]:
    with ExitStack() as leaving:

        def started(*options: str) -> Payer:
            payer = site.payer(f"inv-{order}", *options)
            leaving.callback(payer.stop)
            return payer

        yield started


def _in_sight(element: Locator) -> bool:
    return bool(
        element.evaluate(
            """e => {
                const box = e.getBoundingClientRect();
                const inside = box.top >= 0 && box.bottom <= innerHeight;
                const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                return inside && (e === top || e.contains(top));
            }"""
        )
    )


def _check_answers(page: Page) -> None:
    for answer, field in ANSWERS.items():
        if not page.get_by_role("radio", name=answer).count():
            continue
        page.evaluate("scrollTo(0, 0)")
        page_actions.choose(page, answer)
        button = page.get_by_role("button", name=page_actions.RECORD[answer])
        button.scroll_into_view_if_needed()
        assert _in_sight(button)
        assert _in_sight(page_actions.reason(page)), answer
        assert _in_sight(page.get_by_role("textbox", name=field)), answer
        assert page.evaluate(
            "[...document.querySelectorAll('.decide, .decide form')].every(e => e.scrollHeight <= e.clientHeight + 1)"
        )


def _check_invalid(page: Page, answer: str) -> None:
    """The first invalid field has the focus, is in sight, and its error is repeated beside the button."""
    page_actions.choose(page, answer)
    page_actions.record(page, answer)
    field = page.get_by_role("textbox", name=ANSWERS[answer])
    expect(field).to_be_focused()
    assert _in_sight(field)
    problem = page.locator(".send .problem").filter(visible=True)
    expect(problem).to_contain_text("Enter")
    problem.scroll_into_view_if_needed()
    assert _in_sight(page.get_by_role("button", name=page_actions.RECORD[answer]))


def test_what_has_to_be_filled_in_is_in_sight_with_the_button(
    site: Site, start_agent: StartAgent, start_payer: StartPayer, visit: Visit, watches: list[Watch], order: int
) -> None:
    start_agent(site, order)
    payer = start_payer("--approvals=2", "--decide-within=3600")
    page = visit("alice")
    watches[0].expect("status of 422")
    for width, height in SIZES:
        page.set_viewport_size(ViewportSize(width=width, height=height))
        page_actions.open_card(page, order)
        _check_answers(page)
        _check_invalid(page, "It happened")
        page_actions.open_payment(page, payer.session_id)
        _check_answers(page)
        _check_invalid(page, "Reject")
        page.evaluate("sessionStorage.clear()")


def test_a_lost_network_and_a_sign_out_elsewhere_are_said_beside_the_button(
    own_site: Site, start_agent: StartAgent, visit: Visit, watches: list[Watch]
) -> None:
    start_agent(own_site, 17)
    page = visit("alice", own_site)
    watches[0].expect(
        r"net::ERR_|status of 40[13]|Error Code 40[13]|WebSocket|htmx:sendError|htmx:afterRequest|\[object"
    )
    page_actions.open_card(page, 17)
    page_actions.fill(page, "It did not happen", "Seen in the ledger.")
    problem = page.locator(".send [data-connection]")
    expect(problem).to_be_hidden()

    page.context.set_offline(True)
    expect(problem).to_have_text(
        "You are offline. Your text stays here; send it when you are back online.", timeout=2_000
    )
    page.context.set_offline(False)
    expect(problem).to_be_hidden()

    elsewhere = page.context.new_page()
    elsewhere.goto("/review/")
    elsewhere.get_by_role("button", name="Sign out").click()
    expect(elsewhere.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    expect(problem).to_contain_text("You are signed out. Your text stays here.", timeout=5_000)
    expect(problem.get_by_role("link", name="Sign in in another tab")).to_be_visible()
    expect(page_actions.reason(page)).to_have_value("Seen in the ledger.")


def test_a_deadline_that_passes_closes_the_form(start_payer: StartPayer, visit: Visit) -> None:
    payer = start_payer("--decide-within=12")
    page = visit("alice")
    page_actions.open_payment(page, payer.session_id)
    page_actions.fill(page, "Approve", "The contract says so.")
    expect(page.get_by_text("Only an admin can decide now. Nothing runs until then.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve this call")).to_be_hidden()
    expect(page_actions.reason(page)).to_have_value("The contract says so.")
    assert payer.payments == []
