"""Forking from a version without JavaScript."""

from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support.browser import Watch
from tests.support.site_process import Site


def test_a_fork_without_javascript(
    site: Site, order: int, start_agent: StartAgent, visit: Visit, watches: list[Watch]
) -> None:
    start_agent(site, order)
    watching = visit("alice")
    page_actions.open_card(watching, order)
    watching.get_by_role("link", name=f"order-{order}", exact=True).click()
    watching.wait_for_url("**/sessions/*/")

    page = visit("alice", java_script_enabled=False)
    watches[1].expect("status of 422")
    page.goto(f"{watching.url}versions/")
    page.get_by_role("row", name="v2").get_by_role("link", name="Fork").click()
    expect(page.get_by_role("heading", name="Fork from version 2")).to_be_visible()
    expect(page.get_by_text("1 call is undecided, and stays undecided in the fork.")).to_be_visible()
    page.get_by_role("textbox", name="Id of the new session").fill(f"order-{order}")
    page.get_by_role("button", name="Create the fork").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose an id that is not taken.")
    page.get_by_role("textbox", name="Id of the new session").fill(f"copy-{order}")
    page.get_by_role("button", name="Create the fork").click()

    expect(page.get_by_text(f"Forked from: order-{order} at version 2")).to_be_visible()
    expect(page.get_by_text("Paused — 1 call needs a decision").first).to_be_visible()
    page.get_by_role("link", name=f"order-{order} at version 2").click()
    expect(page.get_by_text(f"forks: copy-{order} from version 2")).to_be_visible()
    page.goto(f"{watching.url}history/")
    expect(page.get_by_text("Session forked by alice")).to_be_visible()
