"""Pages for webhooks, the delivery log and personal preferences."""

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
from harness_site.accounts.models import Membership
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.models import CALL_EVENTS, Delivery, Event, Preferences, Webhook
from harness_site.notifications.send_due_deliveries import send_due_deliveries
from tests.integration.notifications.conftest import Start, interrupted, make_due, make_webhook
from tests.support.audit_entries import list_entries
from tests.support.client_login import sign_in
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
    def test_secret_is_shown_once_and_stored_encrypted(self, admin: Client) -> None:
        created = make(admin)
        assert created.headers["Location"] == PAGE
        assert "whsec_" not in str(dict(admin.session))
        response = admin.get(PAGE)
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
            ({"address": "https://127.0.0.1:9/hook"}, "127.0.0.1 is inside this network. Enter an address on the"),
            ({"address": "https://localhost/"}, "localhost leads to "),
            ({"name": ""}, "Enter a name."),
            ({"address": ""}, "Enter an address."),
            ({"events": []}, "Enter a value for “Events”."),
        ],
    )
    def test_invalid_webhook_is_refused(self, admin: Client, fields: dict[str, Any], problem: str) -> None:
        response = make(admin, **fields)
        assert response.status_code == 422
        assert problem in visible_text(response)
        assert not Webhook.objects.exists()

    def test_changes_are_recorded(self, admin: Client) -> None:
        make(admin)
        pk = Webhook.objects.get().pk
        for what in ("pause", "pause", "resume", "resume", "delete"):
            assert admin.post(f"{PAGE}{pk}/{what}/").headers["Location"] == PAGE
        assert not Webhook.objects.exists()
        about = {"webhook": "pager", "host": "hooks.example"}
        assert list_entries() == [
            ("webhook_created", "dora", {**about, "events": "interrupted,escalation"}),
            ("webhook_paused", "dora", about),
            ("webhook_resumed", "dora", about),
            ("webhook_deleted", "dora", about),
        ]

    def test_edit_keeps_secret_address_and_log(self, admin: Client) -> None:
        make(admin)
        webhook = Webhook.objects.get()
        path = f"{PAGE}{webhook.pk}/edit/"
        assert f'href="{path}"' in admin.get(PAGE).content.decode()
        page = admin.get(path)
        assert "very-private" not in page.content.decode()
        assert "The address is at hooks.example." in visible_text(page)
        assert page.content.decode().count(" checked") == 2
        changed = {"name": "Pager", "address": "", "format": "slack", "events": ["reminder", "interrupted"]}
        response = admin.post(path, {**changed, "tool_patterns": "refund_*", "only_high_risk": "True"}, follow=True)
        assert "The webhook was changed." in visible_text(response)
        edited = Webhook.objects.get()
        assert (edited.name, edited.format, edited.events) == ("Pager", "slack", "interrupted,reminder")
        assert (edited.tool_patterns, edited.only_high_risk, edited.host) == ("refund_*", True, "hooks.example")
        assert edited.encrypted_secret == webhook.encrypted_secret
        assert edited.encrypted_address == webhook.encrypted_address

    def test_edit_is_recorded_with_the_changed_values(self, admin: Client) -> None:
        make(admin)
        path = f"{PAGE}{Webhook.objects.get().pk}/edit/"
        admin.post(path, {**FORM, "address": "https://other.example/secret-path", "tool_patterns": "refund_*"})
        admin.post(path, {**FORM, "address": "https://other.example/secret-two", "tool_patterns": "refund_*"})
        same = admin.post(path, {**FORM, "address": "https://other.example/secret-two", "tool_patterns": "refund_*"})
        assert "Nothing was changed." in visible_text(admin.get(same.headers["Location"]))
        about = {"webhook": "pager", "host": "other.example"}
        moved = {
            "fields": ["address", "tool_patterns"],
            "before": {"host": "hooks.example", "tool_patterns": ""},
            "after": {"host": "other.example", "tool_patterns": "refund_*"},
        }
        assert list_entries()[1:] == [
            ("webhook_changed", "dora", {**about, **moved}),
            ("webhook_changed", "dora", {**about, "fields": ["address"], "before": {}, "after": {}}),
        ]
        assert "dora changed the webhook pager" in visible_text(admin.get("/audit/"))

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"address": "http://hooks.example/"}, "The address has to begin with https://"),
            ({"address": "https://127.0.0.1:9/hook"}, "127.0.0.1 is inside this network. Enter an address on the"),
            ({"name": ""}, "Enter a name."),
            ({"events": []}, "Enter a value for “Events”."),
        ],
    )
    def test_invalid_edit_changes_nothing(self, admin: Client, fields: dict[str, Any], problem: str) -> None:
        make(admin)
        before = list(Webhook.objects.values())
        response = admin.post(f"{PAGE}{before[0]['id']}/edit/", {**FORM, **fields})
        assert response.status_code == 422
        assert problem in visible_text(response)
        assert list(Webhook.objects.values()) == before

    def test_edit_of_a_paused_webhook_does_not_resume_it(self, admin: Client) -> None:
        make(admin)
        path = f"{PAGE}{Webhook.objects.get().pk}"
        admin.post(f"{path}/pause/")
        paused_at = Webhook.objects.get().paused_at
        assert "The webhook stays paused until you resume it." in visible_text(admin.get(f"{path}/edit/"))
        response = admin.post(f"{path}/edit/", {**FORM, "address": "https://other.example/"}, follow=True)
        assert "The webhook was changed. It is still paused." in visible_text(response)
        assert Webhook.objects.get().paused_at == paused_at

    def test_waiting_messages_go_to_the_new_address_at_once(
        self, admin: Client, web: Start, settings: Settings
    ) -> None:
        settings.DEBUG = True
        receiver = web()
        webhook = make_webhook(f"http://127.0.0.1:{free_port()}/")
        interrupted()
        create_due_notices()
        make_due()
        assert send_due_deliveries().failed >= 1
        page = visible_text(admin.get(f"{PAGE}{webhook.pk}/edit/"))
        assert "The last attempt failed just now. The server refused the connection. Check host and port." in page
        fields = {"name": "pager", "format": "json", "events": list(CALL_EVENTS)}
        admin.post(
            f"{PAGE}{webhook.pk}/edit/", {**fields, "address": receiver.address.replace("127.0.0.1", "localhost")}
        )
        send_due_deliveries()
        assert [got["headers"]["Harness-Event"] for got in receiver.messages] == ["interrupted"]
        assert Delivery.objects.get(webhook=webhook).recipient == "localhost"

    def test_test_message_and_retry_are_recorded(self, admin: Client) -> None:
        webhook = make_webhook()
        admin.post(f"{PAGE}{webhook.pk}/test/")
        interrupted()
        create_due_notices()
        Delivery.objects.filter(webhook=webhook).update(status="given_up")
        again = Delivery.objects.get(webhook=webhook, notice__tool="refund_card").pk
        for _ in range(2):  # the second finds it taken up
            admin.post(f"{PAGE}log/{again}/again/")
        assert list_entries() == [
            ("webhook_tested", "dora", {"webhook": "pager", "host": "127.0.0.1"}),
            ("message_retried", "dora", {"message": str(again)}),
        ]

    def test_test_button_shows_the_result(self, admin: Client, web: Start) -> None:
        receiver = web()
        webhook = make_webhook(receiver.address)
        assert admin.post(f"{PAGE}{webhook.pk}/test/").headers["Location"] == f"{PAGE}#log"
        assert [got["headers"]["Harness-Event"] for got in receiver.messages] == ["test"]
        page = visible_text(admin.get(PAGE))
        assert "The test message was delivered." in page
        assert re.search(r"Test pager 127.0.0.1 [\d.]+ m?s HTTP 200 Sent", page)

    def test_failed_test_message_is_not_retried(self, admin: Client, settings: Settings) -> None:
        settings.DEBUG = True
        webhook = make_webhook(f"http://127.0.0.1:{free_port()}/")
        admin.post(f"{PAGE}{webhook.pk}/test/", headers={"Accept-Language": "de"})
        assert Delivery.objects.get().status == "given_up"
        german = "Der Server hat die Verbindung abgelehnt."
        assert visible_text(admin.get(PAGE, headers={"Accept-Language": "de"})).count(german) == 3
        page = visible_text(admin.get(PAGE))
        assert "pager Failing JSON" in page
        assert "The last attempt failed just now. The server refused the connection. Check host and port." in page
        assert "Test The server refused the connection. Check host and port. pager 127.0.0.1" in page

    def test_internal_address_is_reported(self, admin: Client) -> None:
        webhook = make_webhook("https://127.0.0.1/")
        admin.post(f"{PAGE}{webhook.pk}/test/")
        page = visible_text(admin.get(PAGE))
        assert "The test message was not delivered. 127.0.0.1 is inside this network." in page
        assert "Failed" in page
        assert "Given up 127.0.0.1" not in page

    def test_hostile_names_are_escaped(self, admin: Client) -> None:
        make_webhook(name="<script>alert(1)</script>")
        assert b"<script>alert" not in admin.get(PAGE).content


