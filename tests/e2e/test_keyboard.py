"""A decision by keyboard only, from the sign-in to the completion of the session."""

from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support.site_process import PASSWORD, Site


def test_decision_by_keyboard_only(private_site: Site, start_agent: StartAgent, open_page: OpenPage) -> None:
    agent = start_agent(private_site, 17)
    page = open_page(site=private_site)
    page.goto("/")
    page_actions.press_tab_until_focused(page, "textbox", "Name")
    page.keyboard.type("alice")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")

    expect(page_actions.refund_link(page, 17)).to_be_visible()
    page.wait_for_load_state()  # the scripts of a page run after its text is displayed
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search waiting calls")).to_be_focused()
    page.keyboard.press("Escape")
    page.goto("/overview/")
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Text in messages")).to_be_focused()
    page.goto("/")
    page.wait_for_load_state()
    page.keyboard.press("j")
    expect(page_actions.refund_link(page, 17)).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="It did not happen")).to_be_checked()
    expect(page.get_by_role("textbox", name="Reason")).to_be_focused()
    page.keyboard.type("The customer says so. 1 2 3 j k ?")
    expect(page.get_by_role("radio", name="It did not happen")).to_be_checked()
    page.keyboard.press("Control+Enter")

    expect(page.get_by_role("heading", level=1, name="Decided: it did not happen")).to_be_visible()
    # The mail of the agent may be interrupted too: then the link to the next call has the focus.
    expect(page.locator("main :is(h1, .onward a):focus")).to_be_visible()
    expect(page_actions.completion_notice(page)).to_be_visible()
    agent.wait()
    assert (agent.refunds, agent.mails) == (1, 1)
