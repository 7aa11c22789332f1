"""An agent is killed during a refund, a person decides about the call, and the session completes."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.reloaded_page import expect_to_be_as_reloaded
from tests.support.site_process import Site

#: Number of refunds in the ledger at the end, by answer. The first refund had happened.
EXPECTED_REFUNDS = {"It happened": 1, "It did not happen": 1, "Run it once more": 2}
#: Text about the call on the session page at the end, by answer.
EXPECTED_TEXT = {"It happened": "was refunded", "It did not happen": "not refunded", "Run it once more": "was refunded"}


def expect_completed_session(page: Page, answer: str) -> None:
    """Check that the session page shows a completed session without open decisions."""
    expect(page.get_by_role("main").get_by_text("Completed").first).to_be_visible()
    expect(page.get_by_text(EXPECTED_TEXT[answer]).first).to_be_visible()
    expect(page.get_by_role("link", name="Decide")).to_have_count(0)


@pytest.mark.parametrize("answer", mark_all_but_each(3, EXPECTED_REFUNDS, first=2))
def test_decision_completes_the_session_with_live_pages(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int, answer: str
) -> None:
    page = open_page("alice")
    page.goto(page_actions.REFUND_QUEUE_URL)
    expect(page.get_by_role("main")).to_be_visible()
    page.evaluate("window.notReloaded = true")

    agent = start_agent(site, order_number, pace=0.2)
    expect(page_actions.refund_link(page, order_number)).to_be_visible()
    assert page.evaluate("window.notReloaded")

    page_actions.refund_link(page, order_number).click()
    page.wait_for_url("**/review/calls/*/")
    session = page.context.new_page()
    session.goto(page_actions.session_link(page).get_attribute("href") or "")
    expect(session.get_by_role("link", name="Decide").first).to_be_visible()
    page_actions.fill_in_decision(page, answer, "Seen in the ledger of the shop.")
    page_actions.record_decision(page, answer)

    expect(page.get_by_role("main").get_by_text("alice").filter(visible=True).first).to_be_visible()
    expect(page_actions.completion_notice(page)).to_be_visible()
    expect_completed_session(session, answer)
    for live in (page, session):
        expect_to_be_as_reloaded(live)
    agent.wait()
    assert (agent.refunds, agent.mails) == (EXPECTED_REFUNDS[answer], 1)


@pytest.mark.parametrize("answer", mark_all_but_each(3, EXPECTED_REFUNDS, first=1))
def test_decision_completes_the_session_without_javascript(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int, answer: str
) -> None:
    page = open_page("alice", java_script_enabled=False)
    agent = start_agent(site, order_number)
    page_actions.poll_for_refund_card(page, order_number)
    page_actions.fill_in_decision(page, answer, "Seen in the ledger of the shop.")
    page.get_by_role("button", name="Record decision").click()

    expect(page.get_by_role("main").get_by_text("alice").filter(visible=True).first).to_be_visible()
    agent.wait()
    page.reload()
    expect(page_actions.completion_notice(page)).to_be_visible()
    page.get_by_role("link", name="Open session", exact=True).click()
    expect_completed_session(page, answer)
    assert (agent.refunds, agent.mails) == (EXPECTED_REFUNDS[answer], 1)
