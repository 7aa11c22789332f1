"""Filters by tool and risk: of which calls a person or a webhook is told."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Risk, Role
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.accounts.models import Membership
from harness_site.core import formatting
from harness_site.notifications import known_tools_and_unmatched_patterns
from harness_site.notifications.compose_and_send_email import compose_notification_email
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.load_notice_message_content import load_and_build_notice_message
from harness_site.notifications.models import Delivery, Event, Notice, Preferences, Webhook
from harness_site.search.models import ToolSums
from tests.integration.notifications.conftest import interrupted, make_webhook
from tests.support.client_login import sign_in
from tests.support.factories import make_workspace
from tests.support.page_text import visible_text

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]

PREFERENCES = "/accounts/notifications/"
EVERYTHING = {"email": "on", "address": "", **dict.fromkeys(("interrupted", "awaiting_approval", "reminder"), "on")}


def told_of(recipient: str = "alice@example.com") -> list[tuple[str, str]]:
    """Return event and tool of each message to a recipient."""
    create_due_notices()
    told = Delivery.objects.filter(recipient=recipient).order_by("pk")
    return sorted(told.values_list("notice__event", "notice__tool"))


def choose(user: User, tools: str = "", *, only_high_risk: bool = False) -> None:
    Preferences.objects.create(user=user, tool_patterns=tools, only_high_risk=only_high_risk)


class TestRecipients:
    @pytest.mark.parametrize(
        ("tools", "expected"),
        [
            ("", ["refund_card", "refund_large", "send_mail"]),
            ("refund_*", ["refund_card", "refund_large"]),
            ("send_mail, refund_card", ["refund_card", "send_mail"]),
            ("REFUND_*", []),
        ],
    )
    def test_person_is_told_of_the_chosen_tools(self, alice: User, tools: str, expected: list[str]) -> None:
        choose(alice, tools)
        for tool in ("refund_card", "refund_large", "send_mail"):
            interrupted(tool)
        assert [tool for _, tool in told_of()] == expected

    def test_person_is_told_of_calls_with_a_high_risk_alone(self, alice: User, dora: User) -> None:
        choose(alice, only_high_risk=True)
        for risk in (Risk.MEDIUM, Risk.HIGH):
            interrupted("refund_card", risk=risk)
        assert told_of() == [("interrupted", "refund_card")]
        assert len(told_of("dora@example.com")) == 2
        told = Delivery.objects.get(recipient="alice@example.com").notice
        assert [each.tool_call.risk for each in told.noticed.select_related("tool_call")] == [Risk.HIGH]

    def test_deadlines_are_never_left_out(self, alice: User, dora: User) -> None:
        choose(alice, "nothing", only_high_risk=True)
        choose(dora, "nothing", only_high_risk=True)
        now = clock.now()
        for risk in (Risk.MEDIUM, Risk.HIGH):
            interrupted(decide_within=timedelta(hours=1), interrupted_at=now - timedelta(minutes=50), risk=risk)
        interrupted(decide_within=timedelta(hours=1), interrupted_at=now - timedelta(hours=2))
        assert told_of() == [(Event.REMINDER, "refund_card")]
        assert told_of("dora@example.com") == [(Event.ESCALATION, "refund_card"), (Event.REMINDER, "refund_card")]

    def test_questions_are_never_left_out(self, alice: User) -> None:
        choose(alice, "refund_*", only_high_risk=True)
        key = f"{INTERRUPT_KEY_PREFIX}c:0"
        interrupted(INTERRUPT_TOOL, call_id="c", idempotency_key=key, status=CallStatus.AWAITING_APPROVAL)
        assert told_of() == [(Event.AWAITING_APPROVAL, INTERRUPT_TOOL)]

    def test_webhook_is_told_of_the_chosen_calls(self) -> None:
        make_webhook("https://example.com/in", tool_patterns="refund_*", only_high_risk=True)
        for tool, risk in (("refund_card", Risk.HIGH), ("refund_card", Risk.LOW), ("send_mail", Risk.HIGH)):
            interrupted(tool, risk=risk)
        assert told_of("example.com") == [("interrupted", "refund_card")]

    def test_call_of_which_nobody_was_told_is_in_the_first_message_about_its_tool(self, alice: User) -> None:
        choose(alice, "send_*")
        interrupted()
        assert told_of() == []
        Preferences.objects.update(tool_patterns="")
        interrupted()
        assert told_of() == [("interrupted", "refund_card")]
        assert Notice.objects.get().noticed.count() == 2


class TestFooter:
    @pytest.mark.parametrize(
        ("tools", "only_high_risk", "sentence"),
        [
            ("", False, "You are told of all calls."),
            ("refund_*, send_mail", False, "You are told of calls of these tools: refund_*, send_mail."),
            ("", True, "You are told of calls with a high risk."),
            ("refund_*", True, "You are told of calls with a high risk of these tools: refund_*."),
        ],
    )
    def test_message_says_of_what_its_reader_is_told(
        self, alice: User, tools: str, only_high_risk: bool, sentence: str
    ) -> None:
        choose(alice, tools, only_high_risk=only_high_risk)
        interrupted("refund_card", risk=Risk.HIGH)
        create_due_notices()
        text, html = self.compose(Delivery.objects.get())
        assert f"{sentence} Change this: https://harness.example/accounts/notifications/" in text
        assert f'{sentence} <a href="https://harness.example/accounts/notifications/">Change this</a>' in html

    def test_message_about_a_deadline_does_not_name_the_filter(self, alice: User) -> None:
        choose(alice, "send_*")
        interrupted(decide_within=timedelta(hours=1), interrupted_at=clock.now() - timedelta(minutes=50))
        create_due_notices()
        text, html = self.compose(Delivery.objects.get())
        for body in (text, html):
            assert "Choose which messages you get" in body
            assert "send_*" not in body

    def compose(self, delivery: Delivery) -> list[str]:
        message = load_and_build_notice_message(delivery.notice, to_person=True)
        assert message is not None
        return [part.get_content() for part in compose_notification_email(delivery, message).iter_parts()]


class TestPages:
    def test_choice_is_stored_in_one_form(self, alice: User) -> None:
        client = sign_in(Client(), alice)
        page = client.get(PREFERENCES).content.decode()
        assert '<option value="" selected>All calls</option>' in page
        client.post(
            PREFERENCES, {**EVERYTHING, "tool_patterns": " refund_*,\nrefund_*,, send_mail ", "only_high_risk": "True"}
        )
        kept = Preferences.objects.get(user=alice)
        assert (kept.tool_patterns, kept.only_high_risk) == ("refund_*, send_mail", True)
        response = client.get(PREFERENCES)
        assert 'value="refund_*, send_mail"' in response.content.decode()
        assert '<option value="True" selected>Only calls with a high risk</option>' in response.content.decode()
        assert "never leaves out deadlines, hand-overs, mentions and questions of agents." in visible_text(response)
        client.post(PREFERENCES, EVERYTHING)
        kept.refresh_from_db()
        assert (kept.tool_patterns, kept.only_high_risk) == ("", False)

    def test_auditor_who_is_told_of_comments_alone_has_no_filter(self, carol: User) -> None:
        assert "tool_patterns" not in sign_in(Client(), carol).get(PREFERENCES).content.decode()

    def test_too_long_choice_is_refused(self, alice: User) -> None:
        response = sign_in(Client(), alice).post(PREFERENCES, {**EVERYTHING, "tool_patterns": "x" * 501})
        assert response.status_code == 422
        assert not Preferences.objects.exists()

    def test_webhook_is_created_with_a_filter(self, admin: Client) -> None:
        form: dict[str, Any] = {"name": "pager", "address": "https://hooks.example/", "format": "json"}
        form |= {"events": ["interrupted"], "tool_patterns": "refund_*", "only_high_risk": "True"}
        admin.post("/settings/notifications/create/", form)
        webhook = Webhook.objects.get()
        assert (webhook.tool_patterns, webhook.only_high_risk) == ("refund_*", True)
        words = visible_text(admin.get("/settings/notifications/"))
        assert "Only calls of these tools: refund_* · Only calls with a high risk" in words

    def test_admins_see_which_tools_nobody_is_told_of(self, admin: Client, alice: User, dora: User) -> None:
        page = "/settings/notifications/"
        choose(alice, "refund_*")
        for tool in ("refund_card", "send_mail"):
            interrupted(tool)
        create_due_notices()
        assert "of which nobody is told" not in visible_text(admin.get(page))
        choose(dora, only_high_risk=True)
        words = visible_text(admin.get(page))
        assert "Each recipient is told of some calls only, so there may be calls of which nobody is told." in words
        assert "Without filters, 2 people would be told." in words
        assert "Nobody is told of new calls of these tools: send_mail" in words
        make_webhook()
        assert "of which nobody is told" not in visible_text(admin.get(page))
        Webhook.objects.update(tool_patterns="refund_*")
        assert "Without filters, 1 webhook would be told." in visible_text(admin.get(page))

    def test_query_count_is_independent_of_the_recipients(
        self, admin: Client, alice: User, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        choose(alice, "refund_*")
        interrupted()
        create_due_notices()
        with django_assert_max_num_queries(24):
            admin.get("/settings/notifications/")

    def test_desktop_notifications_follow_the_choice(self, alice: User) -> None:
        choose(alice, "send_*")
        since = formatting.format_iso_time(clock.now() - timedelta(minutes=1))
        mail = interrupted("send_mail", interrupted_at=clock.now())
        interrupted("refund_card", interrupted_at=clock.now())
        news = sign_in(Client(), alice).get("/review/news/", {"since": since}).json()["news"]
        assert [each["tag"] for each in news] == [f"call {mail.pk}"]


class TestPatternsWithoutTool:
    FORM: ClassVar = {"name": "pager", "address": "https://hooks.example/", "format": "json", "events": ["interrupted"]}

    def test_own_filter_names_patterns_that_match_no_tool(self, alice: User) -> None:
        for tool in ("refund_large", "send_mail"):
            interrupted(tool)
        client = sign_in(Client(), alice)
        page = client.get(PREFERENCES).content.decode()
        assert '<option value="refund_large">refund_large</option><option value="send_mail">' in page
        response = client.post(PREFERENCES, {**EVERYTHING, "tool_patterns": "refund_lage, send_*, zzz"}, follow=True)
        words = visible_text(response)
        near = "“refund_lage” matches no tool that was called so far. Did you mean refund_large?"
        later = "“zzz” matches no tool that was called so far. It will match tools that come later."
        assert f"{near} {later}" in words
        assert "You are told of calls of these tools: refund_lage, send_*, zzz." in words
        assert near in visible_text(client.get(PREFERENCES))
        client.post(PREFERENCES, {**EVERYTHING, "tool_patterns": "refund_large, send_*"})
        assert "matches no tool" not in visible_text(client.get("/accounts/")) + visible_text(client.get(PREFERENCES))

    def test_account_page_has_no_line_without_a_filter(self, alice: User) -> None:
        assert "You are told of" not in visible_text(sign_in(Client(), alice).get("/accounts/"))

    def test_tools_of_each_workspace_are_known(self, alice: User) -> None:
        other = make_workspace(slug="other")
        interrupted("pay_invoice", workspace=other)
        client = sign_in(Client(), alice)
        told = "“pay_invoice” matches no tool"
        sent = {**EVERYTHING, "tool_patterns": "pay_invoice"}
        assert told in visible_text(client.post(PREFERENCES, sent, follow=True))
        Membership.objects.create(user=alice, workspace=other, role=Role.APPROVER)
        assert told not in visible_text(client.get(PREFERENCES))

    def test_tool_that_was_called_long_ago_is_known(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(known_tools_and_unmatched_patterns, "_READ_SUMS", 1)
        for tool, day in (("pay_invoice", 1), ("send_mail", 2)):
            start = datetime(2026, 1, day, tzinfo=UTC)
            ToolSums.objects.create(workspace=make_workspace(), start=start, hourly=False, tool=tool)
        sent = {**self.FORM, "tool_patterns": "pay_invoice, payinvoice"}
        words = visible_text(admin.post("/settings/notifications/create/", sent, follow=True))
        assert "“pay_invoice” matches" not in words
        assert "“payinvoice” matches no tool that was called so far. It will match" in words

    def test_webhook_names_patterns_that_match_no_tool(self, admin: Client) -> None:
        interrupted("pay_invoice")
        sent = {**self.FORM, "tool_patterns": "payinvoice"}
        near = "“payinvoice” matches no tool that was called so far. Did you mean pay_invoice?"
        assert near in visible_text(admin.post("/settings/notifications/create/", sent, follow=True))
        path = f"/settings/notifications/{Webhook.objects.get().pk}/edit/"
        page = admin.get(path)
        assert near in visible_text(page)
        assert '<option value="pay_invoice">pay_invoice</option>' in page.content.decode()
        sent["tool_patterns"] = "pay_*, " + ", ".join(f"x{number}" for number in range(7))
        words = visible_text(admin.post(path, sent, follow=True))
        assert "“x4” matches no tool" in words
        assert "“x5” matches no tool" not in words
        assert "2 more patterns match no tool that was called so far." in words

    def test_masked_part_of_a_tool_is_neither_suggested_nor_guessed(self, admin: Client) -> None:
        secret = "ghp_" + "a1B2" * 9
        interrupted(f"use_{secret}")
        sent = {**self.FORM, "tool_patterns": "*_ghp_a1*"}
        words = visible_text(admin.post("/settings/notifications/create/", sent, follow=True))
        assert "matches no tool that was called so far. It will match" in words
        assert "a1B2" not in admin.get("/settings/notifications/").content.decode().replace("_ghp_a1*", "")
