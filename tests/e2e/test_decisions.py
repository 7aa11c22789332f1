"""Decisions on cards: conflicts, late decisions, permissions and validation."""

import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, Response, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support import interrupted_calls
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import Site

REASON = "Seen in the bank's export."
#: Makes the sentence about the waiting run one line longer than the host name of most machines does.
LONG_HOST_NAME = "harness-agent-7d9f4c5b6-x2x9k.eu-central-1.internal"
#: Fetches the events of a card again, and sets `refreshed` when the page has handled the response.
REFRESH_EVENTS = """() => {
    const events = document.getElementById("call-events");
    events.addEventListener("htmx:beforeSend", ({ detail }) => {
        detail.xhr.addEventListener("loadend", () => { window.refreshed = true; });
    }, { once: true });
    htmx.trigger(document.body, events.getAttribute("hx-trigger").split(" ")[0]);
}"""
#: Fetches all live parts of a page again and again.
REFRESH_ALWAYS = """() => {
    for (const part of document.querySelectorAll("[hx-trigger*='live:']")) {
        const [event] = part.getAttribute("hx-trigger").match(/live:[\\w-]+/);
        setInterval(() => htmx.trigger(document.body, event), 20);
    }
}"""


@pytest.fixture
def open_cards(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> Callable[..., list[Page]]:
    """Open the card of one interrupted refund in a browser of each named user."""

    def open_for(*names: str) -> list[Page]:
        start_agent(site, order_number)
        pages = [open_page(name) for name in names]
        for page in pages:
            page_actions.open_refund_card(page, order_number)
        return pages

    return open_for


def test_simultaneous_decisions_record_one_and_report_the_other(
    open_cards: Callable[..., list[Page]], page_monitors: list[PageMonitor]
) -> None:
    pages = dict(zip(("alice", "bob"), open_cards("alice", "bob"), strict=True))
    for watch in page_monitors:
        watch.ignore("status of 409")
    for name, page in pages.items():
        page_actions.fill_in_decision(page, "It did not happen", f"{REASON} I am {name}.")
    with ExitStack() as stack:
        responses = [stack.enter_context(page.expect_response(is_decision_response)) for page in pages.values()]
        for page in pages.values():  # returns at once: both answers are on their way together
            page.evaluate("document.querySelector('form[data-decide]').requestSubmit()")

    for page in pages.values():
        expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    refused_users = {name for name, response in zip(pages, responses, strict=True) if response.value.status == 409}
    assert len(refused_users) == 1
    loser = refused_users.pop()
    winner = ({"alice", "bob"} - {loser}).pop()
    note = pages[loser].get_by_role("status").filter(has_text=f"{winner} gave the same answer at ")
    expect(note).to_contain_text(re.compile(r" at \d\d:\d\d:\d\d: "))
    expect(note).to_contain_text(f"{REASON} I am {loser}.")
    expect(pages[winner].get_by_role("main").get_by_text(f"{REASON} I am {winner}.").first).to_be_visible()


def is_decision_response(answer: Response) -> bool:
    return answer.request.method == "POST" and bool(re.search(r"/review/calls/\d+/$", answer.url))


def test_late_decision_is_not_sent_and_its_reason_is_kept(
    open_cards: Callable[..., list[Page]], page_monitors: list[PageMonitor]
) -> None:
    early, late = open_cards("alice", "bob")
    page_monitors[1].ignore("status of 409")
    page_actions.fill_in_decision(late, "It happened", REASON)
    page_actions.fill_in_decision(early, "It did not happen", "The customer says so.")
    page_actions.record_decision(early, "It did not happen")

    expect(late.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(late.get_by_role("complementary", name="Decision").get_by_text("alice", exact=True)).to_be_visible()
    expect(late.get_by_role("button", name=page_actions.RECORD_BUTTONS["It happened"])).to_be_hidden()
    kept_text = late.get_by_role("textbox", name="Your text")
    expect(kept_text).to_have_value(REASON)
    late.evaluate(
        "addEventListener('htmx:beforeRequest', ({ detail }) => { window.sent ||= detail.elt.id === 'decide'; })"
    )
    kept_text.press("Control+Enter")
    expect(kept_text).to_be_focused()
    assert not late.evaluate("window.sent")
    expect(late.get_by_role("alert")).to_contain_text("alice decided first, at ")


def test_typed_reason_stays_in_view_when_somebody_else_decides(open_cards: Callable[..., list[Page]]) -> None:
    early, late = open_cards("alice", "bob")
    late.set_viewport_size({"width": 390, "height": 844})
    page_actions.fill_in_decision(late, "It happened", REASON)
    reason = page_actions.reason_field(late)
    reason.focus()
    reason.evaluate("field => field.scrollIntoView({ block: 'end', behavior: 'instant' })")
    before = reason.evaluate("field => field.getBoundingClientRect().top")
    page_actions.fill_in_decision(early, "It did not happen", "The customer says so.")
    page_actions.record_decision(early, "It did not happen")

    message = late.get_by_role("alert").filter(has_text="alice decided first, at ")
    expect(message).to_be_in_viewport(ratio=1)
    kept_text = late.get_by_role("textbox", name="Your text")
    expect(kept_text).to_be_focused()
    expect(kept_text).to_have_value(REASON)
    assert kept_text.evaluate("field => field.getBoundingClientRect().top") == pytest.approx(before, abs=1)
    expect(late.get_by_role("radio")).to_have_count(0)
    expect(page_actions.reason_field(late)).to_have_count(0)
    late.context.grant_permissions(["clipboard-read", "clipboard-write"])
    late.locator("form[data-decide] .reason").get_by_role("button", name="Copy").click()
    late.wait_for_function("async (text) => await navigator.clipboard.readText() === text", arg=REASON)


@only_exhaustive
def test_answer_without_a_text_leaves_no_form_when_somebody_else_decides(open_cards: Callable[..., list[Page]]) -> None:
    early, late = open_cards("alice", "bob")
    page_actions.choose_answer(late, "It happened")
    page_actions.fill_in_decision(early, "It did not happen", "The customer says so.")
    page_actions.record_decision(early, "It did not happen")

    expect(late.get_by_role("alert")).to_contain_text("alice decided first, at ")
    expect(late.get_by_role("heading", name="Not recorded")).to_be_hidden()
    expect(late.get_by_text("Your text is still here.").last).to_be_hidden()


def test_a_decision_without_a_reason_is_not_recorded(
    open_cards: Callable[..., list[Page]], page_monitors: list[PageMonitor]
) -> None:
    """The browser reports what is missing at once. While the form is sent, its button says so."""
    (page,) = open_cards("alice")
    sent: list[Route] = []
    page.route(lambda url: url.endswith("/") and "/review/calls/" in url, lambda route: _hold_post(route, sent))
    page.get_by_role("button", name="Record decision").click()
    expect(page.locator("#kind-errors")).to_have_text("Choose an answer.")
    expect(page.get_by_role("radio").first).to_be_focused()
    page_actions.choose_answer(page, "Run it once more")
    expect(page.get_by_text("Choose an answer.")).to_be_hidden()
    page_actions.record_decision(page, "Run it once more")
    reason = page_actions.reason_field(page)
    expect(reason).to_be_focused()
    expect(reason).to_have_accessible_description(re.compile("^Enter a reason"))
    expect(page.get_by_role("radio", name="Run it once more")).to_be_checked()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    assert not sent

    reason.fill(REASON)
    page_actions.record_decision(page, "Run it once more")
    expect(page.get_by_role("button", name="Sending …")).to_be_disabled()
    assert len(sent) == 1
    page_monitors[0].ignore("ERR_FAILED|htmx:(?:afterRequest|sendError)")
    sent[0].abort()
    expect(page.get_by_role("button", name="Approve one more run")).to_be_enabled()


def _hold_post(route: Route, held: list[Route]) -> None:
    if route.request.method == "POST" and "decide" in (route.request.headers.get("hx-trigger") or ""):
        held.append(route)
    else:
        route.continue_()


@only_exhaustive
def test_shortcut_of_the_button_works_without_the_focus_in_the_form(
    open_cards: Callable[..., list[Page]], page_monitors: list[PageMonitor]
) -> None:
    (page,) = open_cards("alice")
    page_monitors[0].ignore("status of 422")
    expect(page.get_by_role("button", name="Record decision")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#kind-errors")).to_be_visible()


def test_text_that_is_unfolded_gets_the_focus_and_no_letter_of_it_is_a_shortcut(
    open_cards: Callable[..., list[Page]],
) -> None:
    [page] = open_cards("alice")
    page.keyboard.press("c")
    claimed, address = page.get_by_text("Claimed by you", exact=True), page.url
    expect(claimed).to_be_visible()
    for title, name in (("Add a comment", "Comment"), ("Add evidence", "Evidence")):
        summary, field = page.locator("summary", has_text=title), page.get_by_role("textbox", name=name)
        summary.click()
        expect(field).to_be_focused()
        page.keyboard.type("can 2 of you look?")
        expect(field).to_have_value("can 2 of you look?")
        summary.focus()
        page.keyboard.type("cu2?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    expect(page.get_by_role("radio", name="It did not happen")).not_to_be_checked()
    expect(claimed).to_be_visible()
    assert page.url == address


#: Fetches the comments as after a change of the session, and returns the names that are offered when they are drawn.
LIST_NAMES_THAT_AN_UPDATE_DRAWS = """() => new Promise(resolve => {
    window.addEventListener("htmx:afterSwap", ({ target }) => {
        const names = [...document.querySelectorAll("[data-mentions] button")].filter(name => name.checkVisibility());
        if (target.id === "call-events") resolve(names.map(name => name.textContent));
    });
    const part = document.querySelector("[hx-trigger*='live:session-']");
    htmx.trigger(document.body, part.getAttribute("hx-trigger").match(/live:session-[0-9]+/)[0]);
})"""


def test_names_below_a_comment_complete_a_mention(open_cards: Callable[..., list[Page]]) -> None:
    [page] = open_cards("alice")
    page.locator("summary", has_text="Add a comment").click()
    comment, names = page.get_by_role("textbox", name="Comment"), page.locator("[data-mentions] button:visible")
    page.keyboard.type("Look")  # at once
    for name in ("@bob", "@carol"):
        expect(names.filter(has_text=name)).to_be_visible()
    page.keyboard.type(", @Ca")
    expect(names).to_have_text(["@carol"])
    assert page.evaluate(LIST_NAMES_THAT_AN_UPDATE_DRAWS) == ["@carol"]
    names.click()
    expect(comment).to_have_value("Look, @carol ")
    expect(comment).to_be_focused()
    page.keyboard.type("and")
    names.filter(has_text="@bob").click()
    expect(comment).to_have_value("Look, @carol and @bob ")
    for key in ("Enter", "Tab"):
        comment.fill("")
        page.keyboard.type("@")
        page.keyboard.press("Enter")  # of an `@` alone, nobody is marked
        page.keyboard.type("@ca")
        expect(page.locator("[data-mentions] .marked")).to_have_text("@carol")
        page.keyboard.press(key)
        expect(comment).to_have_value("@\n@carol ")
        expect(comment).to_be_focused()


def test_auditor_sees_the_card_but_cannot_decide(open_cards: Callable[..., list[Page]]) -> None:
    (page,) = open_cards("carol")
    expect(page.get_by_text("deciding needs an approver")).to_be_visible()
    expect(page.get_by_role("radio")).to_have_count(0)
    expect(page.get_by_role("button", name="Run the tool’s own check again")).to_have_count(0)

    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    forged: dict[str, str | float | bool] = {
        "kind": "mark_failed",
        "reason": "I want to.",
        "revision": "2",
        "csrfmiddlewaretoken": token,
    }
    decision_response = page.context.request.post(page.url, form=forged, headers={"Referer": page.url})
    assert decision_response.status == 403
    verify_response = page.context.request.post(f"{page.url}verify/", form=forged, headers={"Referer": page.url})
    assert verify_response.status == 403
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()


def test_record_button_is_visible_without_scrolling(open_cards: Callable[..., list[Page]]) -> None:
    (page,) = open_cards("alice")
    for height in (720, 900):
        page.set_viewport_size({"width": 1280, "height": height})
        page.reload()
        page_actions.choose_answer(page, "It happened")
        consequence = page.locator(".consequence.confirm_landed")
        expect(consequence).to_contain_text("continues at once")
        assert page.evaluate("scrollY") == 0
        # In one step, because a live update names the real host again.
        bottom_edge_of_button = consequence.evaluate(
            "(element, host) => {"
            " element.innerHTML = element.innerHTML.replace(/ on [^ ]+ is /, ` on ${host} is `);"
            " if (!element.textContent.includes(`on ${host} is waiting`)) return Infinity;"
            " return document.querySelector('form[data-decide] [type=submit]').getBoundingClientRect().bottom;"
            "}",
            LONG_HOST_NAME,
        )
        assert bottom_edge_of_button <= height


def test_verify_hook_can_be_called_again(open_cards: Callable[..., list[Page]]) -> None:
    (page,) = open_cards("alice")
    hook_answer = page.get_by_text("the card processor shows refunds only after the nightly settlement")
    before = page.get_by_label("Did it happen?").locator(hook_answer).count()
    page.get_by_role("button", name="Run the tool’s own check again").click()
    expect(page.get_by_label("Did it happen?").locator(hook_answer)).to_have_count(before + 1)


@only_exhaustive
def test_late_refresh_after_a_withdrawal_does_not_replace_the_card(
    private_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    interrupted_calls.interrupt_calls(private_site, 1)
    page = open_page("alice", private_site)
    page_monitors[0].ignore("status of 422")
    page.goto("/review/")
    page.get_by_role("link", name="Ship parcel 0").click()
    page.wait_for_url("**/review/calls/*/")
    page_actions.fill_in_decision(page, "It did not happen", REASON)
    page_actions.record_decision(page, "It did not happen")
    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    page.locator("summary", has_text="Withdraw the decision").click()
    page.get_by_role("button", name="Withdraw the decision").click()
    expect(page.locator(".withdraw .errorlist")).to_be_visible()
    page.locator("#id_withdraw-reason").fill("I read the wrong line.")
    expect(page.locator(".withdraw .errorlist")).to_have_count(0)
    expect(page.locator("#id_withdraw-reason")).not_to_have_attribute("aria-invalid", "true")
    page.reload()
    # The refresh after the decision has ended: the next one would wait for it, and be dropped with the replaced page.
    page_actions.wait_until(page, "!document.querySelector('#call-events.htmx-request')")
    held: list[Route] = []
    withdrawn = False
    page.route("**/review/calls/*/?seen=*", lambda route: route.continue_() if withdrawn else held.append(route))
    page.evaluate(REFRESH_EVENTS)
    assert page.evaluate("!!document.querySelector('#call-events.htmx-request')")

    page.locator("summary", has_text="Withdraw the decision").click()
    page.locator("#id_withdraw-reason").fill("I read the wrong line.")
    page.get_by_role("button", name="Withdraw the decision").click()
    expect(page.get_by_text("You withdrew your decision")).to_be_visible()
    expect(page.locator("[data-withdrawn]")).to_be_focused()
    withdrawn = True
    for route in held:  # the recorded decision causes a refresh too
        route.continue_()
    page_actions.wait_until(page, "window.refreshed === true")
    page.evaluate("window.refreshed = false")
    page.evaluate(REFRESH_EVENTS)
    page_actions.wait_until(page, "window.refreshed === true")
    expect(page.get_by_role("button", name="Record decision")).to_be_visible()
    expect(page.get_by_text("This call has changed since you opened the page.")).to_have_count(0)


@only_exhaustive
def test_links_are_followed_while_the_card_is_refreshed(private_site: Site, open_page: OpenPage) -> None:
    interrupted_calls.interrupt_calls(private_site, 1)
    page = open_page("alice", private_site)
    page.goto("/review/")
    page.get_by_role("link", name="Ship parcel 0").click()
    page.wait_for_url("**/review/calls/*/")
    card = page.url
    for link in ("parcel-0", "Review", "Tool calls"):
        page.goto(card)
        with page.expect_response("**/review/calls/*/?seen=*"):
            page.evaluate(REFRESH_ALWAYS)
        page.get_by_role("link", name=re.compile(f"^{link}")).first.click()
        page.wait_for_url(lambda url: url != card)
