"""Account pages, settings and the audit trail in a real browser."""

import re

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.invited_user import create_invitation
from tests.support import axe
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.page_overflow import WIDTHS, list_overflows_at_width
from tests.support.site_process import PASSWORD

#: Paths by name, of pages that an admin sees.
ADMIN_PAGES = {
    "account": "/accounts/",
    "password": "/accounts/password/",
    "members": "/settings/members/",
    "first steps": "/settings/first-steps/",
    "connect": "/settings/connect/",
    "system": "/settings/system/",
    "tokens": "/settings/tokens/",
    "masking": "/settings/masking/",
    "notifications": "/settings/notifications/",
    "delivery log": "/settings/notifications/log/",
    "notification preferences": "/accounts/notifications/",
    "audit": "/audit/",
}
#: Pages with the same parts as another one of the admin, or of visitors.
ADMIN_VARIANTS = {"audit, nothing found": "/audit/?actor=nobody&first=2026-01-01"}
PUBLIC_VARIANTS = {
    "passkey refused": "/accounts/login/?passkey=refused",
    "signed out": "/accounts/login/?signed-out",
    "not saved": "/accounts/login/?next=/accounts/display/&not-saved",
}
#: Paths by name, of pages for signed-out visitors.
PUBLIC_PAGES = {
    "sign-in": "/accounts/login/",
    "no invitation": "/accounts/invitations/none/",
    "switched off": "/accounts/inactive/",
    "API reference": "/api/v1/",
}
SIZE = ViewportSize(width=1440, height=900)
#: Opens all menus, which may then lie over each other; returns their number.
OPEN_ALL = "menus => menus.map(menu => { menu.open = true; }).length"
CLOSE_ALL = "menus => menus.forEach(menu => { menu.open = false; })"
#: Right edge of the current tab in pixels, after the next frame, because the page may first scroll it into view.
RIGHT_EDGE_OF_TAB = """
    new Promise(requestAnimationFrame).then(
        () => document.querySelector(".tabs [aria-current]")?.getBoundingClientRect().right ?? 0
    )
"""


def test_api_token_is_shown_once(open_page: OpenPage) -> None:
    page = open_page("dora")
    page.goto("/settings/tokens/")
    page.get_by_label("Name").fill("nightly export")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator(".once code")).to_have_text(re.compile(r"^harness_[\w-]{43}$"))
    page.goto("/settings/tokens/")
    expect(page.locator(".once")).to_have_count(0)
    page.locator("summary", has_text="Revoke nightly export").click()
    expect(page.get_by_text("Revoked", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Revoke token nightly export").click()
    expect(page.get_by_text("Revoked", exact=True)).to_be_visible()


def test_tools_are_offered_after_each_comma_of_a_filter(open_page: OpenPage) -> None:
    page = open_page("alice")
    page.goto("/accounts/notifications/")
    field, options = page.get_by_label("Tools"), page.locator("#known-tools option")
    # Other tests call tools on the same site.
    page.evaluate("""document.getElementById("known-tools").replaceChildren(
        new Option("refund_card", "refund_card"), new Option("send_mail", "send_mail"))""")
    field.focus()
    expect(options.nth(0)).to_have_attribute("value", "refund_card")
    field.fill("refund_card,s")
    expect(options.nth(0)).to_be_disabled()
    expect(options.nth(1)).to_have_attribute("value", "refund_card, send_mail")
    field.fill("s")
    expect(options.nth(0)).to_be_enabled()
    expect(options.nth(1)).to_have_attribute("value", "send_mail")


def test_audit_trail_is_verified_and_exported(open_page: OpenPage) -> None:
    page = open_page("carol")
    page.goto("/audit/")
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_text(re.compile("(entry matches its digest|entries match their digests)"))).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    assert download.value.path().read_text().startswith("number,time,what,")


@pytest.mark.begins_first
def test_pages_are_accessible_and_do_not_overflow(open_page: OpenPage, page_monitors: list[PageMonitor]) -> None:
    admin, visitor = (open_page(name, viewport=SIZE) for name in ("dora", ""))
    page_monitors[1].ignore("status of 404")
    problems = [*list_problems(admin, ADMIN_PAGES), *list_problems(visitor, PUBLIC_PAGES)]
    create_invitation(admin, "Auditor")
    problems += [f"invitation made: {violation}" for violation in axe.list_accessibility_violations(admin)]
    assert not problems, "\n".join(problems)


@only_exhaustive
def test_variants_of_pages_are_accessible_and_do_not_overflow(open_page: OpenPage) -> None:
    admin, visitor = (open_page(name, viewport=SIZE) for name in ("dora", ""))
    problems = [*list_problems(admin, ADMIN_VARIANTS), *list_problems(visitor, PUBLIC_VARIANTS)]
    assert not problems, "\n".join(problems)


def list_problems(page: Page, paths: dict[str, str]) -> list[str]:
    problems = []
    for number, (name, path) in enumerate(paths.items()):
        page.goto(path)
        themes = axe.choose_themes(number)
        problems += [f"{name}: {violation}" for violation in axe.list_accessibility_violations(page, themes)]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            problems += [f"{name}, {width}{overflow}" for overflow in list_overflows_at_width(page)]
            if page.locator("details.menu").evaluate_all(OPEN_ALL):
                problems += [f"{name}, menus, {width}{overflow}" for overflow in list_overflows_at_width(page)]
                page.locator("details.menu").evaluate_all(CLOSE_ALL)
            problems += [f"{name}, {width}: the tab"] if page.evaluate(RIGHT_EDGE_OF_TAB) > width + 0.5 else []
        page.set_viewport_size(SIZE)
    return problems


def test_admin_shows_secrets_and_approver_cannot(open_page: OpenPage) -> None:
    admin, other = open_page("dora"), open_page("alice")
    admin.goto("/sessions/?q=lamp")
    admin.get_by_role("button", name="Show secrets").click()
    admin.get_by_label("Password").fill(PASSWORD)
    admin.keyboard.press("Enter")
    admin.wait_for_url("**/sessions/?q=lamp")
    menu = admin.get_by_role("navigation", name="Main")
    for width in (390, 360):
        admin.set_viewport_size({"width": width, "height": 844})
        bar = menu.bounding_box()
        assert bar
        assert bar["height"] < 60, "the bar of a phone is one line while secrets are shown, too"
    admin.set_viewport_size({"width": 1366, "height": 768})
    admin.get_by_role("button", name="Hide secrets").click()
    expect(admin.get_by_role("button", name="Show secrets")).to_be_visible()
    other.goto("/sessions/")
    expect(other.get_by_role("button", name="Sign out")).to_be_visible()
    expect(other.get_by_role("button", name="Show secrets")).to_have_count(0)
