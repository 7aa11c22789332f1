"""People and their doors, in a real browser: invitations, second factors, passkeys, sign-ins, roles."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import Visit
from tests.e2e.invited_user import Guest, invite
from tests.support.browser import Watch, sign_in, watched
from tests.support.second_factors import code_of
from tests.support.site_process import PASSWORD, Site


@pytest.mark.parametrize("javascript", [True, False])
def test_from_an_invitation_to_a_second_factor(visit: Visit, javascript: bool) -> None:
    admin = visit("dora", java_script_enabled=javascript)
    guest = Guest(visit(java_script_enabled=javascript), "erin" if javascript else "frank")
    guest.join(invite(admin, "Auditor", "for the audit"))

    page = guest.page
    page.goto("/accounts/")
    page.get_by_role("link", name="Turn on").click()
    secret = page.locator(".steps code").inner_text()
    page.get_by_label("Current code").fill(code_of(secret))
    page.get_by_role("button", name="Turn on").click()
    shown = page.locator(".codes li")
    expect(shown).to_have_count(10)
    codes = shown.all_inner_texts()
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_text("10 left")).to_be_visible()

    guest.sign_out()
    guest.sign_in()
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/sessions/")
    admin.goto("/audit/?subject=people")
    expect(admin.get_by_text("added a second factor").first).to_be_visible()


@pytest.fixture
def by_name(browser: Browser, site: Site) -> Iterator[Page]:
    """A browser that knows the site by a name, which passkeys are bound to, with a security key plugged in."""
    with ExitStack() as leaving:
        address = site.address.replace("127.0.0.1", "localhost")
        context, watch = leaving.enter_context(watched(browser, address))
        page = context.new_page()
        devices = context.new_cdp_session(page)
        devices.send("WebAuthn.enable")
        key = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        devices.send("WebAuthn.addVirtualAuthenticator", {"options": key})
        yield page
        assert watch.complaints == []


def test_a_passkey_instead_of_a_password(visit: Visit, by_name: Page) -> None:
    link = invite(visit("dora"), "Auditor").replace("127.0.0.1", "localhost")
    guest = Guest(by_name, "grace")
    guest.join(link)
    page = guest.page
    page.goto("/accounts/passkeys/add/")
    page.get_by_label("Name of the passkey").fill("Laptop")
    page.get_by_role("button", name="Add passkey").click()
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_role("link", name="Laptop", exact=True)).to_be_visible()

    guest.sign_out()
    page.goto("/sessions/?q=lamp")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/sessions/?q=lamp")

    # After a password it is the second factor.
    guest.sign_out()
    guest.sign_in()
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/sessions/")

    page.goto("/accounts/")
    page.get_by_role("link", name="Remove Laptop").click()
    page.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_text("None", exact=True)).to_be_visible()
    guest.sign_out()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert").get_by_text("This passkey is unknown here")).to_be_visible()


def test_signed_out_everywhere_else(visit: Visit) -> None:
    link = invite(visit("dora"), "Auditor")
    here, there = Guest(visit(), "heidi"), Guest(visit(), "heidi")
    here.join(link)
    there.sign_in()
    there.page.wait_for_url("**/sessions/")
    here.page.goto("/accounts/")
    here.page.get_by_role("button", name="Sign out everywhere else").click()
    expect(here.page.get_by_text("This device")).to_be_visible()
    there.page.goto("/sessions/")
    expect(there.page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_role_that_is_taken_away_is_gone_at_once(visit: Visit, watches: list[Watch]) -> None:
    admin, guest = visit("dora"), Guest(visit(), "ivan")
    watches[1].expect("status of 403")
    guest.join(invite(admin, "Admin"))
    guest.page.goto("/settings/tokens/")
    expect(guest.page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    admin.goto("/settings/members/")
    row = admin.get_by_role("listitem").filter(has=admin.get_by_text("ivan", exact=True))
    row.get_by_label("Role of ivan").select_option(label="Auditor")
    with admin.expect_response(lambda answer: answer.request.method == "POST"):
        row.get_by_role("button", name="Change").click()
    guest.page.goto("/settings/tokens/")
    expect(guest.page.get_by_text("This needs the role admin. These members can: dora.")).to_be_visible()


def test_members_and_notifications_without_a_mouse(visit: Visit, watches: list[Watch]) -> None:
    guest = Guest(visit(), "judy")
    watches[-1].expect("status of 403")  # the open page asks on when its reader is no member any more
    page = visit("dora")
    guest.join(invite(page, "Auditor"))
    keys = page.keyboard

    page.goto("/settings/members/")
    page_actions.tab_to(page, "combobox", "Role of judy")
    keys.press("ArrowDown")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_label("Role of judy")).to_have_value("approver")
    more = page.get_by_role("listitem").filter(has=page.get_by_text("judy", exact=True)).locator("summary")
    more.focus()
    keys.press("Enter")
    keys.press("Tab")
    while not page.get_by_role("button", name="Remove from").and_(page.locator(":focus")).count():
        keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_label("Role of judy")).to_have_count(0)

    page.goto("/settings/notifications/")
    page_actions.tab_to(page, "textbox", "Name")
    keys.type("pager")
    keys.press("Tab")
    keys.type("https://hooks.example/in")
    for _ in range(5):
        keys.press("Tab")
    keys.press("Space")  # not told of the passed deadline
    keys.press("Enter")
    expect(page.locator(".once code")).to_have_text(re.compile("^whsec_"))
    page_actions.tab_to(page, "button", "Pause pager")
    keys.press("Enter")
    expect(page.get_by_text("Paused", exact=True)).to_be_visible()

    page.goto("/accounts/notifications/")
    page_actions.tab_to(page, "checkbox", "Reminder before a deadline")
    keys.press("Space")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1, name="dora")).to_be_visible()
    page.goto("/accounts/notifications/")
    expect(page.get_by_role("checkbox", name="Reminder before a deadline")).not_to_be_checked()


def test_the_sign_in_of_the_cast_still_works(visit: Visit) -> None:
    for name in ("alice", "bob", "carol", "dora"):
        sign_in(visit(), name, PASSWORD)
