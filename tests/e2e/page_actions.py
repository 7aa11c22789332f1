"""Actions on the review pages that several browser tests share."""

import re
import time
from typing import Final

from playwright.sync_api import Locator, Page, expect

from tests.support.browser import ACTION_TIMEOUT_MS

#: Label of the button that records an answer, by the label of the answer.
RECORD_BUTTONS: Final[dict[str, str | re.Pattern[str]]] = {
    "It happened": "Record that it happened",
    "It did not happen": "Record that it did not happen",
    "Run it once more": "Approve one more run",
    "Approve": re.compile("^(?:Approve this call|Give approval [12] of 2)$"),
    "Edit": "Record changes",
    "Reject": "Reject this call",
    "Respond instead": "Respond instead of the call",
}
#: Review queue with one row for each refund; without the filter, calls of the same outage share a row.
REFUND_QUEUE_URL = "/review/?tool=refund_card"
AWAITING_QUEUE_URL = "/review/?tab=awaiting"


def refund_link(page: Page, order_number: int) -> Locator:
    """Return the link to the refund of an order in the review queue."""
    return page.get_by_role("link", name=re.compile(rf"^Refund .* for order {order_number}$"))


def payment_link(page: Page, session_id: str) -> Locator:
    """Return the link to the payment of a session in the review queue."""
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=session_id, exact=True))
    return row.get_by_role("link", name="Pay invoice")


def open_payment_card(page: Page, session_id: str) -> None:
    """Wait until the review queue lists the payment of a session, and open its card; works without JavaScript."""
    _wait_until_listed(page, AWAITING_QUEUE_URL, re.escape(session_id))
    page.goto(AWAITING_QUEUE_URL)
    payment_link(page, session_id).click()
    expect(page.get_by_role("heading", level=1, name="May this happen?")).to_be_visible()
    page.wait_for_load_state()  # the scripts of a page run after its text is displayed


def open_refund_card(page: Page, order_number: int) -> None:
    """Wait until the review queue lists the refund for an order, and open its card."""
    page.goto(REFUND_QUEUE_URL)
    refund_link(page, order_number).click()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    page.wait_for_load_state()


def poll_for_refund_card(page: Page, order_number: int) -> None:
    """Wait until the review queue lists the refund for an order, and open its card; works without JavaScript."""
    _wait_until_listed(page, REFUND_QUEUE_URL, rf"for order {order_number}")
    page.goto(REFUND_QUEUE_URL)
    refund_link(page, order_number).click()


def _wait_until_listed(page: Page, queue_url: str, pattern: str) -> None:
    """Ask for the queue until its text has the pattern as whole words, in requests that display nothing."""
    deadline = time.monotonic() + ACTION_TIMEOUT_MS / 1000
    while not re.search(rf"(?<![\w-]){pattern}(?![\w-])", page.request.get(queue_url).text()):
        assert time.monotonic() < deadline, f"The queue does not list {pattern!r}."
        page.wait_for_timeout(100)


def session_link(page: Page) -> Locator:
    """Return the link of a decision page to its session, which has the title of the session."""
    return page.locator(".crumbs a[href^='/sessions/']")


def choose_answer(page: Page, answer: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{answer}")).check()


def reason_field(page: Page) -> Locator:
    return page.locator("form[data-decide]").get_by_role("textbox", name="Reason")


def fill_in_decision(page: Page, answer: str, reason_text: str) -> None:
    """Fill in the decision form without submitting it."""
    choose_answer(page, answer)
    if answer == "It happened":
        page.get_by_role("textbox", name="Result for the agent").fill("Refunded 40.00 EUR, seen in the ledger.")
    reason_field(page).fill(reason_text)


def record_decision(page: Page, answer: str) -> None:
    page.get_by_role("button", name=RECORD_BUTTONS[answer]).click()


def completion_notice(page: Page) -> Locator:
    """Return the sentence on a card that reports the completion of its session."""
    return page.get_by_text("The session is completed with this result:")


def press_tab_until_focused(page: Page, role: str, name: str) -> None:
    """Press Tab until an element has the focus; every focused element on the way must have a visible outline."""
    for _ in range(60):
        focused = page.locator(":focus")
        if page.get_by_role(role, name=name).and_(focused).count():  # type: ignore[arg-type]
            return
        page.keyboard.press("Tab")
        assert page.locator(":focus").count() == 1
        outlines = page.locator(":focus").evaluate(
            "e => [e, e.closest('.opt') ?? e].map(getComputedStyle).map(s => s.outlineStyle + s.boxShadow)"
        )
        assert set(outlines) != {"nonenone"}, page.locator(":focus").evaluate("e => e.outerHTML")
    raise AssertionError(f"Tab does not reach the {role} {name!r}.")


def wait_until(page: Page, condition: str) -> None:
    """Wait until a condition in JavaScript is true.

    Playwright's `wait_for_function` evaluates text in the page, which the content security policy forbids.
    """
    deadline = time.monotonic() + ACTION_TIMEOUT_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"This does not become true: {condition}"
        page.wait_for_timeout(50)
