"""Deliveries to real servers in other processes, and their retries after failures and crashes."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Risk, Role
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.accounts.models import Membership
from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.load_notice_message_content import load_and_build_notice_message
from harness_site.notifications.models import Delivery, Event, Preferences
from harness_site.notifications.send_due_deliveries import MOST_ATTEMPTS, DeliveryRound, send_due_deliveries
from harness_site.notifications.webhook_requests import build_json_payload
from tests.integration.notifications.conftest import (
    Start,
    StartSite,
    deliveries,
    interrupted,
    make_due,
    make_user_with_address,
    make_webhook,
    told,
)
from tests.support.client_login import sign_in
from tests.support.factories import make_workspace
from tests.support.site_process import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


class TestMail:
    def test_message_names_the_call_and_links_to_its_card(self, start_mail_server: Start, alice: User) -> None:
        office = start_mail_server()
        call = interrupted(
            sentence="Refund 40.00 EUR to the card ending 4242",
            risk=Risk.LOW,
            decide_within=timedelta(days=30),
        )
        assert told() == DeliveryRound(sent=1)
        (mail,) = office.messages
        delivery = Delivery.objects.get()
        card = f"https://harness.example/review/calls/{call.pk}/"
        assert (mail["to"], mail["delivery"]) == ("alice@example.com", str(delivery.pk))
        assert mail["id"] == f"<{delivery.pk}@harness.example>"
        assert mail["subject"] == "[Harness] Needs a decision: Refund 40.00 EUR to the card ending 4242"
        assert mail["text"].splitlines()[:5] == [
            "Needs a decision: Refund 40.00 EUR to the card ending 4242",
            "",
            "The outcome of this call is unknown. The agent waits until a person decides.",
            "",
            card,
        ]
        assert mail["text"].count(card) == mail["html"].count(card) == 1
        for part in (mail["text"], mail["html"]):
            assert "Low risk" in part
            assert re.search(r"Deadline: \w{3} \d+ \w{3} \d{4}, \d\d:\d\d \(UTC\)", part)
        assert "https://harness.example/accounts/notifications/" in mail["text"]
        assert f'<a href="{card}">' in mail["html"]
        assert (delivery.status, delivery.attempts, delivery.problem) == ("sent", 1, "")

    def test_colleague_is_notified_of_each_handover(self, start_mail_server: Start, alice: User, dora: User) -> None:
        """Nobody else is notified, and nobody if the call is decided or the colleague has disabled such messages."""
        office, call = start_mail_server(), interrupted(sentence="Refund 40.00 EUR")
        bob, client = make_user_with_address("bob", Role.APPROVER), sign_in(Client(), alice)
        hook = make_webhook(events="handed_over")
        hand_over = f"/review/calls/{call.pk}/hand-over/"
        for note in ("You know\nthe customer.", "Again."):
            page = client.post(hand_over, {"note": note, "to": "bob"}, follow=True)
            assert b"bob gets an e-mail about it." in page.content
        assert sorted(deliveries()) == [("127.0.0.1", "waiting", 0)] * 2 + [("bob@example.com", "waiting", 0)] * 2
        assert send_due_deliveries().sent == 2
        assert [mail["to"] for mail in office.messages] == ["bob@example.com"] * 2
        mail = office.messages[0]
        assert mail["subject"] == "[Harness] alice handed a call over to you: Refund 40.00 EUR"
        assert "alice wrote: “You know the customer.”" in mail["text"]
        message = load_and_build_notice_message(Delivery.objects.filter(webhook=hook).order_by("pk")[0].notice)
        assert message is not None
        payload = build_json_payload("1", message)
        assert payload["headline"] == "alice handed a call over to bob: Refund 40.00 EUR"
        assert payload["hand_over"] == {"by": "alice", "to": "bob", "note": "You know the customer."}

        Delivery.objects.all().delete()
        Preferences.objects.create(user=bob, handed_over=False)
        answer = client.post(hand_over, {"note": "Third.", "to": "bob"}, follow=True)
        assert b"bob gets no e-mail about it." in answer.content
        client.post(hand_over, {"note": "To dora.", "to": "dora"})
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.FAILED)
        assert send_due_deliveries().sent == 0
        told_of = [("127.0.0.1", "not_needed", 1)] * 2 + [("dora@example.com", "not_needed", 1)]
        assert sorted(deliveries()) == told_of

    def test_fifty_calls_are_one_message(self, start_mail_server: Start, alice: User) -> None:
        office = start_mail_server()
        for number in range(50):
            interrupted(args={"order": number})
        assert told() == DeliveryRound(sent=1)
        (mail,) = office.messages
        assert mail["subject"] == "[Harness] 50 calls of refund_card need a decision"
        assert "https://harness.example/review/?tab=interrupted&tool=refund_card" in mail["text"]
        assert mail["text"].count("* Refund card: order ") == 20
        assert "… and 30 more." in mail["text"]

    def test_hostile_text_is_escaped_and_secrets_are_masked(self, start_mail_server: Start, alice: User) -> None:
        office = start_mail_server()
        interrupted(sentence="<script>alert(1)</script>\r\nBcc: all@example.com password=hunter22")
        assert told() == DeliveryRound(sent=1)
        (mail,) = office.messages
        assert "<script>" not in mail["html"]
        assert "&lt;script&gt;" in mail["html"]
        assert "hunter22" not in json.dumps(mail)
        assert mail["subject"].startswith("[Harness] Needs a decision: <script>alert(1)</script> Bcc: all@example.com")

    def test_link_names_its_workspace(self, start_mail_server: Start, alice: User) -> None:
        office = start_mail_server()
        make_workspace(slug="second")
        call = interrupted()
        told()
        there = "https://harness.example/accounts/workspace/default/review/"
        assert f"{there}calls/{call.pk}/" in office.messages[0]["text"]
        Delivery.objects.all().delete()
        interrupted("send_mail")
        interrupted("send_mail")
        told()
        assert f"{there}?tab=interrupted&tool=send_mail" in office.messages[1]["text"]

    def test_outage_of_the_mail_server_loses_no_message(
        self, start_mail_server: Start, settings: Settings, alice: User, dora: User
    ) -> None:
        port = free_port()
        settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", port)
        interrupted()
        interrupted("send_mail")
        create_due_notices()
        for _ in range(8):
            make_due()
            assert send_due_deliveries().sent == 0
        assert {status for _, status, _ in deliveries()} == {"waiting"}
        assert set(Delivery.objects.exclude(problem="").values_list("problem", flat=True)) == {
            "The server refused the connection. Check host and port."
        }
        office = start_mail_server(port=port)
        make_due()
        assert send_due_deliveries() == DeliveryRound(sent=4)
        assert len(office.messages) == len({(mail["to"], mail["subject"]) for mail in office.messages}) == 4
        assert {status for _, status, _ in deliveries()} == {"sent"}
        assert max(attempts for _, _, attempts in deliveries()) > 1

    def test_unreachable_server_is_tried_once_per_round(self, alice: User, dora: User) -> None:
        interrupted()
        interrupted("send_mail")
        assert told() == DeliveryRound(failed=1)
        assert sorted(attempts for _, _, attempts in deliveries()) == [0, 0, 0, 1]

    def test_refused_address_does_not_delay_others(self, start_mail_server: Start, alice: User) -> None:
        start_mail_server()
        make_user_with_address("nobody", Role.APPROVER)
        interrupted()
        assert told() == DeliveryRound(sent=1, failed=1)
        assert deliveries() == [("alice@example.com", "sent", 1), ("nobody@example.com", "waiting", 1)]
        problem = Delivery.objects.get(status="waiting").problem
        assert problem.startswith("The mail server refused the recipient.")

    def test_undeliverable_message_is_given_up(self, alice: User) -> None:
        interrupted()
        create_due_notices()
        Delivery.objects.update(attempts=MOST_ATTEMPTS - 1)
        make_due()
        assert send_due_deliveries() == DeliveryRound(given_up=1)
        make_due()
        assert send_due_deliveries() == DeliveryRound()
        assert deliveries() == [("alice@example.com", "given_up", MOST_ATTEMPTS)]

    def test_delays_between_attempts_grow(self, alice: User) -> None:
        interrupted()
        create_due_notices()
        pauses = []
        for _ in range(3):
            make_due()
            send_due_deliveries()
            delivery = Delivery.objects.get()
            assert delivery.attempted_at is not None
            pauses.append(delivery.due_at - delivery.attempted_at)
        assert timedelta(seconds=3) < pauses[0] < pauses[1] < pauses[2] < timedelta(minutes=1)


class TestNotNeeded:
    def test_decided_call_is_not_notified(self, alice: User) -> None:
        interrupted()
        create_due_notices()
        ToolCall.objects.update(status=CallStatus.COMPLETED)
        make_due()
        assert send_due_deliveries() == DeliveryRound(not_needed=1)
        assert Delivery.objects.get().problem == "All its calls were decided before the message was sent."

    def test_only_pending_calls_are_notified(self, start_mail_server: Start, alice: User) -> None:
        office = start_mail_server()
        interrupted(args={"order": 1}, status=CallStatus.INTERRUPTED)
        other = interrupted(args={"order": 2})
        create_due_notices()
        ToolCall.objects.filter(pk=other.pk).update(status=CallStatus.COMPLETED)
        make_due()
        send_due_deliveries()
        assert [mail["subject"] for mail in office.messages] == ["[Harness] Needs a decision: Refund card: order 1"]

    @pytest.mark.parametrize("left", ["removed", "lesser role", "switched off"])
    def test_former_approver_is_not_notified(self, alice: User, left: str) -> None:
        interrupted()
        create_due_notices()
        if left == "removed":
            Membership.objects.filter(user=alice).delete()
        elif left == "lesser role":
            Membership.objects.filter(user=alice).update(role=Role.AUDITOR)
        else:
            User.objects.filter(pk=alice.pk).update(is_active=False)
        make_due()
        assert send_due_deliveries() == DeliveryRound(not_needed=1)


class TestKilledDeliverers:
    """Delivery is at least once, with the same id, so that receivers can detect repetitions."""

    pytestmark = pytest.mark.django_db(transaction=True)

    def test_killed_after_the_mail_was_accepted(
        self, start_mail_server: Start, start_site: StartSite, alice: User
    ) -> None:
        office = start_mail_server(asking=True)
        interrupted()
        create_due_notices()
        make_due()
        dying = start_site("deliver", mail_port=office.port)
        dying.expect("ready")
        dying.tell()
        office.child.expect("got")
        dying.kill()
        office.child.tell()
        assert deliveries() == [("alice@example.com", "waiting", 1)]
        assert send_due_deliveries() == DeliveryRound()  # it is left to who claimed it, for a while
        make_due()
        again = start_site("deliver", mail_port=office.port)
        again.expect("ready")
        again.tell()
        office.child.expect("got")
        office.child.tell()
        assert again.result() == 1
        first, second = office.messages
        assert first["id"] == second["id"]
        assert deliveries() == [("alice@example.com", "sent", 2)]

    def test_killed_after_the_webhook_was_called(self, web: Start, start_site: StartSite) -> None:
        receiver = web(asking=True)
        make_webhook(receiver.address)
        interrupted()
        create_due_notices()
        make_due()
        dying = start_site("deliver")
        dying.expect("ready")
        dying.tell()
        receiver.child.expect("got")
        dying.kill()
        receiver.child.tell()
        make_due()
        again = start_site("deliver")
        again.expect("ready")
        again.tell()
        receiver.child.expect("got")
        receiver.child.tell()
        assert again.result() == 1
        first, second = (got["headers"] for got in receiver.messages)
        assert first["Harness-Delivery"] == second["Harness-Delivery"]
        assert (first["Harness-Attempt"], second["Harness-Attempt"]) == ("1", "2")

    def test_concurrent_deliverers_send_each_message_once(
        self, start_mail_server: Start, start_site: StartSite, alice: User, dora: User
    ) -> None:
        office = start_mail_server()
        for tool in "abcdefgh":
            interrupted(tool)
        create_due_notices()
        make_due()
        children = [start_site("deliver", mail_port=office.port) for _ in range(3)]
        for child in children:
            child.expect("ready")
        for child in children:
            child.tell()
        assert sum(child.result() for child in children) == 16
        assert len({mail["id"] for mail in office.messages}) == len(office.messages) == 16


def test_command_collects_and_delivers(
    start_mail_server: Start, alice: User, capsys: pytest.CaptureFixture[str]
) -> None:
    start_mail_server()
    interrupted()
    call_command("deliver")
    make_due()
    call_command("deliver")
    assert capsys.readouterr().out.splitlines() == [
        "1 calls noticed, 0 messages sent, 0 failed for now, 0 given up, 0 not needed any more.",
        "0 calls noticed, 1 messages sent, 0 failed for now, 0 given up, 0 not needed any more.",
    ]


def test_messages_are_printed_in_development(
    settings: Settings, alice: User, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings.MAIL_SERVER = MailServer(Security.CONSOLE)
    call = interrupted(sentence="Refund 40.00 EUR")
    assert told() == DeliveryRound(sent=1)
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "E-mail to alice@example.com: [Harness] Needs a decision: Refund 40.00 EUR",
        f"https://harness.example/review/calls/{call.pk}/",
    ]


def test_every_event_has_a_text(start_mail_server: Start, dora: User) -> None:
    office = start_mail_server()
    interrupted("late", interrupted_at=clock.now() - timedelta(hours=5), decide_within=timedelta(hours=4))
    interrupted("near", interrupted_at=clock.now() - timedelta(hours=3, minutes=30), decide_within=timedelta(hours=4))
    interrupted("asks", status=CallStatus.AWAITING_APPROVAL)
    key = f"{INTERRUPT_KEY_PREFIX}q:0"
    interrupted(INTERRUPT_TOOL, status=CallStatus.AWAITING_APPROVAL, call_id="q", idempotency_key=key)
    told()
    assert sorted(mail["subject"].split(":")[0] for mail in office.messages) == [
        "[Harness] Awaits an answer",
        "[Harness] Awaits approval",
        "[Harness] Due soon",
        "[Harness] Needs a decision",
        "[Harness] Needs a decision",
        "[Harness] Overdue, an admin has to decide",
    ]
    assert set(Delivery.objects.values_list("notice__event", flat=True)) == set(Event) - {
        Event.TEST,
        Event.HANDED_OVER,
        Event.MENTIONED,
    }
