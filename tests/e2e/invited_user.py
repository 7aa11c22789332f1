"""Invitation of a new user, and their browser."""

import re

from playwright.sync_api import Page, expect


class InvitedUser:
    """New user who creates an account by an invitation; `page` is a page of their browser."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.password = f"the very own phrase of {name}"

    def join(self, link: str) -> None:
        self.page.goto(link)
        self.page.get_by_label("Name").fill(self.name)
        self.page.get_by_label("Password").fill(self.password)
        self.page.get_by_role("button", name="Create account and join").click()
        self.page.wait_for_url(re.compile(r"/(review|sessions|first-steps)/"))

    def sign_in(self) -> None:
        self.page.goto("/accounts/login/")
        self.page.get_by_label("Name").fill(self.name)
        self.page.get_by_label("Password").fill(self.password)
        self.page.get_by_role("button", name="Sign in").click()

    def sign_out(self) -> None:
        self.page.get_by_role("button", name="Sign out", exact=True).click()
        expect(self.page.get_by_role("button", name="Sign in")).to_be_visible()


def create_invitation(admin: Page, role: str, note: str = "") -> str:
    """Create an invitation on the members page, and return its link."""
    admin.goto("/settings/members/")
    admin.get_by_label("Note for admins (optional)").fill(note)
    admin.get_by_label("Role", exact=True).select_option(role.lower())
    admin.get_by_role("button", name="Create invitation link").click()
    return admin.locator(".once code").inner_text()
