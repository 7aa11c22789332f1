"""The story: an agent is killed in a payment, a person decides, the run goes on to its end."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.site_process import Site

#: Answer → how many refunds are in the ledger when all is done. The first one did land.
REFUNDS = {"It happened": 1, "It did not happen": 1, "Run it once more": 2}
#: Answer → what the session page says about the call in the end.
SAID = {"It happened": "was refunded", "It did not happen": "not refunded", "Run it once more": "was refunded"}


def _expect_end_of_session(page: Page, answer: str) -> None:
    """What the session page shows when all is done."""
    expect(page.get_by_role("main").get_by_text("Completed").first).to_be_visible()
    expect(page.get_by_text(SAID[answer]).first).to_be_visible()
    expect(page.get_by_role("link", name="Decide")).to_have_count(0)


@pytest.mark.parametrize("answer", REFUNDS)
def test_the_story_on_pages_that_are_never_loaded_again(
    site: Site, start_agent: StartAgent, visit: Visit, order: int, answer: str
) -> None:
    page = visit("alice")
    page.goto(page_actions.REFUNDS)
    expect(page.get_by_role("main")).to_be_visible()
    page.evaluate("window.neverLoadedAgain = true")

    agent = start_agent(site, order, pace=0.2)
    expect(page_actions.refund_of(page, order)).to_be_visible()
    assert page.evaluate("window.neverLoadedAgain")

    page_actions.refund_of(page, order).click()
    session = page.context.new_page()
    session.goto(page.get_by_role("link", name=agent.session_id).get_attribute("href") or "")
    expect(session.get_by_role("link", name="Decide").first).to_be_visible()
    page_actions.fill(page, answer, "Seen in the ledger of the shop.")
    page_actions.record(page, answer)

    expect(page.get_by_role("main").get_by_text("alice").first).to_be_visible()
    expect(page_actions.finished(page)).to_be_visible()
    _expect_end_of_session(session, answer)
    agent.wait()
    assert (agent.refunds, agent.mails) == (REFUNDS[answer], 1)


@pytest.mark.parametrize("answer", REFUNDS)
def test_the_story_without_javascript(
    site: Site, start_agent: StartAgent, visit: Visit, order: int, answer: str
) -> None:
    page = visit("alice", java_script_enabled=False)
    agent = start_agent(site, order)
    page_actions.open_card_by_loading(page, order)
    page_actions.fill(page, answer, "Seen in the ledger of the shop.")
    page.get_by_role("button", name="Record decision").click()

    expect(page.get_by_role("main").get_by_text("alice").first).to_be_visible()
    agent.wait()
    page.reload()
    expect(page_actions.finished(page)).to_be_visible()
    page.get_by_role("link", name="Open session", exact=True).click()
    _expect_end_of_session(page, answer)
    assert (agent.refunds, agent.mails) == (REFUNDS[answer], 1)
