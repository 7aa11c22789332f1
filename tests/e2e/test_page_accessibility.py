"""Every page, at the widths and in the themes people use: readable, within the window, and quiet on the console."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import SignedIn, Visit
from tests.support import axe
from tests.support.browser import Watch, watched
from tests.support.page_overflow import sticking_out
from tests.support.site_process import Site, fresh_database

#: Name of a page → its address, with the numbers of the `scene` to be filled in.
PAGES = {
    "review": "/review/",
    "review, filtered": "/review/?tool=refund_card",
    "review, decided": "/review/?tab=decided",
    "review, awaiting": "/review/?tab=awaiting",
    "card, one of two": "/review/calls/{awaiting_call}/",
    "card, rejected": "/review/calls/{rejected_call}/",
    "session, awaiting": "/sessions/{awaiting_session}/",
    "history, awaiting": "/sessions/{awaiting_session}/history/",
    "card, open": "/review/calls/{waiting_call}/",
    "card, decided": "/review/calls/{decided_call}/",
    "sessions": "/sessions/",
    "sessions, found": "/sessions/?q=cracked+shade",
    "sessions, narrowed": "/sessions/?tool=refund_card&sort=cost&least=0",
    "overview": "/overview/",
    "sessions, none found": "/sessions/?q=nothing+of+this+name",
    "session": "/sessions/{session}/",
    "session, waiting": "/sessions/{waiting_session}/",
    "session, earlier": "/sessions/{session}/?v=3",
    "message": "/sessions/{session}/messages/1/",
    "timeline": "/sessions/{session}/timeline/",
    "timeline, waiting": "/sessions/{waiting_session}/timeline/",
    "versions": "/sessions/{session}/versions/",
    "fork": "/sessions/{session}/fork/?v=3",
    "fork, undecided": "/sessions/{waiting_session}/fork/",
    "compare": "/sessions/{session}/compare/?a=2&b=7",
    "compare, unfolded": "/sessions/{session}/compare/?a=2&b=7&open=0",
    "calls": "/sessions/{session}/calls/",
    "call": "/sessions/{session}/calls/{decided_call}/",
    "plan": "/sessions/{session}/plan/",
    "history": "/sessions/{session}/history/",
    "no such session": "/sessions/999999/",
    "no such version": "/sessions/{session}/?v=999",
    "no such call": "/review/calls/999999/",
    "no such page": "/nowhere/",
}


#: Pages that say what is not there, with the status that says so too.
MISSING = tuple(name for name in PAGES if name.startswith("no such"))


@dataclass(frozen=True)
class Scene:
    """A session that was decided and is completed, and one that waits."""

    site: Site
    numbers: dict[str, str]

    def path(self, name: str) -> str:
        return PAGES[name].format(**self.numbers)


@pytest.fixture(scope="module")
def scene(
    browser: Browser, signed_in: SignedIn, prepared: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    with (
        fresh_database(folder, prepared) as database,
        Site(database, folder) as site,
        watched(browser, site.address, storage_state=signed_in(site, "alice")) as (context, _),
    ):
        yield Scene(site, _played(context.new_page(), site))


def _played(page: Page, site: Site) -> dict[str, str]:
    """Play both sessions; returns the numbers in their addresses."""
    agent = site.agent(17)
    page_actions.open_card(page, 17)
    page_actions.fill(page, "Run it once more", "Not in the books of the card processor.")
    page_actions.record(page, "Run it once more")
    agent.wait()
    numbers = {"decided_call": _number(page, "calls")}
    page.get_by_role("link", name="Open session", exact=True).click()
    page.wait_for_url("**/sessions/*/")
    numbers["session"] = _number(page, "sessions")
    site.agent(18)
    page_actions.open_card(page, 18)
    numbers["waiting_call"] = _number(page, "calls")
    page.get_by_role("link", name="order-18", exact=True).click()
    page.wait_for_url("**/sessions/*/")
    numbers["waiting_session"] = _number(page, "sessions")
    return numbers | _asked(page, site)


def _asked(page: Page, site: Site) -> dict[str, str]:
    """One payment that one of two people has approved, and one that was rejected."""
    numbers = {}
    for name, answer in (("awaiting", "Approve"), ("rejected", "Reject")):
        site.payer(f"inv-{name}", "--approvals=2", "--decide-within=3600")
        page_actions.open_payment(page, f"inv-{name}")
        numbers[f"{name}_call"] = _number(page, "calls")
        page_actions.choose(page, answer)
        if answer == "Reject":
            page.get_by_role("textbox", name="Message to the agent").fill("Ask the supplier first.")
        page_actions.reason(page).fill("I have read the invoice.")
        page_actions.record(page, answer)
        expect(page.get_by_text("I have read the invoice.").first).to_be_visible()
    page.goto(f"/review/calls/{numbers['awaiting_call']}/")
    page.get_by_role("link", name="inv-awaiting", exact=True).click()
    page.wait_for_url("**/sessions/*/")
    return numbers | {"awaiting_session": _number(page, "sessions")}


def _number(page: Page, noun: str) -> str:
    found = re.search(rf"/{noun}/(\d+)/", page.url)
    assert found, page.url
    return found.group(1)


def test_everybody_can_read_and_use_it(scene: Scene, visit: Visit, watches: list[Watch]) -> None:
    page = visit("alice", scene.site, viewport={"width": 1440, "height": 900})
    watches[0].expect("status of 404")
    wrong = []
    for name in PAGES:
        page.goto(scene.path(name))
        titles = page.get_by_role("heading", level=1).all_inner_texts()
        wrong += [f"{name}: {violation}" for violation in axe.violations(page)]
        wrong += [] if len(titles) == 1 else [f"{name}: main headings {titles}"]
    assert not wrong, "\n".join(wrong)


def test_nothing_sticks_out_of_the_window(scene: Scene, visit: Visit, watches: list[Watch]) -> None:
    page = visit("alice", scene.site)
    watches[0].expect("status of 404")
    out = []
    for name in PAGES:
        page.goto(scene.path(name))
        out += [f"{name}, {found}" for found in sticking_out(page)]
    assert not out, "\n".join(out)


@pytest.mark.parametrize("name", MISSING)
def test_what_is_not_there_is_said(scene: Scene, visit: Visit, watches: list[Watch], name: str) -> None:
    page = visit("carol", scene.site)
    watches[0].expect("status of 404")
    answer = page.goto(scene.path(name))
    assert answer
    assert answer.status == 404
    expect(page.get_by_role("main").get_by_role("link").first).to_be_visible()


def test_the_sign_in_page_can_be_read_and_used(visit: Visit) -> None:
    page = visit()
    page.goto("/accounts/login/")
    assert axe.violations(page) == []
