"""The settings of a workspace's webhooks, the log, and what a person chooses for themselves."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import Role
from harness_site.notifications.delivery_queue import send_due_deliveries
from harness_site.notifications.models import Delivery, Preferences, Webhook
from harness_site.notifications.notice_collector import create_due_notices
from tests.integration.notifications.conftest import Start, gathered, interrupted, make_webhook
from tests.support.audit_entries import entries
from tests.support.factories import make_user, make_workspace
from tests.support.page_text import visible_text
from tests.support.site_process import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]

PAGE = "/settings/notifications/"
FORM = {
    "name": "pager",
    "address": "https://hooks.example/services/T0/very-private",
    "format": "json",
    "events": ["interrupted", "escalation"],
}


def make(client: Client, **fields: Any) -> Any:
    return client.post(f"{PAGE}create/", {**FORM, **fields})


class TestWebhooks:
    def test_the_secret_is_shown_once_and_stored_sealed(self, admin: Client) -> None:
        response = make(admin)
        found = re.search(r"<code>(whsec_[\w-]{43})</code>", response.content.decode())
        assert found
        assert "This secret is shown only now." in visible_text(response)
        page = admin.get(PAGE).content.decode()
        stored = str(list(Webhook.objects.values_list()))
        for text in (page, stored):
            assert found[1] not in text
            assert "very-private" not in text
        webhook = Webhook.objects.get()
        assert (webhook.host, webhook.events, webhook.created_by) == ("hooks.example", "interrupted,escalation", "dora")

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"address": "http://hooks.example/"}, "The address has to begin with https://"),
            ({"address": "https://name:word@hooks.example/"}, "An address with a name and a password in it"),
            ({"name": ""}, "Enter a value for “Name”."),
            ({"events": []}, "Enter a value for “Events”."),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, admin: Client, fields: dict[str, Any], problem: str) -> None:
        response = make(admin, **fields)
        assert response.status_code == 422
        assert problem in visible_text(response)
        assert not Webhook.objects.exists()

    def test_what_is_done_to_it_is_recorded(self, admin: Client) -> None:
        make(admin)
        pk = Webhook.objects.get().pk
        for what in ("pause", "pause", "resume", "resume", "delete"):
            assert admin.post(f"{PAGE}{pk}/{what}/").headers["Location"] == PAGE
        assert not Webhook.objects.exists()
        about = {"webhook": "pager", "host": "hooks.example"}
        assert entries() == [
            ("webhook_created", "dora", {**about, "events": "interrupted,escalation"}),
            ("webhook_paused", "dora", about),
            ("webhook_resumed", "dora", about),
            ("webhook_deleted", "dora", about),
        ]

    def test_a_test_and_a_second_try_are_recorded(self, admin: Client) -> None:
        webhook = make_webhook()
        admin.post(f"{PAGE}{webhook.pk}/test/")
        interrupted()
        create_due_notices()
        Delivery.objects.filter(webhook=webhook).update(status="given_up")
        again = Delivery.objects.get(webhook=webhook, notice__tool="refund_card").pk
        for _ in range(2):  # the second finds it taken up
            admin.post(f"{PAGE}log/{again}/again/")
        assert entries() == [
            ("webhook_tested", "dora", {"webhook": "pager", "host": "127.0.0.1"}),
            ("message_retried", "dora", {"message": str(again)}),
        ]

    def test_the_test_button_tells_at_once_what_came_of_it(self, admin: Client, web: Start) -> None:
        receiver = web()
        webhook = make_webhook(receiver.address)
        assert admin.post(f"{PAGE}{webhook.pk}/test/").headers["Location"] == f"{PAGE}#log"
        assert [got["headers"]["Harness-Event"] for got in receiver.messages] == ["test"]
        assert re.search(r"Test → pager 127.0.0.1 .* · answer 200 · \d+ ms Sent", visible_text(admin.get(PAGE)))

    def test_a_test_that_fails_is_not_tried_again(self, admin: Client, settings: Settings) -> None:
        settings.DEBUG = True
        webhook = make_webhook(f"http://127.0.0.1:{free_port()}/")
        admin.post(f"{PAGE}{webhook.pk}/test/")
        assert Delivery.objects.get().status == "given_up"
        assert "The server refused the connection. Check host and port. Given up" in visible_text(admin.get(PAGE))

    def test_an_address_that_leads_inside_says_so(self, admin: Client) -> None:
        webhook = make_webhook("https://127.0.0.1/")
        admin.post(f"{PAGE}{webhook.pk}/test/")
        assert "127.0.0.1 leads to 127.0.0.1, inside this network" in visible_text(admin.get(PAGE))

    def test_hostile_names_are_text(self, admin: Client) -> None:
        make_webhook(name="<script>alert(1)</script>")
        assert b"<script>alert" not in admin.get(PAGE).content


class TestLog:
    @pytest.mark.parametrize("calls", [1, 3])
    def test_the_number_of_queries_does_not_depend_on_what_was_sent(
        self, admin: Client, django_assert_num_queries: DjangoAssertNumQueries, calls: int
    ) -> None:
        make_webhook()
        for number in range(calls):
            interrupted(f"tool_{number}")
        create_due_notices()
        with django_assert_num_queries(5):
            page = visible_text(admin.get(f"{PAGE}log/"))
        assert page.count("→ pager") == calls
        with django_assert_num_queries(6):
            admin.get(PAGE)

    def test_it_says_what_was_sent_to_whom(self, admin: Client, web: Start, alice: User) -> None:
        receiver = web(status=500)
        make_webhook(receiver.address)
        interrupted()
        interrupted()
        create_due_notices()
        gathered()
        send_due_deliveries()
        page = visible_text(admin.get(f"{PAGE}log/"))
        assert "Outcome unknown refund_card, 2 calls → pager 127.0.0.1" in page
        assert "answer 500" in page
        assert "The address answered with status 500. Waiting" in page
        assert "Outcome unknown refund_card, 2 calls → alice alice@example.com" in page

    def test_it_is_read_page_by_page_and_by_state(self, admin: Client) -> None:
        for number in range(51):
            interrupted(f"tool_{number}")
        create_due_notices()
        first = admin.get(f"{PAGE}log/?status=waiting")
        following = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert following
        second = admin.get(f"{PAGE}log/{following[1].replace('&amp;', '&')}")
        assert (visible_text(first).count("→ dora"), visible_text(second).count("→ dora")) == (50, 1)
        assert "No messages yet." in visible_text(admin.get(f"{PAGE}log/?status=sent"))
        assert admin.get(f"{PAGE}log/?before=x").status_code == 400

    def test_what_was_given_up_can_be_taken_up(self, admin: Client, post_office: Start) -> None:
        office = post_office()
        interrupted()
        create_due_notices()
        Delivery.objects.update(status="given_up", attempts=30)
        delivery = Delivery.objects.get()
        assert "Given up Try again" in visible_text(admin.get(f"{PAGE}log/"))
        admin.post(f"{PAGE}log/{delivery.pk}/again/")
        assert send_due_deliveries().sent == 1
        assert len(office.messages) == 1

    def test_what_was_sent_is_not_sent_again(self, admin: Client) -> None:
        interrupted()
        create_due_notices()
        Delivery.objects.update(status="sent")
        admin.post(f"{PAGE}log/{Delivery.objects.get().pk}/again/")
        assert Delivery.objects.get().status == "sent"

    def test_another_workspace_has_its_own(self, admin: Client) -> None:
        other = make_workspace(slug="other")
        make_user(name="erin", role=Role.ADMIN, workspace=other)
        make_webhook("https://other.example/", workspace=other, name="theirs")
        interrupted(workspace=other)
        create_due_notices()
        assert "theirs" not in visible_text(admin.get(PAGE)) + visible_text(admin.get(f"{PAGE}log/"))


class TestPreferences:
    PATH = "/accounts/notifications/"

    def test_the_usual_is_everything(self, admin: Client) -> None:
        assert admin.get(self.PATH).content.decode().count(" checked") == 6

    def test_what_is_chosen_is_kept_and_recorded(self, admin: Client, dora: User) -> None:
        chosen = {"email": "on", "address": "", "interrupted": "on"}
        for _ in range(2):
            assert admin.post(self.PATH, chosen).headers["Location"] == "/accounts/"
        kept = Preferences.objects.get(user=dora)
        assert (kept.wants("interrupted"), kept.wants("reminder")) == (True, False)
        assert admin.get(self.PATH).content.decode().count(" checked") == 2
        fields = ["awaiting_approval", "escalation", "handed_over", "reminder"]
        assert entries() == [("notifications_changed", "dora", {"fields": fields})]

    def test_what_is_no_address_is_refused(self, admin: Client) -> None:
        response = admin.post(self.PATH, {"email": "on", "address": "pager"})
        assert response.status_code == 422
        assert not Preferences.objects.exists()

    def test_it_says_where_no_e_mail_is_sent(self, admin: Client, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        assert "this installation sends no e-mail" in visible_text(admin.get(self.PATH))

    def test_the_account_leads_there(self, admin: Client) -> None:
        assert 'href="/accounts/notifications/"' in admin.get("/accounts/").content.decode()


def test_what_waits_says_when_it_is_tried_next(admin: Client) -> None:
    interrupted()
    create_due_notices()
    Delivery.objects.update(due_at=clock.now() + timedelta(minutes=30, seconds=30))
    assert "next attempt due in 30 min" in visible_text(admin.get(f"{PAGE}log/"))
