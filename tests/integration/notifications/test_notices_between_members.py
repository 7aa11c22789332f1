"""Messages to the members whom a comment mentions."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.notifications.load_notice_message_content import load_and_build_notice_message
from harness_site.notifications.models import Delivery, Notice, Preferences
from harness_site.notifications.send_due_deliveries import DeliveryRound, send_due_deliveries
from harness_site.notifications.webhook_requests import build_json_payload
from harness_site.review import claim_services
from harness_site.review.models import Comment
from tests.integration.notifications.conftest import (
    Start,
    deliveries,
    interrupted,
    make_due,
    make_user_with_address,
    make_webhook,
)
from tests.support.client_login import sign_in
from tests.support.factories import make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


@pytest.fixture
def author(alice: User) -> Client:
    return sign_in(Client(), alice)


@pytest.fixture
def bob(db: None) -> User:
    return make_user_with_address("bob", Role.APPROVER)


def write(author: Client, call: ToolCall, text: str) -> None:
    accepted = "@nobody @erin @frank @dora.k"  # known to be no members
    sent = author.post(f"/review/calls/{call.pk}/comment/", {"text": text, "accepted": accepted})
    assert sent.status_code == 302


def list_recipients() -> list[str]:
    return [name for name, _status, _attempts in deliveries()]


def test_mail_names_author_call_session_and_comment_and_links_to_the_comments(
    start_mail_server: Start, author: Client, bob: User
) -> None:
    office, call = start_mail_server(), interrupted(sentence="Refund 40.00 EUR")
    write(author, call, "@bob, please look:\n<b>the bank</b> has it.")
    assert send_due_deliveries() == DeliveryRound(sent=1)
    (mail,) = office.messages
    link = f"https://harness.example/review/calls/{call.pk}/#comments"
    assert (mail["to"], mail["subject"]) == (
        "bob@example.com",
        "[Harness] alice mentions you in a comment: Refund 40.00 EUR",
    )
    assert mail["text"].splitlines()[2] == "alice wrote: “@bob, please look: <b>the bank</b> has it.”"
    assert link in mail["text"].splitlines()
    assert f"session {call.session.session_id}" in mail["text"]
    assert f'<a href="{link}"' in mail["html"]
    assert "Open the comments" in mail["html"]
    assert "&lt;b&gt;the bank&lt;/b&gt;" in mail["html"]


@pytest.mark.parametrize("status", [CallStatus.INTERRUPTED, CallStatus.COMPLETED])
def test_comment_notifies_each_mentioned_member_once_and_nobody_else(
    start_mail_server: Start, author: Client, bob: User, carol: User, dora: User, status: CallStatus
) -> None:
    office = start_mail_server()
    make_user(name="erin", role=Role.APPROVER, workspace=make_workspace(slug="elsewhere"))
    User.objects.filter(username="erin").update(email="erin@example.com")
    make_user_with_address("frank", Role.APPROVER)
    User.objects.filter(username="frank").update(is_active=False)
    call = interrupted(status=status)
    write(author, call, "@Bob and @carol, @bob: ask @erin, @frank or me, @alice, not bob@dora.example or @dora.k.")
    assert list_recipients() == ["bob@example.com", "carol@example.com"]
    assert send_due_deliveries().sent == 2
    assert send_due_deliveries().sent == 0
    assert len(office.messages) == 2
    write(author, call, "Again, @bob.")
    write(author, call, "dora knows.")
    assert list_recipients() == ["bob@example.com"] * 2 + ["carol@example.com"]


def test_secrets_of_the_call_are_masked_in_the_comment(start_mail_server: Start, author: Client, bob: User) -> None:
    office, call = start_mail_server(), interrupted(args={"password": "violet-harbour"})
    write(author, call, "@bob the customer says violet-harbour, and token=sk-live-4242424242424242abcdef")
    send_due_deliveries()
    (mail,) = office.messages
    assert "the customer says" in mail["text"]
    assert not re.search("violet|sk-live", mail["text"] + mail["html"])


def test_preference_address_and_mail_server_decide_about_the_mail(
    author: Client, bob: User, carol: User, dora: User, settings: Settings
) -> None:
    Preferences.objects.create(user=bob, mentioned=False)
    User.objects.filter(pk=carol.pk).update(email="")
    call = interrupted()
    write(author, call, "@bob @carol")
    assert not Notice.objects.exists()
    page = visible_text(author.get(f"/review/calls/{call.pk}/"))
    assert "This member gets an e-mail if you mention them: @dora Add comment" in page
    Preferences.objects.update(mentioned=True)
    page = visible_text(author.get(f"/review/calls/{call.pk}/"))
    assert "These members get an e-mail if you mention them: @bob, @dora Add comment" in page
    settings.MAIL_SERVER = None
    write(author, call, "@dora")
    assert not Notice.objects.exists()
    assert "if you mention them" not in visible_text(author.get(f"/review/calls/{call.pk}/"))


def test_comment_that_is_rolled_back_sends_nothing(author: Client, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        assert Delivery.objects.count() == 1
        raise RuntimeError

    monkeypatch.setattr(claim_services, "record_claim_event_and_notify_pages", fail)
    with pytest.raises(RuntimeError):
        write(author, interrupted(), "@bob")
    assert not Comment.objects.exists()
    assert not Delivery.objects.exists()


def test_note_of_a_hand_over_mentions_others_than_its_receiver(author: Client, bob: User, dora: User) -> None:
    call = interrupted()
    author.post(f"/review/calls/{call.pk}/hand-over/", {"to": "bob", "note": "@bob, ask @dora."})
    told = Delivery.objects.order_by("recipient").values_list("recipient", "notice__event")
    assert list(told) == [("bob@example.com", "handed_over"), ("dora@example.com", "mentioned")]


def test_failed_delivery_is_repeated(start_mail_server: Start, author: Client, bob: User) -> None:
    write(author, interrupted(), "@bob")
    assert send_due_deliveries() == DeliveryRound(failed=1)
    office = start_mail_server()
    make_due()
    assert send_due_deliveries() == DeliveryRound(sent=1)
    assert len(office.messages) == 1


def test_mail_is_dropped_if_the_call_is_deleted_or_the_member_removed(author: Client, bob: User) -> None:
    removed, deleted = interrupted(), interrupted()
    write(author, removed, "@bob")
    Membership.objects.filter(user=bob).update(role="none")
    assert send_due_deliveries() == DeliveryRound(not_needed=1)
    Membership.objects.filter(user=bob).update(role=Role.AUDITOR)
    write(author, deleted, "@bob")
    ToolCall.objects.filter(pk=deleted.pk).delete()
    assert send_due_deliveries() == DeliveryRound(not_needed=1)
    assert list(Delivery.objects.order_by("pk").values_list("problem", flat=True)) == [
        "The recipient may not read this workspace any more.",
        "The call was deleted before the message was sent.",
    ]


def test_webhook_gets_the_comment(author: Client) -> None:
    make_user(name="bob", role=Role.APPROVER)
    hook, call = make_webhook(events="mentioned"), interrupted(sentence="Refund 40.00 EUR")
    write(author, call, "@nobody")
    assert not Delivery.objects.exists()
    write(author, call, "Look,\n@bob.")
    message = load_and_build_notice_message(Delivery.objects.get(webhook=hook).notice)
    assert message is not None
    payload = build_json_payload("1", message)
    assert payload["headline"] == "alice mentions a colleague in a comment: Refund 40.00 EUR"
    assert payload["link"] == f"https://harness.example/review/calls/{call.pk}/#comments"
    assert payload["comment"] == {"by": "alice", "text": "Look, @bob."}
