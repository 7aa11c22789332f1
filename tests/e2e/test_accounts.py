"""Accounts in a real browser: invitations, second factors, passkeys, devices, roles and notifications."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage
from tests.e2e.invited_user import InvitedUser, create_invitation
from tests.support.browser import LOST_WEBSOCKET, PageMonitor, monitored_context, sign_in
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.interrupted_calls import request_approvals
from tests.support.second_factors import compute_current_totp_code
from tests.support.site_process import PASSWORD, Site


@pytest.mark.parametrize("javascript", mark_all_but_each(2, [True, False]))
def test_invited_user_adds_a_second_factor(open_page: OpenPage, javascript: bool) -> None:
    admin = open_page("dora", java_script_enabled=javascript)
    user = InvitedUser(open_page(java_script_enabled=javascript), "erin" if javascript else "frank")
    user.join(create_invitation(admin, "Auditor", "for the audit"))

    page = user.page
    page.goto("/accounts/")
    page.get_by_role("link", name="Turn on").click()
    secret = page.locator(".steps code").inner_text()
    page.get_by_label("Current code").fill(compute_current_totp_code(secret))
    page.get_by_role("button", name="Turn on").click()
    recovery_codes = page.locator(".codes li")
    expect(recovery_codes).to_have_count(10)
    codes = recovery_codes.all_inner_texts()
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_text("10 left")).to_be_visible()

    user.sign_out()
    user.sign_in()
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/sessions/")
    admin.goto("/audit/?subject=people")
    expect(admin.get_by_text("added a second factor").first).to_be_visible()


def test_required_second_factor_is_set_up_between_sign_in_and_decision(
    private_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    request_approvals(private_site, 1)
    reader = open_page("alice", private_site)
    page_monitors[-1].ignore(f"(?i:status of|error code) 412|{LOST_WEBSOCKET}")
    reader.goto("/review/")
    reader.get_by_role("link", name="Ship parcel 0").first.click()
    page_actions.fill_in_decision(reader, "Approve", "The address is right.")
    decision_page = reader.url

    admin = open_page("dora", private_site)
    _turn_on_authenticator_app(admin, "/accounts/")
    admin.get_by_role("link", name="I have stored them").click()
    admin.goto("/settings/members/")
    admin.get_by_label("Require a second factor of").select_option("everybody")
    admin.get_by_role("button", name="Save requirement").click()
    expect(admin.get_by_text(re.compile(r"^The second factor is required\. \d+ members have none"))).to_be_visible()

    # An open page keeps what was typed, and sends nothing.
    expect(reader.get_by_text("requires a second factor now. Your text stays here").first).to_be_visible()
    expect(page_actions.reason_field(reader)).to_have_value("The address is right.")

    member = open_page(site=private_site)
    member.goto(decision_page)
    member.get_by_label("Name").fill("alice")
    member.get_by_label("Password").fill(PASSWORD)
    member.get_by_role("button", name="Sign in").click()
    expect(member.get_by_text("dora requires a second factor of all members")).to_be_visible()
    member.get_by_role("link", name="Set up an authenticator app").click()
    _turn_on_authenticator_app(member)
    member.get_by_role("link", name="I have stored them").click()
    member.wait_for_url(decision_page)
    page_actions.fill_in_decision(member, "Approve", "The address is right.")
    page_actions.record_decision(member, "Approve")
    expect(member.get_by_text("The address is right.").first).to_be_visible()
    expect(member.locator("form[data-decide]")).to_have_count(0)


def test_typed_rejection_survives_the_set_up_of_a_required_second_factor(
    private_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    request_approvals(private_site, 1)
    reader = open_page("alice", private_site)
    page_monitors[-1].ignore(f"(?i:status of|error code) 412|{LOST_WEBSOCKET}")
    reader.goto("/review/")
    reader.get_by_role("link", name="Ship parcel 0").first.click()
    page_actions.choose_answer(reader, "Reject")
    reader.set_viewport_size({"width": 1000, "height": 300})
    reader.get_by_role("textbox", name="Why").fill("The address is wrong.")
    decision_page = reader.url

    admin = open_page("dora", private_site)
    _turn_on_authenticator_app(admin, "/accounts/")
    admin.get_by_role("link", name="I have stored them").click()
    admin.goto("/settings/members/")
    admin.get_by_label("Require a second factor of").select_option("everybody")
    admin.get_by_role("button", name="Save requirement").click()
    expect(admin.get_by_text(re.compile(r"^The second factor is required\. \d+ members have none"))).to_be_visible()

    reader.keyboard.press("Control+Enter")
    problem = reader.locator("form[data-decide] [data-connection]")
    expect(problem).to_contain_text("requires a second factor now. Your text stays here")
    expect(problem).to_be_in_viewport(ratio=1)
    reader.evaluate("scrollTo(0, 0)")
    expect(problem).not_to_be_in_viewport()
    reader.keyboard.press("Control+Enter")  # the page cannot send the form any more, and says why again
    expect(problem).to_be_in_viewport(ratio=1)
    problem.get_by_role("link", name="Set up a second factor").click()
    expect(reader.get_by_text("dora requires a second factor of all members")).to_be_visible()
    reader.get_by_role("link", name="Set up an authenticator app").click()
    _turn_on_authenticator_app(reader)
    reader.get_by_role("link", name="I have stored them").click()
    reader.wait_for_url(decision_page)
    expect(reader.get_by_role("radio", name="Reject")).to_be_checked()
    expect(reader.get_by_role("textbox", name="Why")).to_have_value("The address is wrong.")
    page_actions.record_decision(reader, "Reject")
    expect(reader.get_by_text("The address is wrong.").first).to_be_visible()
    expect(reader.locator("form[data-decide]")).to_have_count(0)


def _turn_on_authenticator_app(page: Page, account: str = "") -> None:
    """Set up an authenticator app, from the page of the account or on the open page of the set-up."""
    if account:
        page.goto(account)
        page.get_by_role("link", name="Turn on").click()
    secret = page.locator(".steps code").inner_text()
    page.get_by_label("Current code").fill(compute_current_totp_code(secret))
    page.get_by_role("button", name="Turn on").click()
    expect(page.locator(".codes li")).to_have_count(10)


@pytest.fixture
def passkey_page(browser: Browser, site: Site) -> Iterator[Page]:
    """Page under the host name `localhost`, because passkeys are bound to names, with a virtual authenticator."""
    with ExitStack() as stack:
        address = site.address.replace("127.0.0.1", "localhost")
        context, monitor = stack.enter_context(monitored_context(browser, address))
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
        assert monitor.problems == []


def test_passkey_replaces_the_password_and_is_a_second_factor(open_page: OpenPage, passkey_page: Page) -> None:
    link = create_invitation(open_page("dora"), "Auditor").replace("127.0.0.1", "localhost")
    user = InvitedUser(passkey_page, "grace")
    user.join(link)
    page = user.page
    page.goto("/accounts/passkeys/add/")
    page.get_by_label("Name of the passkey").fill("Laptop")
    page.get_by_role("button", name="Add passkey").click()
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_role("link", name="Laptop", exact=True)).to_be_visible()

    user.sign_out()
    page.goto("/sessions/?q=lamp")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/sessions/?q=lamp")

    # After a password, the passkey is the second factor.
    user.sign_out()
    user.sign_in()
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/sessions/")

    page.goto("/accounts/")
    page.get_by_role("link", name="Remove Laptop").click()
    page.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_text("None", exact=True)).to_be_visible()
    user.sign_out()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert").get_by_text("This passkey is unknown here")).to_be_visible()


@only_exhaustive
def test_sign_out_of_other_devices(open_page: OpenPage, page_monitors: list[PageMonitor]) -> None:
    link = create_invitation(open_page("dora"), "Auditor")
    first_device, second_device = InvitedUser(open_page(), "heidi"), InvitedUser(open_page(), "heidi")
    page_monitors[-1].ignore(f"status of 40[13]|{LOST_WEBSOCKET}")  # the open page is live until it is left
    first_device.join(link)
    second_device.sign_in()
    second_device.page.wait_for_url("**/sessions/")
    first_device.page.goto("/accounts/")
    first_device.page.get_by_role("button", name="Sign out everywhere else").click()
    expect(first_device.page.get_by_text("This device")).to_be_visible()
    second_device.page.goto("/sessions/")
    expect(second_device.page.get_by_role("button", name="Sign in")).to_be_visible()


@only_exhaustive
def test_removed_role_has_no_effect_on_the_next_request(open_page: OpenPage, page_monitors: list[PageMonitor]) -> None:
    admin, user = open_page("dora"), InvitedUser(open_page(), "ivan")
    page_monitors[1].ignore(f"(?i:status of|error code) 403|{LOST_WEBSOCKET}")
    user.join(create_invitation(admin, "Admin"))
    user.page.goto("/settings/tokens/")
    expect(user.page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    admin.goto("/settings/members/")
    row = admin.get_by_role("listitem").filter(has=admin.get_by_text("ivan", exact=True))
    row.get_by_label("Role of ivan").select_option(label="Auditor")
    with admin.expect_response(lambda answer: answer.request.method == "POST"):
        row.get_by_role("button", name="Change").click()
    user.page.goto("/settings/tokens/")
    expect(user.page.get_by_text("This needs the role admin. These members can: dora.")).to_be_visible()


@only_exhaustive
def test_members_and_notifications_by_keyboard_only(open_page: OpenPage, page_monitors: list[PageMonitor]) -> None:
    user = InvitedUser(open_page(), "judy")
    # Its open page polls after its user got another role, and after the removal.
    page_monitors[-1].ignore(f"(?i:status of|error code) 4(03|12)|{LOST_WEBSOCKET}")
    page = open_page("dora")
    user.join(create_invitation(page, "Auditor"))
    keys = page.keyboard

    page.goto("/settings/members/")
    page_actions.press_tab_until_focused(page, "combobox", "Role of judy")
    keys.press("ArrowDown")
    keys.press("Tab")
    with page.expect_navigation():  # the field has the new value before, too
        keys.press("Enter")
    expect(page.get_by_label("Role of judy")).to_have_value("approver")
    page.get_by_label("More about judy").focus()
    keys.press("Enter")
    while not page.locator("summary:focus", has_text="Remove from workspace").count():
        keys.press("Tab")
    keys.press("Enter")  # says what follows from it
    keys.press("Tab")
    expect(page.get_by_role("button", name="Remove", exact=True).and_(page.locator(":focus"))).to_be_visible()
    keys.press("Enter")
    expect(page.get_by_label("Role of judy")).to_have_count(0)

    page.goto("/settings/notifications/")
    page_actions.press_tab_until_focused(page, "textbox", "Name")
    keys.type("pager")
    keys.press("Tab")
    keys.type("https://hooks.example/in")
    for _ in range(5):
        keys.press("Tab")
    keys.press("Space")  # no notification of passed deadlines
    keys.press("Enter")
    expect(page.locator(".once code")).to_have_text(re.compile("^whsec_"))
    page_actions.press_tab_until_focused(page, "button", "Pause pager")
    keys.press("Enter")
    expect(page.get_by_text("Paused", exact=True)).to_be_visible()

    page.goto("/accounts/notifications/")
    page_actions.press_tab_until_focused(page, "checkbox", "Deadline is near")
    keys.press("Space")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1, name="dora")).to_be_visible()
    page.goto("/accounts/notifications/")
    expect(page.get_by_role("checkbox", name="Deadline is near")).not_to_be_checked()


@only_exhaustive  # all of them sign in with the form before the first test, too
def test_other_accounts_can_still_sign_in(open_page: OpenPage) -> None:
    for name in ("alice", "bob", "carol", "dora"):
        sign_in(open_page(), name, PASSWORD)
