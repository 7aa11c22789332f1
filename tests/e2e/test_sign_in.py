"""Coming in and going out."""

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Visit
from tests.support.browser import sign_in
from tests.support.site_process import PASSWORD


@pytest.mark.parametrize("javascript", [True, False])
def test_the_page_that_was_asked_for_comes_after_the_sign_in(visit: Visit, javascript: bool) -> None:
    page = visit(java_script_enabled=javascript)
    page.goto("/sessions/?q=lamp")
    page.get_by_label("Name").fill("carol")
    page.get_by_label("Password").fill("not it")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/sessions/?q=lamp")


def test_home_is_the_queue_for_who_decides_and_the_sessions_for_who_looks(visit: Visit) -> None:
    for name, home in (("alice", "/review/"), ("carol", "/sessions/")):
        page = visit(name)
        page.goto("/")
        page.wait_for_url(f"**{home}")


def test_nothing_is_shown_after_the_sign_out(visit: Visit) -> None:
    page = visit()
    sign_in(page, "bob", PASSWORD)
    page.goto("/sessions/")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    for path in ("/review/", "/sessions/", "/review/calls/1/", "/sessions/1/"):
        page.goto(path)
        expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