class TestLog:
    @pytest.mark.parametrize("calls", [1, 3])
    def test_query_count_is_independent_of_the_deliveries(
        self, admin: Client, django_assert_num_queries: DjangoAssertNumQueries, calls: int
    ) -> None:
        make_webhook()
        for number in range(calls):
            interrupted(f"tool_{number}")
        create_due_notices()
        with django_assert_num_queries(5):
            page = visible_text(admin.get(f"{PAGE}log/"))
        assert page.count(" pager ") == calls
        with django_assert_num_queries(13):
            admin.get(PAGE)

    def test_log_shows_message_and_recipient(self, admin: Client, web: Start, alice: User) -> None:
        receiver = web(status=500)
        make_webhook(receiver.address)
        interrupted()
        interrupted()
        create_due_notices()
        make_due()
        send_due_deliveries()
        page = visible_text(admin.get(f"{PAGE}log/"))
        failure = "Outcome unknown refund_card, 2 calls The address answered with status 500. pager 127.0.0.1 "
        assert re.search(re.escape(failure) + r"[\d.]+ m?s HTTP 500", page)
        assert "Invitations, confirmations of addresses and test e-mails are not listed." in page
        # One attempt is enough to know that the mail server does not answer; the other message waits.
        assert re.search(r"Check host and port\. (alice|dora) \1@example\.com", page)
        assert all(f"{name} {name}@example.com" in page for name in ("alice", "dora"))

    def test_log_is_paged_and_filtered_by_status(self, admin: Client) -> None:
        for number in range(51):
            interrupted(f"tool_{number}")
        create_due_notices()
        first = admin.get(f"{PAGE}log/?status=waiting")
        following = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert following
        second = admin.get(f"{PAGE}log/{following[1].replace('&amp;', '&')}")
        assert (
            visible_text(first).count(" dora dora@"),
            visible_text(second).count(" dora dora@"),
        ) == (50, 1)
        assert "No message has this status." in visible_text(admin.get(f"{PAGE}log/?status=sent"))
        assert admin.get(f"{PAGE}log/?before=x").status_code == 400

    def test_failed_delivery_can_be_retried(self, admin: Client, start_mail_server: Start) -> None:
        office = start_mail_server()
        interrupted()
        create_due_notices()
        Delivery.objects.update(status="given_up", attempts=30)
        delivery = Delivery.objects.get()
        assert "Given up Try again" in visible_text(admin.get(f"{PAGE}log/"))
        admin.post(f"{PAGE}log/{delivery.pk}/again/")
        assert send_due_deliveries().sent == 1
        assert len(office.messages) == 1

    def test_sent_delivery_is_not_sent_again(self, admin: Client) -> None:
        interrupted()
        create_due_notices()
        Delivery.objects.update(status="sent")
        admin.post(f"{PAGE}log/{Delivery.objects.get().pk}/again/")
        assert Delivery.objects.get().status == "sent"

    def test_log_of_another_workspace_is_separate(self, admin: Client) -> None:
        other = make_workspace(slug="other")
        make_user(name="erin", role=Role.ADMIN, workspace=other)
        make_webhook("https://other.example/", workspace=other, name="theirs")
        interrupted(workspace=other)
        create_due_notices()
        assert "theirs" not in visible_text(admin.get(PAGE)) + visible_text(admin.get(f"{PAGE}log/"))


