"""Sign-in, redirects after it, and sign-out."""

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.support.browser import sign_in
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.site_process import PASSWORD


@pytest.mark.parametrize("javascript", mark_all_but_each(2, [True, False]))
def test_sign_in_redirects_to_the_requested_page(open_page: OpenPage, javascript: bool) -> None:
    page = open_page(java_script_enabled=javascript)
    page.goto("/sessions/?q=lamp#q")
    page.get_by_label("Name").fill("carol")
    page.get_by_label("Password").fill("not it")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/sessions/?q=lamp#q" if javascript else "**/sessions/?q=lamp")


def test_home_page_depends_on_the_role(open_page: OpenPage) -> None:
    for name, home in (("alice", "/review/"), ("carol", "/sessions/")):
        page = open_page(name)
        page.goto("/")
        page.wait_for_url(f"**{home}")


def test_pages_are_not_shown_after_sign_out(open_page: OpenPage) -> None:
    page = open_page()
    sign_in(page, "bob", PASSWORD)
    page.goto("/sessions/")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    for path in ("/review/", "/sessions/", "/review/calls/1/", "/sessions/1/"):
        page.goto(path)
        expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
