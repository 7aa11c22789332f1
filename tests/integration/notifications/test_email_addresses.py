"""E-mail addresses for notifications, and their confirmation."""

from datetime import timedelta
from typing import ClassVar

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import Client

from harness_site.notifications import email_address_confirmation
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.models import Delivery, Preferences
from tests.integration.notifications.conftest import Receiver, Start, interrupted
from tests.support.audit_entries import list_entries
from tests.support.client_login import sign_in
from tests.support.page_text import visible_text

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


#: Fields that differ between the default and `TestAddress.NEW`.
CHANGED = ["asked_address", "awaiting_approval", "handed_over", "mentioned", "reminder"]


class TestAddress:
    """A new address is used after the link that was sent there is opened."""

    PATH = "/accounts/notifications/"
    NEW: ClassVar = {"email": "on", "address": "pager@example.com", "interrupted": "on", "escalation": "on"}

    def link(self, office: Receiver) -> str:
        mail = office.messages[-1]
        assert (mail["to"], mail["subject"]) == ("pager@example.com", "[Harness] Confirm your e-mail address")
        (line,) = [one for one in mail["text"].splitlines() if one.startswith("https://")]
        return str(line.removeprefix("https://harness.example"))

    def test_incomplete_address_is_explained(self, admin: Client) -> None:
        page = visible_text(admin.post(self.PATH, {**self.NEW, "address": "pager"}))
        assert "Enter a complete e-mail address, such as name@example.org." in page

    def test_messages_go_to_the_old_address_until_the_confirmation(
        self, admin: Client, dora: User, start_mail_server: Start
    ) -> None:
        office = start_mail_server()
        assert admin.post(self.PATH, self.NEW).headers["Location"] == f"{self.PATH}?link=sent"
        page = visible_text(admin.get(f"{self.PATH}?link=sent"))
        assert "pager@example.com is not confirmed yet. Open the link that was sent there." in page
        assert "Until then, messages go to dora@example.com." in page
        account = visible_text(admin.get("/accounts/"))
        assert "pager@example.com is not confirmed yet. Until then, messages go to dora@example.com." in account
        assert "You get e-mail about calls that wait for a decision." in account
        assert admin.post(f"{self.PATH}confirm/").headers["Location"] == f"{self.PATH}?link=lately"
        interrupted()
        create_due_notices()
        assert Delivery.objects.get().recipient == "dora@example.com"

        place = self.link(office)
        assert "Notifications for dora will go to pager@example.com" in visible_text(admin.get(place))
        assert Preferences.objects.get(user=dora).address == ""
        assert admin.post(place).headers["Location"] == self.PATH
        assert "Messages go to pager@example.com." in visible_text(admin.get(self.PATH))
        interrupted("ring")
        create_due_notices()
        assert [one.recipient for one in Delivery.objects.order_by("pk")][1:] == ["pager@example.com"]
        assert list_entries("notifications_changed", "address_confirmed") == [
            (
                "notifications_changed",
                "dora",
                {"fields": ["asked_address", "awaiting_approval", "handed_over", "mentioned", "reminder"]},
            ),
            ("address_confirmed", "dora", {}),
        ]

    def test_link_works_once_for_its_user_and_address(
        self, admin: Client, alice: User, start_mail_server: Start
    ) -> None:
        office = start_mail_server()
        admin.post(self.PATH, self.NEW)
        place = self.link(office)
        other = sign_in(Client(), alice)
        assert other.get(place).status_code == other.post(place).status_code == 404
        assert "belongs to another account than alice" in visible_text(other.get(place))
        assert admin.get(f"{place[:-3]}xx/").status_code == 404
        assert Client().get(place).headers["Location"].startswith("/accounts/login/?next=/accounts/notifications/")
        assert admin.post(place).status_code == 302
        assert admin.post(place).status_code == 404

    def test_link_is_invalid_when_expired_or_after_another_change(
        self, admin: Client, start_mail_server: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        office = start_mail_server()
        admin.post(self.PATH, self.NEW)
        place = self.link(office)
        with monkeypatch.context() as later:
            later.setattr(email_address_confirmation, "LASTS", timedelta(seconds=-1))
            assert admin.get(place).status_code == 404
        assert admin.get(place).status_code == 200
        admin.post(self.PATH, {**self.NEW, "address": "dora@example.com"})
        assert admin.post(place).status_code == 404

    def test_confirmation_links_are_rate_limited(self, admin: Client, start_mail_server: Start) -> None:
        office = start_mail_server()
        admin.post(self.PATH, self.NEW)
        again = admin.post(self.PATH, self.NEW)
        assert "A link was sent a moment ago." in visible_text(admin.get(again.headers["Location"]))
        for number in range(12):
            admin.post(self.PATH, {**self.NEW, "address": f"number{number}@example.com"})
        assert len(office.messages) == 10

    def test_unreachable_mail_server_is_reported(self, admin: Client, dora: User) -> None:
        dora.email = ""
        dora.save()
        response = admin.post(self.PATH, self.NEW, follow=True)
        assert "The link could not be sent: the mail server refused it. Save to try again." in visible_text(response)
        assert "Until then, you get no messages." in visible_text(response)

    def test_unconfirmed_address_of_a_provider(self, admin: Client, dora: User) -> None:
        EmailAddress.objects.create(user=dora, email="Dora@example.com", verified=False, primary=True)
        assert "so you get no messages. Enter one below." in visible_text(admin.get(self.PATH))
        interrupted()
        create_due_notices()
        assert not Delivery.objects.exists()
        EmailAddress.objects.update(verified=True)
        assert "Messages go to dora@example.com." in visible_text(admin.get(self.PATH))

    def test_hostile_text_in_an_address_is_escaped(self, admin: Client, dora: User) -> None:
        Preferences.objects.create(user=dora, asked_address="<script>alert(1)</script>@example.com")
        assert b"<script>alert" not in admin.get(self.PATH).content