class TestPreferences:
    PATH = "/accounts/notifications/"

    def test_all_events_are_enabled_by_default(self, admin: Client) -> None:
        assert admin.get(self.PATH).content.decode().count(" checked") == 7

    def test_approver_has_no_choice_about_messages_that_only_admins_get(self, alice: User) -> None:
        approver = sign_in(Client(), alice)
        assert 'name="escalation"' not in approver.get(self.PATH).content.decode()
        approver.post(self.PATH, {"email": "on", "address": "", "interrupted": "on"})
        assert Preferences.objects.get(user=alice).wants_event("escalation"), "if alice becomes an admin"

    def test_user_chooses_among_the_events_of_their_workspaces(self) -> None:
        carol = make_user(name="carol", role=Role.AUDITOR)
        auditor = sign_in(Client(), carol)

        def list_events() -> list[str]:
            page = auditor.get(self.PATH).content.decode()
            return [event for event in CALL_EVENTS if f'name="{event}"' in page]

        assert list_events() == [Event.MENTIONED]
        Membership.objects.create(user=carol, workspace=make_workspace(slug="billing"), role=Role.APPROVER)
        assert list_events() == [event for event in CALL_EVENTS if event is not Event.ESCALATION]
        Membership.objects.filter(user=carol).delete()
        for path, has_form in ((self.PATH, 'name="email"'), ("/accounts/", f'href="{self.PATH}')):
            assert has_form not in auditor.get(path).content.decode()
        assert "you are in none" in visible_text(auditor.get(self.PATH))

    def test_account_page_of_an_auditor_names_comments_alone(self, carol: User, mail: None) -> None:
        page = sign_in(Client(), carol).get("/accounts/")
        assert "You can get e-mail about comments that mention you." in visible_text(page)
        assert f'href="{self.PATH}"' in page.content.decode()

    def test_preferences_are_stored_and_recorded(self, admin: Client, dora: User) -> None:
        chosen = {"email": "on", "address": "", "interrupted": "on"}
        for _ in range(2):
            assert admin.post(self.PATH, chosen).headers["Location"] == "/accounts/"
        kept = Preferences.objects.get(user=dora)
        assert (kept.wants_event("interrupted"), kept.wants_event("reminder")) == (True, False)
        assert admin.get(self.PATH).content.decode().count(" checked") == 2
        fields = ["awaiting_approval", "escalation", "handed_over", "mentioned", "reminder"]
        assert list_entries() == [("notifications_changed", "dora", {"fields": fields})]

    def test_invalid_address_is_refused(self, admin: Client) -> None:
        response = admin.post(self.PATH, {"email": "on", "address": "pager"})
        assert response.status_code == 422
        assert not Preferences.objects.exists()

    def test_page_says_when_no_mail_is_sent(self, admin: Client, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        assert "this installation sends no e-mail" in visible_text(admin.get(self.PATH))

    def test_account_page_links_to_preferences(self, admin: Client) -> None:
        assert 'href="/accounts/notifications/"' in admin.get("/accounts/").content.decode()


def test_waiting_delivery_shows_its_next_attempt(admin: Client) -> None:
    interrupted()
    create_due_notices()
    due_at = clock.now() + timedelta(minutes=30)
    Delivery.objects.update(due_at=due_at)
    assert f"next attempt {due_at:%H:%M:%S}" in visible_text(admin.get(f"{PAGE}log/")).replace(
        f"{due_at:%Y-%m-%d} ", ""
    )
