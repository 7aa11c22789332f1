"""Layout of the decision form on a laptop and a phone, and its messages beside the button."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Locator, Page, Route, ViewportSize, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support import axe
from tests.support.browser import LOST_REQUESTS, LOST_WEBSOCKET, PageMonitor
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.nearer_deadlines import bring_deadline_near_in_child
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Payer, Site

VIEWPORT_SIZES = ((1366, 768), (1280, 720), (390, 844))
#: Label of the required field, by the label of the answer.
REQUIRED_FIELDS = {
    "It happened": "Reason",
    "It did not happen": "Reason",
    "Run it once more": "Reason",
    "Approve": "Reason",
    "Edit": "Reason",
    "Reject": "Why",
    "Respond instead": "Answer to the agent",
}
#: Gives an open page another deadline of its call, at which it looks as when its tab is shown again.
SET_DEADLINE = """deadline => {
    document.getElementById("decision-state").dataset.deadline = deadline;
    document.dispatchEvent(new Event("visibilitychange"));
}"""
StartPayer = Callable[..., Payer]


@pytest.fixture
def start_payer(site: Site, order_number: int) -> Iterator[StartPayer]:
    with ExitStack() as stack:

        def start(*options: str) -> Payer:
            payer = site.payer(f"inv-{order_number}", *options)
            stack.callback(payer.stop)
            return payer

        yield start


#: Whether an element is inside the window and nothing covers its middle.
IS_VISIBLE_IN_VIEWPORT = """e => {
    const box = e.getBoundingClientRect();
    const inside = box.top >= 0 && box.bottom <= innerHeight;
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return inside && (e === top || e.contains(top));
}"""

#: Scrolls through the page; returns where the first element is in sight, and where the second is not in sight then.
POSITIONS_IN_SIGHT = f"""([button, reason]) => {{
    const isVisible = {IS_VISIBLE_IN_VIEWPORT};
    const seen = [], alone = [];
    for (let top = 0; top < document.documentElement.scrollHeight; top += 60) {{
        scrollTo(0, top);
        if (!isVisible(button)) continue;
        seen.push(top);
        if (!isVisible(reason)) alone.push(top);
    }}
    return [seen, alone];
}}"""


def is_visible_in_viewport(element: Locator) -> bool:
    return bool(element.evaluate(IS_VISIBLE_IN_VIEWPORT))


def check_layout_of_answers(page: Page) -> None:
    for answer, field in REQUIRED_FIELDS.items():
        if not page.get_by_role("radio", name=answer).count():
            continue
        page.evaluate("scrollTo(0, 0)")
        page_actions.choose_answer(page, answer)
        button = page.get_by_role("button", name=page_actions.RECORD_BUTTONS[answer])
        button.scroll_into_view_if_needed()
        assert is_visible_in_viewport(button)
        assert is_visible_in_viewport(page.get_by_role("textbox", name=field)), answer
        assert page.evaluate(
            "[...document.querySelectorAll('.decide, .decide form')].every(e => e.scrollHeight <= e.clientHeight + 1)"
        )


def check_invalid_answer(page: Page, answer: str) -> None:
    """Check that the first invalid field is focused and visible with its error, which is there once.

    The errors disappear when the fields are filled in.
    """
    page_actions.choose_answer(page, answer)
    page_actions.record_decision(page, answer)
    field = page.get_by_role("textbox", name=REQUIRED_FIELDS[answer])
    expect(field).to_be_focused()
    assert is_visible_in_viewport(field)
    error = page.get_by_text(re.compile(r"^Enter .* (The agent gets it|The agent is told|It is recorded)")).filter(
        visible=True
    )
    expect(error).to_have_count(1)
    assert is_visible_in_viewport(error)
    field.fill("Seen.")
    expect(page.locator("form[data-decide] .errorlist")).to_have_count(0)


@pytest.mark.begins_first
def test_required_field_and_button_are_visible_together(
    site: Site,
    start_agent: StartAgent,
    start_payer: StartPayer,
    open_page: OpenPage,
    page_monitors: list[PageMonitor],
    order_number: int,
) -> None:
    start_agent(site, order_number)
    payer = start_payer("--approvals=2", "--decide-within=3600")
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    for width, height in VIEWPORT_SIZES:
        page.set_viewport_size(ViewportSize(width=width, height=height))
        page_actions.open_refund_card(page, order_number)
        check_layout_of_answers(page)
        check_invalid_answer(page, "It happened")
        page_actions.open_payment_card(page, payer.session_id)
        check_layout_of_answers(page)
        check_invalid_answer(page, "Reject")
        page.evaluate("sessionStorage.clear()")


def test_answer_stays_in_sight_when_the_fields_of_the_one_before_fold(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    page = open_page("alice", viewport={"width": 390, "height": 844})
    page_actions.open_payment_card(page, start_payer("--with-memo").session_id)
    page.evaluate("document.documentElement.style.overflowAnchor = document.body.style.overflowAnchor = 'none'")
    page_actions.choose_answer(page, "Edit")
    reject = page.get_by_role("radio", name=re.compile("^Reject"))
    reject.evaluate("e => e.scrollIntoView({ block: 'start', behavior: 'instant' })")
    assert page.evaluate("scrollY") > 1000

    reject.check()

    assert is_visible_in_viewport(reject)
    assert is_visible_in_viewport(page.get_by_role("textbox", name="Why"))


def test_link_to_the_reason_moves_no_answer_when_it_appears(start_payer: StartPayer, open_page: OpenPage) -> None:
    """Between the two events of a click, an answer would leave the pointer."""
    page = open_page("alice", viewport={"width": 390, "height": 844})
    page_actions.open_payment_card(page, start_payer("--with-memo").session_id)
    page_actions.choose_answer(page, "Edit")
    link, reject = page.get_by_role("link", name="Next: reason"), page.get_by_role("radio", name=re.compile("^Reject"))
    place = "e => Math.round(e.getBoundingClientRect().top + scrollY)"
    page.get_by_role("button", name=page_actions.RECORD_BUTTONS["Edit"]).scroll_into_view_if_needed()
    expect(link).to_be_hidden()
    before = reject.evaluate(place)

    page.get_by_role("radio", name=re.compile("^Edit")).scroll_into_view_if_needed()

    expect(link).to_be_visible()
    assert reject.evaluate(place) == before


def test_edit_shows_what_was_changed_with_a_way_back_and_the_button_in_sight(
    site: Site, start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page.set_viewport_size(ViewportSize(width=1366, height=768))
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    button = page.get_by_role("button", name=page_actions.RECORD_BUTTONS["Edit"])
    assert is_visible_in_viewport(button)
    changes, field = page.locator("#change dl"), page.locator("[data-stored]").first
    name, before = field.get_attribute("data-argument"), field.input_value()
    expect(changes).to_be_hidden()

    held: list[Route] = []
    page.route("**/change/", lambda route: held.append(route), times=1)
    with page.expect_request("**/change/"):
        field.fill("6")
    field.fill("7")
    page.wait_for_timeout(600)  # the next preview waits 0.4 s for more input, and for the answer to the one before it
    held[0].continue_()
    told = re.compile(rf"{name}\s+before {re.escape(before)} → now 7")
    expect(changes).to_have_text(told)
    assert is_visible_in_viewport(changes)
    was = page.locator("[data-was]").filter(visible=True)
    expect(was).to_have_text(f"changed · Undo {name}")
    assert is_visible_in_viewport(button)
    page.reload()
    expect(changes).to_have_text(told)  # the draft is back
    page.get_by_role("radio", name="JSON").check()
    expect(page.get_by_role("textbox", name="Arguments")).to_have_value(re.compile(f'"{name}": 7,'))
    page.get_by_role("radio", name="Fields").check()

    was.get_by_role("button").click()
    expect(field).to_have_value(before)
    expect(field).to_be_focused()
    expect(was).to_have_count(0)
    expect(changes).to_be_hidden()

    page_monitors[0].ignore("status of 422")
    page_actions.reason_field(page).fill("Another invoice.")
    button.click()
    problem = page.locator(".send .problem").filter(visible=True)
    expect(problem).to_contain_text("Change at least one argument")
    assert is_visible_in_viewport(problem)


def test_list_is_edited_item_by_item(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--with-memo")
    page = open_page("alice", has_touch=True)
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    item = page.get_by_role("textbox", name="copies, item")
    item.nth(1).fill("bob")
    item.nth(1).press("Enter")
    page.keyboard.type("dora")
    remove = page.get_by_role("button", name="Remove item 1 of copies")
    box = remove.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 44
    remove.click()
    expect(item.first).to_be_focused()
    expect(page.locator("#change dl")).to_have_text(
        re.compile(r"ana → now bob\s+copies, item 2\s+before ben → now dora")
    )
    assert axe.list_accessibility_violations(page) == []
    page.reload()
    expect(item).to_have_count(2)  # the draft is back
    expect(item.last).to_have_value("dora")
    expect(page.locator("#change ins")).to_have_count(2)
    page.get_by_role("button", name="Undo copies").click()
    expect(item.last).to_have_value("ben")
    item.last.press("Control+a")
    item.last.press("Backspace")
    item.last.press("Backspace")
    expect(item).to_have_count(1)
    page.get_by_role("radio", name="JSON").check()
    expected = re.compile(r'\n  "copies": \[\n    "ana"\n  \]\n')
    expect(page.get_by_role("textbox", name="Arguments")).to_have_value(expected)


@pytest.mark.parametrize("width", mark_all_but_each(2, [390, 1366]))
def test_list_of_objects_is_edited_in_rows(start_payer: StartPayer, open_page: OpenPage, width: int) -> None:
    page = open_page("alice", viewport={"width": width, "height": 844})
    page_actions.open_payment_card(page, start_payer("--with-lines").session_id)
    page_actions.choose_answer(page, "Edit")
    rows = [page.get_by_role("group", name=f"lines, row {number}") for number in range(1, 5)]
    boxes = [box for row in rows[:3] if (box := row.bounding_box())]
    assert (boxes[0]["height"] < 60) == (width > 900)
    remark = (
        page.locator(".by-field > .field")
        .filter(has=page.locator("[data-argument='amount']"))
        .get_by_text("not changed", exact=True)
    )
    expect(remark).to_be_hidden()
    rows[0].get_by_role("textbox", name="quantity").fill("15")
    expect(remark).to_be_visible()
    expect(page.get_by_text("not changed", exact=True).filter(visible=True)).to_have_count(1)
    warning = page.get_by_text("amount was not changed. Check whether it still adds up.")
    expect(warning).to_have_count(1)  # beside the button; the field itself says it already
    expect(warning).to_be_visible()
    page.locator("[data-argument='amount']").fill("1200.00")
    expect(remark).to_be_hidden()
    expect(warning).to_have_count(0)
    page.get_by_role("button", name="Undo amount").click()
    page.get_by_role("button", name="Remove row 2 of lines").click()
    expect(remark).to_be_visible()
    undo = page.get_by_role("button", name="Undo removing row 2 of lines")
    expect(undo).to_be_focused()
    page.get_by_role("button", name="Add a row to lines").click()
    page.keyboard.type("DSK-01")
    page.keyboard.press("Tab")
    page.keyboard.type("Desk")
    rows[3].get_by_role("textbox", name="quantity").fill("2")
    page.get_by_role("textbox", name="city").fill("Bremen")
    changes = page.locator("#change")
    expect(changes).to_contain_text("4 changes")
    expect(changes).to_contain_text(re.compile(r"lines, row 1: quantity"))
    assert axe.list_accessibility_violations(page) == []
    assert not overflowing_elements(page)

    page.reload()
    expect(rows[3].get_by_role("textbox", name="sku")).to_have_value("DSK-01")  # the draft is back
    expect(changes).to_contain_text("4 changes")
    page.get_by_role("radio", name="JSON").check()
    text = page.get_by_role("textbox", name="Arguments")
    expect(text).to_have_value(
        re.compile(r'"sku": "CBL-2M",[^}]*},\s+{\s+"sku": "DSK-01",\s+"description": "Desk",\s+"quantity": 2\s+}')
    )
    assert "CHR-09" not in text.input_value()
    page.get_by_role("radio", name="Fields").check()
    expect(page.get_by_role("textbox", name="city")).to_have_value("Bremen")
    expect(page.get_by_role("textbox", name="sku").filter(visible=True)).to_have_count(3)
    page_actions.choose_answer(page, "Approve")
    expect(page.locator("[data-change-count]")).to_contain_text("changes of the arguments are not recorded")
    page_actions.choose_answer(page, "Edit")
    page_actions.reason_field(page).fill("Two desks in place of the chairs.")
    page_actions.record_decision(page, "Edit")
    expect(page.get_by_text("changed the arguments at").last).to_be_visible()


def test_warning_about_a_cell_has_the_width_of_its_table(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", viewport={"width": 1366, "height": 768})
    page_monitors[0].ignore("status of 422")
    page_actions.open_payment_card(page, start_payer("--with-order").session_id)
    page_actions.choose_answer(page, "Edit")
    rows = [page.get_by_role("group", name=f"items, row {number}") for number in (1, 2)]
    quantities = [row.get_by_role("textbox", name="quantity") for row in rows]
    expect(quantities[0]).to_be_visible()
    boxes = [quantity.bounding_box() for quantity in quantities]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["y"] - boxes[0]["y"] < 60  # as long as nothing is said about the fields
    quantities[0].fill("12.5")
    quantities[1].fill("1,234")
    expect(rows[1].get_by_text("quantity: “1,234” can be read as 1234 or as 1.2340.")).to_be_visible()
    quantities[1].fill("20.5")
    warning = rows[0].get_by_text("quantity was a whole number; the new value “12.5” is not one.")
    expect(warning).to_be_visible()
    box = warning.bounding_box()
    assert box is not None
    assert box["width"] > 400
    assert box["height"] < 50  # two lines
    assert not overflowing_elements(page)

    page.set_viewport_size(ViewportSize(width=1366, height=500))
    quantities[1].fill("many")
    error = rows[1].get_by_text("quantity: Enter a number.")
    expect(error).to_be_visible()
    page_actions.reason_field(page).fill("Fewer.")
    page.evaluate("scrollTo(0, 0)")
    page_actions.record_decision(page, "Edit")
    expect(quantities[1]).to_be_focused()
    expect(error).to_be_in_viewport(ratio=1)  # the row is in sight with what is said about it
    assert is_visible_in_viewport(quantities[1])


def test_sum_of_the_rows_is_put_into_the_field_of_the_total(start_payer: StartPayer, open_page: OpenPage) -> None:
    page = open_page("alice", viewport={"width": 1366, "height": 768})
    page_actions.open_payment_card(page, start_payer("--with-order").session_id)
    page_actions.choose_answer(page, "Edit")
    total = page.get_by_role("textbox", name="total_amount")
    use = page.get_by_role("button", name="Use 1,604.00 for order.total_amount")
    quantity = page.get_by_role("group", name="items, row 1").get_by_role("textbox", name="quantity")
    quantity.fill("250")
    expect(use).to_have_count(2)  # at the field, and beside the button
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # where the lower edge covers no control in part
    assert axe.list_accessibility_violations(page) == []
    assert not overflowing_elements(page)
    for place in (total.locator("xpath=ancestor::*[contains(@class, 'field')][1]"), page.locator(".sign-off")):
        place.get_by_role("button", name="Use 1,604.00").press("Enter")
        expect(total).to_have_value("1604.00")
        expect(total).to_be_focused()
        expect(page.locator("#announcement")).to_have_text("order.total_amount is now 1,604.00.")
        expect(use).to_have_count(0)
        expect(page.locator("#change")).to_contain_text("2 changes")
        page.keyboard.press("Control+A")
        page.keyboard.type("1700.00")
        expect(total).to_have_value("1700.00")
        expect(use).to_have_count(2)


def test_keys_of_the_button_that_records_changes_are_beside_it(start_payer: StartPayer, open_page: OpenPage) -> None:
    page = open_page("alice", viewport={"width": 1366, "height": 768})
    page_actions.open_payment_card(page, start_payer("--with-order").session_id)
    for answer in ("Approve", "Edit"):
        page_actions.choose_answer(page, answer)
        button = page.get_by_role("button", name=page_actions.RECORD_BUTTONS[answer])
        keys = button.locator("xpath=following-sibling::*[contains(@class, 'keyboard')]")
        expect(keys).to_have_text("Ctrl Enter")
        expect(keys).to_be_in_viewport(ratio=1)
    box = page.locator(".sign-off").bounding_box()
    assert box is not None
    assert box["height"] <= 768 / 4


def test_empty_number_of_an_added_row_is_null_in_json_and_comes_back(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    page = open_page("alice")
    page_actions.open_payment_card(page, start_payer("--with-lines").session_id)
    page_actions.choose_answer(page, "Edit")
    page.get_by_role("button", name="Add a row to lines").click()
    added = page.get_by_role("group", name="lines, row 4")
    added.get_by_role("textbox", name="sku").fill("DSK-01")
    expect(page.locator("#change")).to_contain_text("lines, row 4: quantity: Enter a number.")
    page.get_by_role("radio", name="JSON").check()
    text = page.get_by_role("textbox", name="Arguments")
    expect(text).to_have_value(re.compile(r'"sku": "DSK-01",\s+"description": "",\s+"quantity": null\s+}'))
    page.get_by_role("radio", name="Fields").check()
    expect(added.get_by_role("textbox", name="sku")).to_have_value("DSK-01")
    expect(added.get_by_role("textbox", name="quantity")).to_have_value("")
    expect(page.get_by_role("alert").filter(has_text="Still in JSON")).to_be_hidden()


@only_exhaustive
def test_long_text_is_edited_in_a_wide_column(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--with-memo")
    page = open_page("alice")
    for width, height in ((1366, 768), (1280, 720)):
        page.set_viewport_size(ViewportSize(width=width, height=height))
        page_actions.open_payment_card(page, payer.session_id)
        page_actions.choose_answer(page, "Edit")
        memo = page.get_by_role("textbox", name="memo")
        memo.fill(memo.input_value().replace("Line 30 of", "Line 30 in") + "\nOne more line.")
        expect(page.get_by_text("text, 61 lines")).to_be_visible()
        expect(page.locator("#change dd")).to_contain_text("Line 30")
        box = memo.bounding_box()
        assert box is not None
        assert box["width"] > 500
        assert box["height"] > 350
        assert list_positions_where_only_the_button_is_in_sight(page) == [], (width, height)
        page.evaluate("sessionStorage.clear()")


def test_warning_about_an_edited_value_is_in_sight_beside_the_button(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page.set_viewport_size(ViewportSize(width=1366, height=768))
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    page.locator("[data-argument='amount']").fill("")
    expect(page.locator("#change dl")).to_have_text(re.compile(r"amount\s+before 12300.00 → now \(empty\)"))
    page.locator("[data-argument='invoice']").fill("17a")
    error = page.locator(".by-field").get_by_text("Enter a number.")
    expect(error).to_be_visible()
    page.locator("[data-argument='payee']").focus()
    expect(page.get_by_text("invoice: Enter a number.")).to_be_visible()
    expect(error).to_be_visible()  # also after its field
    page.get_by_role("button", name="Undo invoice").click()
    warning = page.locator(".sign-off").get_by_text("amount was an amount; the new value “” is not one.")
    expect(warning).to_be_visible()
    assert is_visible_in_viewport(warning)
    page_actions.choose_answer(page, "Approve")
    expect(warning).to_be_hidden()


def list_positions_where_only_the_button_is_in_sight(page: Page) -> list[int]:
    """Scroll through the page; return where the button of an edit is in sight and the reason is not."""
    button = page.get_by_role("button", name=page_actions.RECORD_BUTTONS["Edit"]).element_handle()
    reason = page_actions.reason_field(page).element_handle()
    seen, alone = page.evaluate(POSITIONS_IN_SIGHT, [button, reason])
    assert seen
    return list(alone)


def test_reason_of_an_edit_is_in_sight_wherever_its_button_is(
    site: Site, start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer("--decide-within=3600")
    page = open_page("alice")
    for width, height in VIEWPORT_SIZES:
        page.set_viewport_size(ViewportSize(width=width, height=height))
        page_actions.open_payment_card(page, payer.session_id)
        page_actions.choose_answer(page, "Edit")
        assert list_positions_where_only_the_button_is_in_sight(page) == [], (width, height)

        page.locator("[data-stored]").first.fill("7")
        expect(page.locator("#change .differences")).to_be_visible()
        assert list_positions_where_only_the_button_is_in_sight(page) == [], (width, height)
        last_field = page.locator(".by-field [data-stored]").last
        last_field.focus()
        assert is_visible_in_viewport(last_field)  # the focused field is not below the button

        page.get_by_role("radio", name="JSON").check()
        page.get_by_role("textbox", name="Arguments").fill("{\n" + 40 * "\n" + "}")
        assert list_positions_where_only_the_button_is_in_sight(page) == [], (width, height)
        page.evaluate("sessionStorage.clear()")


#: Of the elements, those that scroll by themselves.
SCROLLED_PARTS = """all => all.filter(e =>
    e.scrollHeight > e.clientHeight + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowY))"""


def record_edit_with_reason(site: Site, page: Page, reason: str) -> None:
    """Record changed arguments of another payment, so that the reason is offered for the next edit."""
    payer = site.payer("inv-with-reason", "--with-memo")
    try:
        page_actions.open_payment_card(page, payer.session_id)
        page_actions.choose_answer(page, "Edit")
        page.locator("[data-argument='amount']").fill("12299.00")
        expect(page.locator("#change")).to_contain_text("1 change")
        page_actions.reason_field(page).fill(reason)
        page_actions.record_decision(page, "Edit")
        expect(page.locator("#decision-state")).to_contain_text("Your change was recorded")
    finally:
        payer.stop()


def test_fields_of_an_edit_have_most_of_a_small_window(
    site: Site, start_payer: StartPayer, open_page: OpenPage
) -> None:
    page = open_page("alice")
    page.set_viewport_size(ViewportSize(width=1366, height=768))
    record_edit_with_reason(site, page, "The supplier has sent a corrected invoice, and purchasing agreed with it.")
    page_actions.open_payment_card(page, start_payer("--with-memo").session_id)
    page_actions.choose_answer(page, "Edit")
    for name, text in (("amount", "1.00"), ("currency", ""), ("due", "")):
        page.locator(f"[data-argument='{name}']").fill(text)
    expect(page.locator("#warned-arguments")).to_contain_text("currency, due")
    expect(page.locator("#change").get_by_text("3 changes", exact=True)).to_be_visible()
    foot, memo = page.locator(".sign-off"), page.get_by_role("textbox", name="memo")
    memo.focus()
    expect(foot.get_by_role("button", name="The supplier has sent")).to_be_visible()
    box = foot.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 768
    assert box["height"] <= 768 / 4  # with the warnings, and the reason of another edit
    assert foot.locator("*").evaluate_all(SCROLLED_PARTS) == []
    rows = page.locator(".by-field .short").evaluate_all("all => all.map(row => row.offsetHeight)")
    assert len(rows) == 5
    assert min(rows) <= 40  # with its label

    # Several changes are listed after a click, where they are in sight and push the fields up.
    page.get_by_role("button", name="Undo currency").click()
    for name, text in (("amount", "12000.00"), ("due", "2026-12-24"), ("remind_at", "2026-12-23T08:00")):
        page.locator(f"[data-argument='{name}']").fill(text)
    expect(page.locator("#change").get_by_text("3 changes", exact=True)).to_be_visible()
    expect(page.locator("#warned-arguments")).to_be_empty()
    box = foot.bounding_box()
    assert box is not None
    assert box["height"] <= 768 / 4
    expect(page.locator("#change dl")).to_be_hidden()
    page.locator("#change summary").click()
    expect(page.locator("#change dl")).to_be_in_viewport(ratio=1)
    assert foot.locator("*").evaluate_all(SCROLLED_PARTS) == []
    assert list_positions_where_only_the_button_is_in_sight(page) == []

    # Short ones have room beside the reason.
    page.get_by_role("button", name="Undo remind_at").click()
    expect(page.locator("#change").get_by_text("2 changes", exact=True)).to_be_visible()
    memo.focus()
    expect(page.locator("#change dl")).to_be_in_viewport(ratio=1)
    box = foot.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 768
    assert box["height"] <= 768 / 4
    assert foot.locator("*").evaluate_all(SCROLLED_PARTS) == []


def test_way_from_a_field_to_the_button_of_an_edit_is_one_tap_on_a_phone(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    page = open_page("alice")
    page.set_viewport_size(ViewportSize(width=390, height=844))
    page_actions.open_payment_card(page, start_payer("--with-memo").session_id)
    page_actions.choose_answer(page, "Edit")
    memo = page.get_by_role("textbox", name="memo")
    get_height = "field => field.offsetHeight"
    assert memo.evaluate("field => field.clientHeight >= Math.min(field.scrollHeight, 940)")  # as on a laptop
    height = memo.evaluate(get_height)
    assert height > 844 / 2
    memo.focus()
    assert memo.evaluate(get_height) == height
    page.locator("[data-argument='amount']").fill("1230.00")
    count, link = page.locator("#change-count"), page.get_by_role("link", name="Next: reason")
    expect(count).to_have_text("1 change")
    page.locator("[data-argument='invoice']").fill("17a")
    expect(count).to_have_text("1 value to correct")
    page.get_by_role("button", name="Undo invoice").click()
    expect(count).to_have_text("1 change")
    assert is_visible_in_viewport(link)
    assert page.locator(".to-changes").evaluate(get_height) < 844 / 6
    assert not overflowing_elements(page)

    for name, text in (("currency", "USD"), ("due", "2026-12-24"), ("remind_at", "2026-12-23T08:00")):
        page.locator(f"[data-argument='{name}']").fill(text)
    expect(count).to_have_text("4 changes")
    link.click()
    button = page.get_by_role("button", name=page_actions.RECORD_BUTTONS["Edit"])
    for part in (page.locator("#change dl"), page_actions.reason_field(page), button):
        assert is_visible_in_viewport(part)
    expect(link).to_be_hidden()  # its button is in sight


@only_exhaustive
def test_way_back_of_a_short_field_is_not_below_the_field_in_german(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer()
    page_actions.open_payment_card(open_page("bob"), payer.session_id)  # it is listed
    page = open_page("alice", viewport={"width": 390, "height": 844}, locale="de-DE")
    page.goto("/review/?tab=awaiting")
    page.locator("li", has_text=payer.session_id).locator("a.open").first.click()
    page.locator("[name='kind'][value='edit']").check()
    page.locator("[data-argument='amount']").fill("1230.00")
    undo = page.get_by_role("button", name="Rückgängig amount")
    expect(undo).to_be_visible()
    assert undo.evaluate(
        "e => e.getBoundingClientRect().right <= e.closest('.argument-name').getBoundingClientRect().right"
    )


@only_exhaustive
def test_columns_keep_their_widths_while_arguments_are_edited(
    site: Site, start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    page.set_viewport_size(ViewportSize(width=1366, height=768))
    page_actions.open_payment_card(page, payer.session_id)
    get_columns = "getComputedStyle(document.querySelector('.deciding')).gridTemplateColumns"
    columns = page.evaluate(get_columns)
    page_actions.choose_answer(page, "Edit")
    fields = page.locator(".by-field [data-argument]")
    fonts = fields.evaluate_all("all => all.map(field => getComputedStyle(field).fontFamily)")
    assert fonts
    assert all("Mono" in font for font in fonts)

    page.get_by_role("radio", name="JSON").check()
    page.get_by_role("textbox", name="Arguments").fill('{"memo": "' + 400 * "x")
    page.get_by_text("Add a comment").click()
    page.get_by_role("textbox", name="Comment").fill("Not sent yet.")
    page_actions.record_decision(page, "Edit")
    expect(page.locator("form[data-sent]")).to_be_visible()
    assert page.evaluate(get_columns) == columns
    expect(page.get_by_role("textbox", name="Comment")).to_have_value("Not sent yet.")
    expect(page.get_by_role("textbox", name="Comment")).to_be_visible()


@only_exhaustive
def test_head_of_a_card_that_two_people_read_is_not_cut_on_a_phone(
    site: Site, start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer()
    pages = [open_page(name, viewport={"width": 390, "height": 844}, locale="de-DE") for name in ("alice", "bob")]
    for page in pages:
        page.goto("/review/?tab=awaiting")
        page.locator("a.open", has_text=payer.session_id).or_(
            page.locator("li", has_text=payer.session_id).locator("a.open")
        ).first.click()
        expect(page.locator("#people")).to_be_attached()
    pages[1].reload()
    expect(pages[1].locator("#people")).to_contain_text("alice hat diese Seite auch geöffnet")
    assert pages[1].evaluate(
        "[...document.querySelectorAll('.crumbs, #people p > span')].every(e => e.scrollWidth <= e.clientWidth)"
    )


def test_offline_and_sign_out_are_reported_beside_the_button(
    private_site: Site, start_agent: StartAgent, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    start_agent(private_site, 17)
    page = open_page("alice", private_site)
    page_monitors[0].ignore(f"status of 40[13]|Error Code 40[13]|{LOST_REQUESTS}|{LOST_WEBSOCKET}")
    page.add_init_script("window.setInterval = () => 0")  # what follows is reported at once, not when the page polls
    page_actions.open_refund_card(page, 17)
    page_actions.fill_in_decision(page, "It did not happen", "Seen in the ledger.")
    problem = page.locator(".send [data-connection]")
    expect(problem).to_be_hidden()

    page.context.set_offline(True)
    expect(problem).to_have_text("You are offline. Your text stays here; send it when you are back online.")
    page.context.set_offline(False)
    expect(problem).to_be_hidden()

    second_tab = page.context.new_page()
    second_tab.goto("/review/")
    second_tab.get_by_role("button", name="Sign out").click()
    expect(second_tab.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    expect(problem).to_contain_text("You are signed out. Your text stays here.")
    expect(problem.get_by_role("link", name="Open the sign-in page in another tab")).to_be_visible()
    expect(page_actions.reason_field(page)).to_have_value("Seen in the ledger.")


def test_server_that_is_heard_from_without_a_network_is_not_reported_as_out_of_reach(open_page: OpenPage) -> None:
    """The server can be on the machine of the browser, or in a network that the browser does not know."""
    page = open_page("alice")
    page.goto("/review/")
    offline = page.get_by_text("You are offline — showing the state at")
    page.evaluate("""() => {
        Object.defineProperty(navigator, "onLine", { get: () => false });
        window.dispatchEvent(new Event("offline"));
    }""")
    expect(offline).to_be_visible()
    expect(offline).to_be_hidden()  # after the next message of the server


def test_form_closes_when_the_deadline_passes(site: Site, start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--decide-within=3600")
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.fill_in_decision(page, "Approve", "The contract says so.")
    page.evaluate(SET_DEADLINE, site.run(bring_deadline_near_in_child, session_id=payer.session_id))
    expect(page.get_by_text("Only an admin can decide now. Nothing runs until then.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve this call")).to_be_hidden()
    expect(page.get_by_role("radio").filter(visible=True)).to_have_count(0)
    expect(page.get_by_role("textbox", name="Your text")).to_have_value("The contract says so.")
    expect(page.get_by_text("Your text is still here.").filter(visible=True)).to_have_count(1)
    expect(page.locator(".note.bad").filter(visible=True)).to_have_count(1)
    assert payer.payments == []
