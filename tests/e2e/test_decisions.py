"""Who decides, who may not, and what becomes of what they typed."""

import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, Response, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.browser import Watch
from tests.support.site_process import Site

LATE = "Seen in the bank's export."


@pytest.fixture
def cards(site: Site, start_agent: StartAgent, visit: Visit, order: int) -> Callable[..., list[Page]]:
    """The card of one waiting refund, opened by each of the named people."""

    def opened(*names: str) -> list[Page]:
        start_agent(site, order)
        pages = [visit(name) for name in names]
        for page in pages:
            page_actions.open_card(page, order)
        return pages

    return opened


def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(
    cards: Callable[..., list[Page]], watches: list[Watch]
) -> None:
    pages = dict(zip(("alice", "bob"), cards("alice", "bob"), strict=True))
    for watch in watches:
        watch.expect("status of 409")
    for name, page in pages.items():
        page_actions.fill(page, "It did not happen", f"{LATE} I am {name}.")
    with ExitStack() as waiting:
        sent = [waiting.enter_context(page.expect_response(_is_decision)) for page in pages.values()]
        for page in pages.values():  # returns at once: both answers are on their way together
            page.evaluate("document.querySelector('form[data-decide]').requestSubmit()")

    for page in pages.values():
        expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    refused = {name for name, answer in zip(pages, sent, strict=True) if answer.value.status == 409}
    assert len(refused) == 1
    late = refused.pop()
    winner = ({"alice", "bob"} - {late}).pop()
    told = pages[late].get_by_role("alert")
    expect(told).to_contain_text(f"{winner} decided first, at ")
    expect(told).to_contain_text(" UTC")
    expect(told).to_contain_text(f"{LATE} I am {late}.")
    expect(pages[winner].get_by_role("main").get_by_text(f"{LATE} I am {winner}.").first).to_be_visible()


def _is_decision(answer: Response) -> bool:
    return answer.request.method == "POST" and bool(re.search(r"/review/calls/\d+/$", answer.url))


def test_who_comes_late_keeps_what_they_typed(cards: Callable[..., list[Page]], watches: list[Watch]) -> None:
    early, late = cards("alice", "bob")
    watches[1].expect("status of 409")
    page_actions.fill(late, "It happened", LATE)
    page_actions.fill(early, "It did not happen", "The customer says so.")
    page_actions.record(early, "It did not happen")

    expect(late.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    expect(late.get_by_role("complementary", name="Decision").get_by_text("alice", exact=True)).to_be_visible()
    expect(late.get_by_role("button", name=page_actions.RECORD["It happened"])).to_be_hidden()
    expect(page_actions.reason(late)).to_have_value(LATE)
    page_actions.reason(late).press("Control+Enter")
    told = late.get_by_role("alert")
    expect(told).to_contain_text("alice decided first, at ")
    expect(told).to_contain_text(LATE)


def test_a_decision_without_a_reason_is_not_recorded(cards: Callable[..., list[Page]], watches: list[Watch]) -> None:
    (page,) = cards("alice")
    watches[0].expect("status of 422")
    page_actions.choose(page, "Run it once more")
    page_actions.record(page, "Run it once more")
    expect(page.get_by_role("alert")).to_contain_text("Enter a reason")
    expect(page.get_by_role("radio", name="Run it once more")).to_be_checked()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()


def test_an_auditor_sees_the_card_and_cannot_decide(cards: Callable[..., list[Page]]) -> None:
    (page,) = cards("carol")
    expect(page.get_by_text("deciding needs an approver")).to_be_visible()
    expect(page.get_by_role("radio")).to_have_count(0)
    expect(page.get_by_role("button", name="Verify again")).to_have_count(0)

    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    forged: dict[str, str | float | bool] = {
        "kind": "mark_failed",
        "reason": "I want to.",
        "revision": "2",
        "csrfmiddlewaretoken": token,
    }
    answer = page.context.request.post(page.url, form=forged, headers={"Referer": page.url})
    assert answer.status == 403
    probe = page.context.request.post(f"{page.url}verify/", form=forged, headers={"Referer": page.url})
    assert probe.status == 403
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()


@pytest.mark.parametrize("height", [720, 900])
def test_the_button_is_in_sight_without_scrolling(cards: Callable[..., list[Page]], height: int) -> None:
    (page,) = cards("alice")
    page.set_viewport_size({"width": 1280, "height": height})
    page.reload()
    page_actions.choose(page, "It happened")
    assert page.evaluate("scrollY") == 0
    expect(page.get_by_role("button", name=page_actions.RECORD["It happened"])).to_be_in_viewport(ratio=1)


def test_the_probe_can_be_asked_again(cards: Callable[..., list[Page]]) -> None:
    (page,) = cards("alice")
    said = page.get_by_text("the card processor shows refunds only after the nightly settlement")
    before = page.get_by_label("Did it happen?").locator(said).count()
    page.get_by_role("button", name="Verify again").click()
    expect(page.get_by_label("Did it happen?").locator(said)).to_have_count(before + 1)
