"""First use of an installation: from an empty database to the first session."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e import page_actions
from tests.support import axe
from tests.support.browser import monitored_context
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site, create_tables_in_child, fresh_database

#: Whether the page says how many steps it shows as done; both may be updated at any time.
IS_NUMBER_OF_STEPS_RIGHT = """() => {
  const done = document.querySelectorAll("#steps .done").length;
  return document.getElementById("steps-done").textContent.includes(`${done} of 5 steps done.`);
}"""


@pytest.mark.begins_first
def test_from_an_empty_database_to_the_first_session(browser: Browser, tmp_path: Path) -> None:
    with fresh_database(tmp_path) as database:
        environment = {
            **os.environ,
            "HARNESS_DATABASE_URL": database,
            "DJANGO_SETTINGS_MODULE": "harness_site.settings",
        }
        site = Site(database, tmp_path, forked=True)
        site.run(create_tables_in_child)
        with site, monitored_context(browser, site.address) as (context, _):
            setup_url = re.search(r"http://\S+(/accounts/first/\S+)", site.log())
            assert setup_url
            page = context.new_page()
            page.goto(setup_url[1])
            page.get_by_label("Name").fill("ada")
            page.get_by_label("Password").fill("a phrase of my own")
            page.get_by_role("button", name="Create account").click()
            expect(page.get_by_role("heading", name="Welcome to Harness")).to_be_visible()
            assert axe.list_accessibility_violations(page) == []
            assert overflowing_elements(page) == []

            page.get_by_role("link", name="Add second factor").click()
            expect(page.get_by_label("Current code")).to_be_visible()  # no password again, seconds after signing in
            page.go_back()

            page.get_by_label("Note for admins (optional)").fill("eve")
            (tmp_path / "first_agent.py").write_text(page.locator("#connect-program").inner_text())
            agent = [sys.executable, str(tmp_path / "first_agent.py")]
            subprocess.run(agent, env={**environment, "PYTHONPATH": str(Path.cwd())}, check=True)
            expect(page.locator("#first-session").get_by_role("link", name="first-session")).to_be_visible()
            expect(page.locator("#steps").get_by_text("The first session has arrived.")).to_be_visible()
            page_actions.wait_until(page, IS_NUMBER_OF_STEPS_RIGHT)
            expect(page.get_by_label("Note for admins (optional)")).to_have_value("eve")
            (tmp_path / "first_approval.py").write_text(page.locator("#connect-approval").inner_text())
            program = [sys.executable, str(tmp_path / "first_approval.py")]
            with subprocess.Popen(
                program, env={**environment, "PYTHONPATH": str(Path.cwd())}, stdout=subprocess.PIPE, text=True
            ) as waiting:
                page.locator("#first-session").get_by_role("link", name="Review").click()
                page.get_by_role("link", name="Send the note “hello”").click()
                page.wait_for_url("**/review/calls/*/")
                page_actions.choose_answer(page, "Approve")
                page_actions.reason_field(page).fill("It is only a note.")
                page_actions.record_decision(page, "Approve")
                output, _ = waiting.communicate(timeout=60)
            assert output.splitlines()[-1] == "The agent continued: sent: hello"

            page.goto("/settings/system/")
            assert axe.list_accessibility_violations(page) == []
