"""What people do on the pages, step by step."""

import re

from playwright.sync_api import Locator, Page, expect

#: Answer → the words on the button that records it.
RECORD = {
    "It happened": "Record that it happened",
    "It did not happen": "Record that it did not happen",
    "Run it once more": "Approve one more run",
    "Approve": "Approve this call",
    "Edit": "Record the changed arguments",
    "Reject": "Reject this call",
    "Respond instead": "Respond instead of the call",
}


#: Queue with a row for each refund: without a filter, several that were lost together are one row.
REFUNDS = "/review/?tool=refund_card"


def refund_of(page: Page, order: int) -> Locator:
    """The link to the refund of an order in the queue."""
    return page.get_by_role("link", name=re.compile(rf"^Refund .* for order {order}$"))


def payment_of(page: Page, session_id: str) -> Locator:
    """The link to the payment of a session in the queue."""
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=session_id, exact=True))
    return row.get_by_role("link", name="Pay invoice")


def open_payment(page: Page, session_id: str) -> None:
    """From the queue, also where it does not change by itself."""
    for _ in range(100):
        page.goto("/review/?tab=awaiting")
        if payment_of(page, session_id).count():
            payment_of(page, session_id).click()
            expect(page.get_by_role("heading", level=1, name="May this happen?")).to_be_visible()
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"The payment of {session_id} does not reach the queue.")


def open_card(page: Page, order: int) -> None:
    """From the queue; waits until the call is there."""
    page.goto(REFUNDS)
    refund_of(page, order).click()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()


def open_card_by_loading(page: Page, order: int) -> None:
    """From the queue, for pages that do not change by themselves: loaded again until the call is there."""
    for _ in range(100):
        page.goto(REFUNDS)
        if refund_of(page, order).count():
            refund_of(page, order).click()
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"The refund for order {order} does not reach the queue.")


def choose(page: Page, answer: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{answer}")).check()


def reason(page: Page) -> Locator:
    return page.locator("form[data-decide]").get_by_role("textbox", name="Reason")


def fill(page: Page, answer: str, why: str) -> None:
    """The whole form, without recording it."""
    choose(page, answer)
    if answer == "It happened":
        page.get_by_role("textbox", name="Result for the agent").fill("Refunded 40.00 EUR, seen in the ledger.")
    reason(page).fill(why)


def record(page: Page, answer: str) -> None:
    page.get_by_role("button", name=RECORD[answer]).click()


def finished(page: Page) -> Locator:
    """On a card: that the session went on to its end."""
    return page.get_by_text("The session is completed with this result:")


def tab_to(page: Page, role: str, name: str) -> None:
    """Press Tab until that element has the focus, and see that the focus can be seen on the way."""
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
