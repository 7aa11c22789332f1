"""A call that may not run without people: changed by one, approved by two, in browsers that follow each other."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import Visit
from tests.support import axe
from tests.support.browser import Watch
from tests.support.site_process import Payer, Site

PAID = "8841 1230.00 Northwind GmbH"
StartPayer = Callable[..., Payer]


@pytest.fixture
def start_payer(site: Site, order: int) -> Iterator[StartPayer]:
    with ExitStack() as leaving:

        def started(*options: str) -> Payer:
            payer = site.payer(f"inv-{order}", *options)
            leaving.callback(payer.stop)
            return payer

        yield started


def write(page: Page, before: str, after: str) -> None:
    """Change a part of the arguments."""
    page_actions.choose(page, "Edit")
    page.get_by_role("radio", name="JSON").check()
    arguments = page.get_by_role("textbox", name="Arguments")
    arguments.fill(arguments.input_value().replace(before, after))
    page_actions.reason(page).fill("Only the first tenth is due.")


def approve(page: Page, why: str) -> None:
    page_actions.choose(page, "Approve")
    page_actions.reason(page).fill(why)
    page_actions.record(page, "Approve")


def heading(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", level=1, name=words)).to_be_visible()


class HeldAnswer:
    """Answer of the server to a form, kept back until a test releases it."""

    def __init__(self, page: Page) -> None:
        self._held: list[tuple[Route, APIResponse]] = []
        self._page = page
        page.route("**/review/calls/*/", self._hold)

    def _hold(self, route: Route) -> None:
        if route.request.method == "POST":
            self._held.append((route, route.fetch()))
        else:
            route.continue_()

    def release(self, now: str, then: str) -> None:
        """Answer with what the page said earlier: `then` in place of `now`."""
        ((route, answer),) = self._held
        route.fulfill(response=answer, body=answer.text().replace(now, then))
        self._page.unroute("**/review/calls/*/", self._hold)


def test_two_people_change_and_approve_a_payment(start_payer: StartPayer, visit: Visit) -> None:
    payer = start_payer("--approvals=2")
    alice, bob, dora = visit("alice"), visit("bob"), visit("dora")
    for page in (alice, bob, dora):
        page_actions.open_payment(page, payer.session_id)
    page_actions.reason(bob).fill("I am still reading.")

    write(alice, "12300.00", "1230.00")
    expect(alice.get_by_text("1 argument differs from the original:")).to_be_visible()
    page_actions.record(alice, "Edit")
    expect(alice.get_by_text("changed the arguments at")).to_be_visible()

    # what bob has open says so, and keeps what he typed
    expect(bob.get_by_text("This call has changed since you opened the page.")).to_be_visible()
    expect(bob.get_by_text("changed the arguments at")).to_be_visible()
    expect(page_actions.reason(bob)).to_have_value("I am still reading.")
    bob.get_by_role("link", name="reload the page").click()
    approve(bob, "The contract says so.")
    waiting = re.compile(r"^\s*bob approved at [:0-9]+\s*$")
    for page in (bob, alice):
        expect(page.get_by_text("1 of 2 decisions:")).to_be_visible()
        expect(page.get_by_role("listitem").filter(has_text=waiting)).to_be_visible()
    expect(bob.get_by_role("radio", name="Approve")).to_be_disabled()
    assert payer.payments == []

    # who changed the arguments is no second pair of eyes
    alice.get_by_role("link", name="reload the page").click()
    expect(alice.get_by_role("radio", name="Approve")).to_be_disabled()
    dora.get_by_role("link", name="reload the page").click()
    # an answer that comes late and was made before the call ran is brought up to date
    answer = HeldAnswer(dora)
    approve(dora, "Agreed.")
    for page in (alice, bob):
        heading(page, "Approved: it has run")
        expect(page_actions.finished(page)).to_be_visible()
    answer.release("Approved: it has run", "Approved: it has not run yet")
    for page in (alice, bob, dora):
        heading(page, "Approved: it has run")
        expect(page.get_by_text("Paid 1230.00 EUR to Northwind GmbH.").first).to_be_visible()
        expect(page_actions.finished(page)).to_be_visible()
    assert payer.payments == [PAID]


def test_one_argument_is_changed_by_itself_and_a_contract_given(start_payer: StartPayer, visit: Visit) -> None:
    payer = start_payer()
    page = visit("alice")
    page_actions.open_payment(page, payer.session_id)
    page_actions.choose(page, "Edit")
    page.get_by_role("textbox", name="amount").fill("1230.00")
    expect(page.get_by_text("1 argument differs from the original:")).to_be_visible()
    page_actions.reason(page).fill("Only the first tenth is due.")
    page_actions.record(page, "Edit")
    expect(page.get_by_text("changed the arguments at")).to_be_visible()
    expect(page_actions.reason(page)).to_have_value("")
    page.reload()
    expect(page_actions.reason(page)).to_have_value("")

    page_actions.choose(page, "Approve")
    page_actions.reason(page).fill("The contract says so.")
    contract = {"name": "contract.html", "mimeType": "text/html", "buffer": b"<script>alert(1)</script>"}
    page.get_by_label("File").set_input_files(contract)  # type: ignore[arg-type]
    page_actions.record(page, "Approve")
    with page.expect_download() as saved:
        page.get_by_role("link", name="contract.html").click()
    assert saved.value.path().read_bytes() == contract["buffer"]
    heading(page, "Approved: it has run")
    assert payer.payments == [PAID]


def test_the_same_without_javascript(start_payer: StartPayer, visit: Visit) -> None:
    payer = start_payer()
    page = visit("alice", java_script_enabled=False)
    page_actions.open_payment(page, payer.session_id)
    write(page, "12300.00", "1230.00")
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_role("alert")).to_contain_text("Not recorded yet. Check the changes below, then record them.")
    expect(page.get_by_role("textbox", name="Arguments")).to_have_value(re.compile("1230.00"))
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_text("changed the arguments at")).to_be_visible()

    page_actions.choose(page, "Approve")
    page_actions.reason(page).fill("The contract says so.")
    page.get_by_role("button", name="Record decision").click()
    expect(page.get_by_role("heading", level=1, name=re.compile("^Approved"))).to_be_visible()
    for _ in range(100):
        if page_actions.finished(page).count():
            break
        page.wait_for_timeout(200)
        page.reload()
    heading(page, "Approved: it has run")
    assert payer.payments == [PAID]


@pytest.mark.parametrize(
    ("answer", "field", "becomes"),
    [
        ("Reject", "Message to the agent", "Rejected: it does not run"),
        ("Respond instead", "Answer to the agent", "Answered: it does not run"),
    ],
)
def test_the_agent_is_told_instead(
    start_payer: StartPayer, visit: Visit, answer: str, field: str, becomes: str
) -> None:
    payer = start_payer()
    page = visit("alice")
    page_actions.open_payment(page, payer.session_id)
    page_actions.choose(page, answer)
    page.get_by_role("textbox", name=field).fill("The supplier sends another invoice.")
    page_actions.record(page, answer)
    heading(page, becomes)
    expect(page_actions.finished(page)).to_be_visible()
    expect(page.get_by_text('"told": "The supplier sends another invoice."')).to_be_visible()
    assert payer.payments == []


def test_an_approved_call_that_was_killed_is_asked_about(start_payer: StartPayer, visit: Visit) -> None:
    payer = start_payer("--die")
    page = visit("alice")
    page_actions.open_payment(page, payer.session_id)
    approve(page, "The contract says so.")
    heading(page, "Did this happen?")  # the process that died is on this machine, so nobody waits for its lease
    payer = start_payer("--die")
    page.reload()
    page_actions.fill(page, "It happened", "It is in the ledger.")
    page_actions.record(page, "It happened")
    expect(page_actions.finished(page)).to_be_visible()
    assert len(payer.payments) == 1


def test_everybody_can_use_the_form(start_payer: StartPayer, visit: Visit, watches: list[Watch]) -> None:
    payer = start_payer("--approvals=2", "--decide-within=3600")
    page = visit("alice")
    watches[0].expect("status of 422")
    page_actions.open_payment(page, payer.session_id)
    write(page, "12300.00", "1230.00")
    expect(page.get_by_text("1 argument differs")).to_be_visible()
    assert axe.violations(page) == []
    page.get_by_role("textbox", name="Arguments").fill("{")
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    page_actions.record(page, "Edit")
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    assert axe.violations(page) == []
    for answer in ("Reject", "Respond instead"):
        page_actions.choose(page, answer)
        assert axe.violations(page) == []
