"""The account, the settings and the trail, in a real browser."""

import re

from playwright.sync_api import expect

from tests.e2e.conftest import Visit
from tests.e2e.invited_user import invite
from tests.support import axe
from tests.support.browser import Watch
from tests.support.page_overflow import WIDTHS, sticking_out
from tests.support.site_process import PASSWORD

#: Name → address. The admin sees all of them.
PAGES = {
    "account": "/accounts/",
    "password": "/accounts/password/",
    "members": "/settings/members/",
    "first steps": "/settings/first-steps/",
    "connect": "/settings/connect/",
    "system": "/settings/system/",
    "tokens": "/settings/tokens/",
    "masking": "/settings/masking/",
    "notifications": "/settings/notifications/",
    "messages": "/settings/notifications/log/",
    "what one is told": "/accounts/notifications/",
    "audit": "/audit/",
    "audit, nothing found": "/audit/?actor=nobody&first=2026-01-01",
}
#: Those of nobody in particular.
ALONE = {
    "sign-in": "/accounts/login/",
    "passkey refused": "/accounts/login/?passkey=refused",
    "no invitation": "/accounts/invitations/none/",
    "switched off": "/accounts/inactive/",
}
#: Where the tab of the page that is shown ends, when the next frame is drawn: the page may have to move it into sight.
RIGHT_OF_TAB = """
    new Promise(requestAnimationFrame).then(
        () => document.querySelector(".tabs [aria-current]")?.getBoundingClientRect().right ?? 0
    )
"""


def test_a_token_is_shown_once(visit: Visit) -> None:
    page = visit("dora")
    page.goto("/settings/tokens/")
    page.get_by_label("Name").fill("nightly export")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator(".once code")).to_have_text(re.compile(r"^harness_[\w-]{43}$"))
    page.goto("/settings/tokens/")
    expect(page.locator(".once")).to_have_count(0)
    page.get_by_role("button", name="Revoke nightly export").click()
    expect(page.get_by_text("Revoked", exact=True)).to_be_visible()


def test_the_trail_is_verified_on_the_page(visit: Visit) -> None:
    page = visit("carol")
    page.goto("/audit/")
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_text("entries are as they were recorded")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    assert download.value.path().read_text().startswith("number,time,what,")


def test_everybody_can_read_and_use_the_pages(visit: Visit, watches: list[Watch]) -> None:
    admin, nobody = (visit(name) for name in ("dora", ""))
    watches[1].expect("status of 404")
    wrong = []
    for page, places in ((admin, PAGES), (nobody, ALONE)):
        for name, place in places.items():
            page.goto(place)
            wrong += [f"{name}: {violation}" for violation in axe.violations(page)]
    invite(admin, "Auditor")
    wrong += [f"invitation made: {violation}" for violation in axe.violations(admin)]
    assert not wrong, "\n".join(wrong)


def test_nothing_sticks_out_of_the_window(visit: Visit, watches: list[Watch]) -> None:
    admin, nobody = (visit(name) for name in ("dora", ""))
    watches[1].expect("status of 404")
    out = []
    for page, places in ((admin, PAGES), (nobody, ALONE)):
        for name, place in places.items():
            page.goto(place)
            for more in page.locator("details.menu > summary").all():
                more.click()
            out += [f"{name}, {found}" for found in sticking_out(page)]
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                out += [f"{name}, {width}: the tab"] if page.evaluate(RIGHT_OF_TAB) > width + 0.5 else []
    assert not out, "\n".join(out)


def test_secrets_are_shown_to_who_may_see_them(visit: Visit) -> None:
    admin, other = visit("dora"), visit("alice")
    admin.goto("/sessions/?q=lamp")
    admin.get_by_role("button", name="Show secrets").click()
    admin.get_by_label("Password").fill(PASSWORD)
    admin.keyboard.press("Enter")
    admin.wait_for_url("**/sessions/?q=lamp")
    admin.get_by_role("button", name="Hide secrets").click()
    expect(admin.get_by_role("button", name="Show secrets")).to_be_visible()
    other.goto("/sessions/")
    expect(other.get_by_role("button", name="Sign out")).to_be_visible()
    expect(other.get_by_role("button", name="Show secrets")).to_have_count(0)
