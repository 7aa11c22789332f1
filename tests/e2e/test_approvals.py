"""Calls that require approvals: edited by one person and approved by two, in browsers that update live."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage
from tests.support import axe
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.page_overflow import overflowing_elements
from tests.support.reloaded_page import expect_to_be_as_reloaded
from tests.support.site_process import Payer, Site

EXPECTED_PAYMENT = "8841 1230.00 Northwind GmbH"
StartPayer = Callable[..., Payer]


@pytest.fixture
def start_payer(site: Site, order_number: int) -> Iterator[StartPayer]:
    with ExitStack() as stack:

        def start(*options: str) -> Payer:
            payer = site.payer(f"inv-{order_number}", *options)
            stack.callback(payer.stop)
            return payer

        yield start


def edit_arguments(page: Page, before: str, after: str) -> None:
    """Choose Edit, and replace a part of the arguments."""
    page_actions.choose_answer(page, "Edit")
    page.get_by_role("radio", name="JSON").check()
    arguments = page.get_by_role("textbox", name="Arguments")
    arguments.fill(arguments.input_value().replace(before, after))
    page_actions.reason_field(page).fill("Only the first tenth is due.")


def approve(page: Page, reason: str) -> None:
    page_actions.choose_answer(page, "Approve")
    page_actions.reason_field(page).fill(reason)
    page_actions.record_decision(page, "Approve")


def expect_heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1, name=text)).to_be_visible()


class DelayedResponse:
    """Response of the server to a form, held back until the test releases it."""

    def __init__(self, page: Page) -> None:
        self._delayed_routes: list[tuple[Route, APIResponse]] = []
        self._page = page
        page.route("**/review/calls/*/", self._delay_posts)

    def _delay_posts(self, route: Route) -> None:
        if route.request.method == "POST":
            self._delayed_routes.append((route, route.fetch()))
        else:
            route.continue_()

    def release(self, current_text: str, earlier_text: str) -> None:
        """Deliver the response with an earlier state of the page: `earlier_text` in place of `current_text`."""
        while (
            not self._delayed_routes
        ):  # the other pages may learn of the decision before its response has arrived here
            self._page.wait_for_timeout(50)
        ((route, response),) = self._delayed_routes
        route.fulfill(response=response, body=response.text().replace(current_text, earlier_text))
        self._page.unroute("**/review/calls/*/", self._delay_posts)


def test_payment_is_edited_by_one_person_and_approved_by_two(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--approvals=2")
    alice, bob, dora = open_page("alice"), open_page("bob"), open_page("dora")
    for page in (alice, bob, dora):
        page_actions.open_payment_card(page, payer.session_id)
    page_actions.reason_field(bob).fill("I am still reading.")

    edit_arguments(alice, "12300.00", "1230.00")
    expect(alice.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.record_decision(alice, "Edit")
    expect(alice.get_by_text("changed the arguments at").first).to_be_visible()  # a live update says it, too

    # Bob's open page says what happened, keeps the reason that he typed, and goes on with the changed call.
    expect(bob.get_by_text("alice changed the arguments at")).to_have_count(2)  # above the form, and with the change
    expect(page_actions.reason_field(bob)).to_have_value("I am still reading.")
    page_actions.choose_answer(bob, "Approve")
    bob.get_by_role("link", name="Continue with the new state").click()
    expect(bob.get_by_text("Your answer and your text are kept.")).to_have_count(0)
    expect(bob.locator("#call-events")).to_have_count(1)
    expect(page_actions.reason_field(bob)).to_have_value("I am still reading.")
    expect(bob.get_by_role("radio", name="Approve")).to_be_checked()
    expect(bob.locator("[data-argument='amount']")).to_have_value("1230.00")
    approve(bob, "The contract says so.")
    approval_line = re.compile(r"^\s*bob( \(you\))? approved at [:0-9]+\s*The contract says so\.\s*$")
    expect_heading(bob, "You approved: 1 more person has to approve")
    for page in (bob, alice):
        expect(page.get_by_text("1 of 2 approvals", exact=True)).to_be_visible()
        expect(page.get_by_role("listitem").filter(has_text=approval_line)).to_be_visible()
    bob.get_by_text("Change or withdraw your decision").click()
    expect(bob.get_by_role("radio", name="Approve")).to_be_disabled()
    assert payer.payments == []

    # The person who edited the arguments cannot approve them.
    expect_heading(alice, "You changed the arguments: 1 other person has to approve")
    alice.get_by_text("Change your decision").click()
    expect(alice.get_by_role("radio", name="Approve")).to_be_disabled()

    # A response that was rendered before the call ran, and arrives afterwards, is updated.
    delayed_response = DelayedResponse(dora)
    approve(dora, "Agreed.")
    for page in (alice, bob):
        expect_heading(page, "Approved: it has run")
        expect(page_actions.completion_notice(page)).to_be_visible()
    delayed_response.release("Approved: it has run", "Approved: it has not run yet")
    for page in (alice, bob, dora):
        expect_heading(page, "Approved: it has run")
        expect(page.get_by_text("Paid 1230.00 EUR to Northwind GmbH.").first).to_be_visible()
        expect(page_actions.completion_notice(page)).to_be_visible()
        expect_to_be_as_reloaded(page)
    assert payer.payments == [EXPECTED_PAYMENT]


def test_open_pages_show_what_others_decide(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--approvals=2")
    voter, writer, onlooker = (open_page(name) for name in ("alice", "bob", "dora"))
    for page in (voter, writer, onlooker):
        page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(writer, "Approve")
    page_actions.reason_field(writer).fill("I am still reading.")
    effect = writer.locator(".consequence:visible").filter(has_text="Then:")
    expect(effect).to_contain_text("Nothing runs yet: one more person has to approve.")

    # The voter is done. An empty form is replaced; one with an answer stays, and says what follows now.
    page_actions.choose_answer(voter, "Approve")
    page_actions.reason_field(voter).fill("The contract says so.")
    voter.get_by_text("Add evidence").focus()
    voter.keyboard.press("Control+Enter")
    expect_heading(voter, "You approved: 1 more person has to approve")
    # There is a next call if another test has left one.
    expect(voter.locator("#heading:focus, a[data-next]:focus")).to_have_count(1)
    expect(onlooker.get_by_text("alice approved at")).to_be_visible()
    expect(onlooker.locator("form[data-decide] [name='revision']")).to_have_value("2")
    expect(onlooker.get_by_text("Continue with the new state")).to_have_count(0)
    expect(writer.get_by_role("status").filter(has_text="alice approved at")).to_be_visible()
    expect(effect).to_contain_text("It runs pay_invoice, and the agent gets the result.")
    expect(writer.locator("form[data-decide] [name='revision']")).to_have_value("1")
    expect(page_actions.reason_field(writer)).to_have_value("I am still reading.")

    # Once the call is decided, only the form with an answer stays.
    page_actions.choose_answer(onlooker, "Reject")
    onlooker.get_by_role("textbox", name="Why").fill("It is paid already.")
    page_actions.record_decision(onlooker, "Reject")
    expect_heading(voter, "dora rejected it; you had approved it")
    expect(voter.locator("form[data-decide]")).to_have_count(0)
    expect(voter.locator("#announcement")).to_have_text("dora rejected it; you had approved it")
    expect(writer.get_by_role("alert").filter(has_text="dora decided first, at")).to_be_visible()


def test_draft_of_a_call_that_was_changed_meanwhile_chooses_no_answer(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer()
    writer, editor = open_page("bob"), open_page("alice")
    page_monitors[0].ignore("status of 422")  # no answer is chosen
    for page in (writer, editor):
        page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(writer, "Approve")
    page_actions.reason_field(writer).fill("12,300.00 fits the budget.")
    writer.goto("/review/")
    edit_arguments(editor, "12300.00", "92300.00")
    expect(editor.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.record_decision(editor, "Edit")
    expect(editor.get_by_text("Your change was recorded at")).to_be_visible()

    page_actions.open_payment_card(writer, payer.session_id)
    note = writer.get_by_role("status").filter(has_text="Your text is from before this change.")
    for _ in range(2):
        expect(note).to_contain_text(re.compile(r"alice changed the arguments at [:0-9]+"))
        expect(note.get_by_text("92,300.00")).to_be_visible()
        expect(page_actions.reason_field(writer)).to_have_value("12,300.00 fits the budget.")
        expect(writer.locator("[name='kind']:checked")).to_have_count(0)
        page_actions.reason_field(writer).press("Control+Enter")
        writer.reload()
    assert payer.payments == []
    approve(writer, "92,300.00 fits the budget, too.")
    expect_heading(writer, "Approved: it has run")


def test_preview_of_a_draft_that_is_discarded_meanwhile_is_not_drawn(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    page = open_page("alice")
    page_actions.open_payment_card(page, start_payer().session_id)
    page_actions.choose_answer(page, "Edit")
    page.get_by_role("textbox", name="amount").fill("1230.00")
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/change/", lambda route: late.append((route, route.fetch())))
    page.reload()
    while not late:
        page.wait_for_timeout(50)
    page.get_by_role("button", name="Discard", exact=True).click()
    route, response = late[0]
    route.fulfill(response=response)
    page.unroute("**/change/")
    page_actions.wait_until(page, "!document.querySelector('form .htmx-request')")
    page_actions.choose_answer(page, "Edit")
    expect(page.get_by_text("No argument is changed yet.")).to_be_visible()


def test_edit_of_a_draft_is_offered_again_once_somebody_else_has_changed_the_call(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer()
    writer, editor = open_page("bob"), open_page("alice")
    for page in (writer, editor):
        page_actions.open_payment_card(page, payer.session_id)
    amount = writer.get_by_role("textbox", name="amount")
    page_actions.choose_answer(writer, "Edit")
    amount.fill("1230.00")
    page_actions.reason_field(writer).fill("Only a tenth")
    writer.goto("/review/")
    edit_arguments(editor, "Northwind GmbH", "Northwind AG")
    expect(editor.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.record_decision(editor, "Edit")
    own_change = editor.get_by_text(re.compile("Your change was recorded at [:0-9]+"))
    expect(own_change).to_be_visible()
    page_actions.choose_answer(editor, "Edit")
    editor.get_by_role("textbox", name="amount").fill("12.00")
    expect(own_change).to_be_hidden()

    note = writer.locator("[data-earlier-changes]")
    page_actions.open_payment_card(writer, payer.session_id)
    for _ in range(2):
        expect(note).to_contain_text("amount 1230.00")
        expect(writer.get_by_text("Your draft is back")).to_be_visible()
        page_actions.reason_field(writer).focus()
        writer.keyboard.type(".")
        writer.reload()
    expect(page_actions.reason_field(writer)).to_have_value("Only a tenth..")
    note.get_by_role("button", name="Use them again").click()
    expect(note).to_be_hidden()
    expect(writer.get_by_role("radio", name="Edit")).to_be_checked()
    expect(amount).to_have_value("1230.00")
    expect(writer.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    expect(writer.locator("[data-argument='payee']")).to_have_value("Northwind AG")
    writer.reload()
    expect(amount).to_have_value("1230.00")
    writer.get_by_role("button", name="Discard", exact=True).click()
    expect(writer.locator("[name='kind']:checked")).to_have_count(0)
    expect(writer.get_by_role("button", name="Record decision")).to_be_visible()
    page_actions.choose_answer(writer, "Edit")
    expect(amount).to_have_value("12300.00")
    expect(writer.get_by_text("No argument is changed yet.")).to_be_visible()
    expect(note).to_be_hidden()


def test_reason_of_a_draft_goes_on_in_the_field_of_another_answer(start_payer: StartPayer, open_page: OpenPage) -> None:
    page = open_page("alice")
    page_actions.open_payment_card(page, start_payer().session_id)
    page_actions.choose_answer(page, "Approve")
    page_actions.reason_field(page).fill("Nothing is due")
    page.reload()
    expect(page_actions.reason_field(page)).to_have_value("Nothing is due")
    page_actions.wait_until(page, "document.readyState === 'complete'")
    page.locator("#heading").click()
    page.keyboard.press("3")
    page.keyboard.type(", at all")
    expect(page.get_by_role("textbox", name="Why")).to_have_value("Nothing is due, at all")


def test_reason_of_an_edit_is_not_among_the_unrecorded_texts(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer()
    editor, decider = open_page("alice"), open_page("bob")
    for page in (editor, decider):
        page_actions.open_payment_card(page, payer.session_id)
    edit_arguments(editor, "12300.00", "1230.00")
    expect(editor.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.record_decision(editor, "Edit")
    expect(editor.get_by_text("Your change was recorded at")).to_be_visible()
    page_actions.choose_answer(editor, "Reject")
    editor.get_by_role("textbox", name="Why").fill("Nothing is due.")
    decider.reload()
    approve(decider, "The contract says so.")
    expect(editor.get_by_role("alert").filter(has_text="bob decided first, at")).to_be_visible()
    expect(editor.get_by_role("textbox", name="Why")).to_have_value("Nothing is due.")
    expect(editor.get_by_role("textbox", name="Your text")).to_be_hidden()


def test_call_is_approved_only_once_a_typed_change_is_recorded_or_discarded(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    note = page.locator("[data-unrecorded-changes]")
    amount = page.get_by_role("textbox", name="amount")
    page_actions.choose_answer(page, "Edit")
    amount.fill("1230.00")
    expect(note).to_be_hidden()
    approve(page, "The contract says so.")
    expect(note).to_contain_text("1 change of the arguments is not recorded")
    expect(note).to_be_focused()
    page_actions.reason_field(page).press("Control+Enter")
    expect(note).to_be_focused()
    assert payer.payments == []

    note.get_by_role("button", name="Check and record the changes").click()
    expect(page.get_by_role("radio", name="Edit")).to_be_checked()
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.choose_answer(page, "Reject")
    expect(note).to_contain_text("A rejection does not contain them.")
    note.get_by_role("button", name="Discard the changes").click()
    expect(note).to_be_hidden()
    page_actions.choose_answer(page, "Edit")
    expect(amount).to_have_value("12300.00")
    expect(page.get_by_text("No argument is changed yet.")).to_be_visible()
    approve(page, "The contract says so.")
    expect_heading(page, "Approved: it has run")
    assert payer.payments == [EXPECTED_PAYMENT.replace("1230.00", "12300.00")]


@only_exhaustive
def test_call_is_approved_only_once_a_typed_change_is_recorded_or_discarded_without_javascript(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page("alice", java_script_enabled=False)
    page_monitors[0].ignore("status of 422")
    page_actions.open_payment_card(page, start_payer().session_id)
    edit_arguments(page, "12300.00", "1230.00")
    page_actions.choose_answer(page, "Approve")
    page.get_by_role("button", name="Record decision").click()
    note = page.get_by_role("alert").filter(has_text="1 change of the arguments is not recorded")
    expect(note).to_be_visible()
    note.get_by_role("button", name="Discard the changes").click()
    expect(note).to_have_count(0)
    expect(page_actions.reason_field(page)).to_have_value("Only the first tenth is due.")
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_role("heading", level=1, name=re.compile("^Approved"))).to_be_visible()


@only_exhaustive
def test_decision_from_a_filtered_list_says_that_the_list_is_done(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    page.goto(f"{page_actions.AWAITING_QUEUE_URL}&q={payer.session_id}")
    page_actions.payment_link(page, payer.session_id).click()
    approve(page, "The contract says so.")
    expect(page.get_by_text("No other waiting call matches the filters")).to_be_visible()
    assert not overflowing_elements(page)


def test_single_argument_is_edited_and_file_evidence_is_attached(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    page.get_by_role("textbox", name="amount").fill("1230.00")
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    page_actions.reason_field(page).fill("Only the first tenth is due.")
    page_actions.record_decision(page, "Edit")
    expect(page.get_by_text("changed the arguments at").last).to_be_visible()
    expect(page_actions.reason_field(page)).to_have_value("")  # it was given for the edit, not for what follows
    page_actions.choose_answer(page, "Reject")
    use_again = page.get_by_role("button", name="Only the first tenth is due.")
    expect(page.get_by_role("textbox", name="Why")).to_have_value("")
    expect(use_again).to_be_hidden()

    page_actions.choose_answer(page, "Approve")
    use_again.filter(visible=True).click()
    expect(page_actions.reason_field(page)).to_have_value("Only the first tenth is due.")
    page_actions.reason_field(page).fill("The contract says so.")
    contract = {"name": "contract.html", "mimeType": "text/html", "buffer": b"<script>alert(1)</script>"}
    page.get_by_label("File").set_input_files(contract)  # type: ignore[arg-type]
    page_actions.record_decision(page, "Approve")
    with page.expect_download() as download:
        page.get_by_role("link", name="contract.html").click()
    assert download.value.path().read_bytes() == contract["buffer"]
    expect_heading(page, "Approved: it has run")
    assert payer.payments == [EXPECTED_PAYMENT]


def test_json_and_fields_are_one_edit(start_payer: StartPayer, open_page: OpenPage) -> None:
    page = open_page("alice")
    page_actions.open_payment_card(page, start_payer().session_id)
    page_actions.choose_answer(page, "Edit")
    fields, json = (page.get_by_role("radio", name=name, exact=True) for name in ("Fields", "JSON"))
    amount, arguments = (page.get_by_role("textbox", name=name) for name in ("amount", "Arguments"))
    why = page.get_by_role("alert").filter(has_text="Still in JSON")

    json.check()
    original = arguments.input_value()
    arguments.fill(original.replace("12300.00", "1230.00"))
    fields.check()
    expect(amount).to_have_value("1230.00")
    amount.fill("1240.00")
    json.check()
    edited = original.replace("12300.00", "1240.00")
    expect(arguments).to_have_value(edited)
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()

    for text, reason in (
        (edited[:-1], "The JSON has an error."),
        (edited.replace("{", '{"extra": 1, ', 1), "“extra” has no field."),
        (edited.replace('"1240.00"', "1240"), "The field of “amount” takes only a text of one line."),
        (re.sub(r'"amount": "1240.00",?', "", edited), "“amount” is missing, and a field cannot be left out."),
    ):
        arguments.fill(text)
        expect(why).to_be_hidden()
        fields.click()
        expect(why).to_contain_text(reason)
        expect(json).to_be_checked()
        expect(arguments).to_have_value(text)
    page.get_by_role("button", name="Undo the changes in JSON").click()
    expect(fields).to_be_checked()
    expect(amount).to_have_value("12300.00")
    expect(page.get_by_text("No argument is changed yet.")).to_be_visible()


def test_chosen_answer_without_any_text_comes_back_without_a_word_about_a_draft(
    start_payer: StartPayer, open_page: OpenPage
) -> None:
    payer, page = start_payer(), open_page("alice")
    note = page.get_by_text("Your draft is back")
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    page.reload()
    expect(page.locator("[name='kind'][value='edit']")).to_be_checked()
    expect(note).to_be_hidden()
    page.get_by_role("textbox", name="amount").fill("1230.00")
    page.reload()
    expect(page.locator("[name='kind'][value='edit']")).to_be_checked()
    expect(note).to_be_visible()


@only_exhaustive
def test_dates_in_json_and_fields_are_one_edit(start_payer: StartPayer, open_page: OpenPage) -> None:
    page = open_page("alice")
    page_actions.open_payment_card(page, start_payer("--with-memo").session_id)
    page_actions.choose_answer(page, "Edit")
    fields, json = (page.get_by_role("radio", name=name, exact=True) for name in ("Fields", "JSON"))
    due, remind_at = (page.locator(f"[data-argument='{name}']") for name in ("due", "remind_at"))
    expect(due).to_have_attribute("type", "date")
    due.fill("2026-12-24")
    remind_at.fill("2026-12-23T17:30")
    page.reload()
    expect(due).to_have_value("2026-12-24")  # the draft is back
    json.check()
    arguments = page.get_by_role("textbox", name="Arguments")
    expect(arguments).to_have_value(re.compile('"due": "2026-12-24",\n  "remind_at": "2026-12-23T17:30"'))
    for text, kind in (("2026-12-24T08:00", "a date such as"), ("on Monday", "a date such as")):
        edited = arguments.input_value().replace("2026-12-24", text)
        arguments.fill(edited)
        fields.click()
        expect(page.get_by_role("alert").filter(has_text="Still in JSON")).to_contain_text(kind)
        arguments.fill(edited.replace(text, "2026-12-24"))
    fields.click()
    expect(due).to_have_value("2026-12-24")
    expect(remind_at).to_have_value("2026-12-23T17:30")
    due.fill("")
    expect(page.locator(".sign-off").get_by_text("due was a date; the new value “” is not one.")).to_be_visible()


def test_key_records_changed_arguments_and_approves_the_call(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Approve")
    page_actions.reason_field(page).fill("The invoice is right.")
    page.keyboard.press("Control+Shift+Enter")  # there is no change that it could record
    expect(page.get_by_role("heading", level=1, name="May this happen?")).to_be_visible()
    page_actions.choose_answer(page, "Edit")
    amount = page.get_by_role("textbox", name="amount")
    amount.fill("1,234")
    expect(page.get_by_text("“1,234” can be read as 1234 or as 1.2340. Enter one of these.").first).to_be_visible()
    page_actions.reason_field(page).fill("The invoice says so.")
    both = page.get_by_role("button", name="Record and approve")
    expect(both).to_be_in_viewport()
    expect(both).to_be_disabled()
    expect(both).to_have_accessible_description("Correct the values first.")
    expect(page.locator(".sign-off").get_by_text("Correct the values first.")).to_be_in_viewport()
    page_actions.reason_field(page).press("Control+Shift+Enter")  # leads to the value, and sends nothing
    expect(amount).to_be_focused()
    expect(page.locator("#announcement")).to_have_text("Correct the values first.")
    amount.fill("1234.50")
    expect(page.locator("#change")).to_contain_text("1234.50 (1,234.50)")
    expect(both).to_be_enabled()
    expect(both).to_have_accessible_description("Runs once the session continues.")
    expect(both).to_have_attribute("aria-keyshortcuts", "Control+Shift+Enter")
    expect(both.locator("xpath=following-sibling::*[contains(@class, 'keyboard')]")).to_have_text("Ctrl Shift Enter")
    page_actions.reason_field(page).press("Control+Shift+Enter")
    expect(page.locator("#call-events").get_by_text("Arguments changed")).to_be_visible()
    expect(page.locator("#head h1")).to_contain_text("Approved")
    expect(page.locator("#about .argument-edit")).to_contain_text("1234.50 (1,234.50)")


def test_key_says_that_changes_with_a_warning_are_recorded_before_they_are_approved(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    page_actions.open_payment_card(page, payer.session_id)
    page_actions.choose_answer(page, "Edit")
    amount, both = page.get_by_role("textbox", name="amount"), page.get_by_role("button", name="Record and approve")
    amount.fill("1230.00")
    page_actions.reason_field(page).fill("Only the first tenth is due.")
    expect(both).to_be_disabled()
    expect(both).to_be_in_viewport()
    expect(both).to_have_accessible_description("Record the warned changes first.")
    expect(page.locator(".sign-off").get_by_text("Record the warned changes first.")).to_be_in_viewport()
    words = (
        "Nothing was recorded. The new arguments have warnings: record the changes first, then approve the call in a "
        "second step."
    )
    note, announcement = page.locator(".sign-off").get_by_text(words), page.locator("#announcement")
    expect(note).to_be_hidden()
    amount.press("Control+Shift+Enter")
    expect(note).to_be_in_viewport()
    expect(announcement).to_have_text(words)
    amount.fill("12000.00")
    expect(both).to_be_enabled()
    expect(note).to_be_hidden()
    amount.fill("1230.00")
    expect(both).to_be_disabled()
    expect(note).to_be_hidden()  # until the key is pressed again
    # A click on the button says the same, and nothing is recorded either.
    both.click(force=True)
    expect(note).to_be_in_viewport()
    expect(page.get_by_role("heading", level=1, name="May this happen?")).to_be_visible()
    page_actions.record_decision(page, "Edit")
    expect(page.get_by_text("changed the arguments at").last).to_be_visible()
    expect(page.locator("#call-events").get_by_text("Arguments changed")).to_have_count(1)


@only_exhaustive
def test_edit_is_sent_while_its_preview_is_awaited(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_monitors[0].ignore("htmx:(afterRequest|sendAbort)")  # the previews are stopped
    page_actions.open_payment_card(page, payer.session_id)
    expect(page.get_by_role("button", name="Record and approve")).to_be_hidden()
    page.route("**/change/", lambda _route: None)  # never answered
    page_actions.choose_answer(page, "Edit")
    page_actions.reason_field(page).fill("Only the first tenth is due.")
    amount = page.get_by_role("textbox", name="amount")
    for text in ("123.00", "1230.00"):  # the second preview waits for the first
        amount.fill(text)
        page.wait_for_timeout(600)
    amount.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="Not recorded yet. Check the changes below")).to_be_in_viewport()
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Record and approve")).to_be_disabled()  # a tenth is warned about
    page_actions.record_decision(page, "Edit")
    expect(page.get_by_text("changed the arguments at").last).to_be_visible()
    page_actions.fill_in_decision(page, "Approve", "The first tenth is right.")
    page_actions.record_decision(page, "Approve")
    expect_heading(page, "Approved: it has run")
    assert payer.payments == [EXPECTED_PAYMENT]


@only_exhaustive
def test_edit_and_approval_without_javascript(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer()
    page = open_page("alice", java_script_enabled=False)
    page_actions.open_payment_card(page, payer.session_id)
    edit_arguments(page, "12300.00", "1230.00")
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_role("alert")).to_contain_text("Not recorded yet. Check the changes below, then record them.")
    expect(page.get_by_role("textbox", name="Arguments")).to_have_value(re.compile("1230.00"))
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_text("changed the arguments at")).to_be_visible()

    page_actions.choose_answer(page, "Approve")
    page_actions.reason_field(page).fill("The contract says so.")
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_role("heading", level=1, name=re.compile("^Approved"))).to_be_visible()
    for _ in range(100):
        if page_actions.completion_notice(page).count():
            break
        page.wait_for_timeout(200)
        page.reload()
    expect_heading(page, "Approved: it has run")
    assert payer.payments == [EXPECTED_PAYMENT]


@pytest.mark.parametrize(
    ("answer", "field", "expected_heading"),
    mark_all_but_each(
        2,
        [
            ("Reject", "Why", "Rejected: it does not run"),
            ("Respond instead", "Answer to the agent", "Responded instead: it does not run"),
        ],
    ),
)
def test_rejection_or_response_is_delivered_to_the_agent(
    start_payer: StartPayer, open_page: OpenPage, answer: str, field: str, expected_heading: str
) -> None:
    payer = start_payer()
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    if answer == "Reject":  # a reason that is typed first is what the agent gets
        page_actions.reason_field(page).fill("The supplier sends another invoice.")
        page_actions.choose_answer(page, answer)
        expect(page_actions.reason_field(page)).to_be_hidden()
        expect(page.get_by_role("textbox", name=field)).to_have_value("The supplier sends another invoice.")
    page_actions.choose_answer(page, answer)
    if answer == "Respond instead":  # without a text nothing is sent, so no response replaces what is typed
        page_actions.record_decision(page, answer)
        text = page.get_by_role("textbox", name=field)
        expect(text).to_be_focused()
        expect(text).to_have_accessible_description("Enter an answer. The agent gets it as the result of the call.")
        page.keyboard.type("The")
        expect(text).to_have_accessible_description("")
    page.get_by_role("textbox", name=field).fill("The supplier sends another invoice.")
    page_actions.record_decision(page, answer)
    expect_heading(page, expected_heading)
    expect(page_actions.completion_notice(page)).to_be_visible()
    outcome = page.get_by_role("region", name="What happened")
    expect(outcome.get_by_text("The supplier sends another invoice.")).to_be_visible()
    assert payer.payments == []


def test_killed_approved_call_needs_a_decision(start_payer: StartPayer, open_page: OpenPage) -> None:
    payer = start_payer("--die")
    page = open_page("alice")
    page_actions.open_payment_card(page, payer.session_id)
    approve(page, "The contract says so.")
    expect_heading(page, "Did this happen?")  # the process that died is on this machine, so nobody waits for its lease
    payer = start_payer("--die")
    page.reload()
    page_actions.fill_in_decision(page, "It happened", "It is in the ledger.")
    page_actions.record_decision(page, "It happened")
    expect(page_actions.completion_notice(page)).to_be_visible()
    assert len(payer.payments) == 1


def test_decision_form_has_no_accessibility_violations(
    start_payer: StartPayer, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    payer = start_payer("--approvals=2", "--decide-within=3600")
    page = open_page("alice")
    page_monitors[0].ignore("status of 422")
    page_actions.open_payment_card(page, payer.session_id)
    edit_arguments(page, "12300.00", "1230.00")
    expect(page.locator("#change").get_by_text("1 change", exact=True)).to_be_visible()
    assert axe.list_accessibility_violations(page) == []
    page.get_by_role("textbox", name="Arguments").fill("{")
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    page_actions.record_decision(page, "Edit")
    expect(page.get_by_role("textbox", name="Arguments")).to_have_attribute("aria-invalid", "true")
    assert axe.list_accessibility_violations(page) == []
    for number, answer in enumerate(("Reject", "Respond instead")):
        page_actions.choose_answer(page, answer)
        assert axe.list_accessibility_violations(page, axe.choose_themes(number)) == []
