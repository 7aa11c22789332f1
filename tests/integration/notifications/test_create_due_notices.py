"""Notices about pending calls: one for each call, grouped into messages."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from harness_site.notifications.create_due_notices import APART, GATHER, create_due_notices
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall, Preferences
from tests.integration.notifications.conftest import StartSite, deliveries, interrupted, make_webhook
from tests.support.factories import make_user, make_workspace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


def notices() -> list[tuple[str, str, int]]:
    """Return event, tool and number of calls of each notice."""
    return [(each.event, each.tool, each.noticed.count()) for each in Notice.objects.order_by("pk")]


def close() -> None:
    Notice.objects.update(closed=True)


class TestPendingCalls:
    def test_interrupted_call_is_notified_once(self, alice: User) -> None:
        interrupted()
        assert [create_due_notices(), create_due_notices()] == [1, 0]
        assert notices() == [("interrupted", "refund_card", 1)]
        assert deliveries() == [("alice@example.com", "waiting", 0)]

    def test_fifty_concurrent_calls_are_one_message(self, alice: User) -> None:
        for _ in range(50):
            interrupted()
        assert create_due_notices() == 50
        assert notices() == [("interrupted", "refund_card", 50)]
        assert Delivery.objects.count() == 1

    def test_similar_calls_join_an_unsent_message(self, alice: User) -> None:
        interrupted()
        create_due_notices()
        interrupted()
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 2)]
        close()
        interrupted()
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 2), ("interrupted", "refund_card", 1)]
        first, second = Notice.objects.order_by("pk")
        assert second.send_at - first.send_at == APART[Event.INTERRUPTED]

    def test_calls_from_before_the_first_receiver_are_in_its_first_message(self, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        interrupted()
        create_due_notices()
        assert [notices(), deliveries()] == [[("interrupted", "refund_card", 1)], []]
        Notice.objects.update(send_at=F("send_at") - timedelta(days=1))
        webhook = make_webhook("https://example.com/hook")
        interrupted()
        before = clock.read_database_time("default")
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 2)]
        delivery = Delivery.objects.get()
        assert delivery.webhook == webhook
        assert delivery.due_at == Notice.objects.get().send_at >= before + GATHER

    def test_calls_after_a_removed_receiver_reach_the_next_one(self, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        removed = make_webhook("https://example.com/old")
        interrupted()
        create_due_notices()
        removed.delete()
        webhook = make_webhook("https://example.com/new")
        interrupted()
        create_due_notices()
        assert [each.webhook for each in Delivery.objects.all()] == [webhook]

    def test_other_tools_states_and_workspaces_get_separate_messages(self) -> None:
        interrupted()
        interrupted("send_mail")
        interrupted(status=CallStatus.AWAITING_APPROVAL)
        interrupted(workspace=make_workspace(slug="other"))
        create_due_notices()
        assert sorted(notices()) == [
            ("awaiting_approval", "refund_card", 1),
            ("interrupted", "refund_card", 1),
            ("interrupted", "refund_card", 1),
            ("interrupted", "send_mail", 1),
        ]

    def test_approved_call_that_is_interrupted_is_notified_again(self) -> None:
        call = interrupted(status=CallStatus.AWAITING_APPROVAL)
        create_due_notices()
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.INTERRUPTED, interrupted_at=clock.now())
        create_due_notices()
        assert notices() == [("awaiting_approval", "refund_card", 1), ("interrupted", "refund_card", 1)]

    @pytest.mark.parametrize("status", [CallStatus.ISSUED, CallStatus.COMPLETED, CallStatus.APPROVED])
    def test_calls_without_a_pending_decision_are_not_notified(self, status: CallStatus) -> None:
        interrupted(status=status)
        assert create_due_notices() == 0

    def test_message_waits_for_similar_calls(self) -> None:
        interrupted()
        before = clock.read_database_time("default")
        create_due_notices()
        assert GATHER <= Notice.objects.get().send_at - before < GATHER + timedelta(minutes=1)

    def test_session_with_notices_can_be_deleted(self) -> None:
        call = interrupted()
        create_due_notices()
        call.session.runs.all().update(status="lost")
        ToolCall.objects.filter(pk=call.pk)._raw_delete("default")
        assert NoticedCall.objects.count() == 1


class TestDeadlines:
    def call(self, *, passed: timedelta, within: timedelta = timedelta(hours=4)) -> ToolCall:
        return interrupted(interrupted_at=clock.now() - passed, decide_within=within)

    def test_reminder_and_escalation_are_sent_once(self, alice: User, dora: User) -> None:
        call = self.call(passed=timedelta(hours=2))
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 1)]
        self._later(call, timedelta(hours=1, minutes=30))
        assert [create_due_notices(), create_due_notices()] == [1, 0]
        self._later(call, timedelta(hours=1))
        assert [create_due_notices(), create_due_notices()] == [1, 0]
        told = [(each.event, sorted(one.recipient for one in each.deliveries.all())) for each in Notice.objects.all()]
        everybody = ["alice@example.com", "dora@example.com"]
        assert told == [("interrupted", everybody), ("reminder", everybody), ("escalation", ["dora@example.com"])]

    def test_reminder_is_sent_in_the_last_hour(self) -> None:
        self.call(passed=timedelta(hours=46), within=timedelta(hours=48))
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 1)]
        self.call(passed=timedelta(hours=47, minutes=1), within=timedelta(hours=48))
        create_due_notices()
        assert ("reminder", "refund_card", 1) in notices()

    def test_passed_deadline_escalates_without_a_reminder(self) -> None:
        self.call(passed=timedelta(hours=5))
        create_due_notices()
        assert sorted(notices()) == [("escalation", "refund_card", 1), ("interrupted", "refund_card", 1)]

    def test_call_without_a_deadline_is_never_due(self) -> None:
        interrupted(interrupted_at=clock.now() - timedelta(days=90))
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 1)]

    def _later(self, call: ToolCall, delta: timedelta) -> None:
        ToolCall.objects.filter(pk=call.pk).update(interrupted_at=F("interrupted_at") - delta)


class TestRecipients:
    def test_members_who_may_decide_are_notified(self, alice: User, dora: User, carol: User) -> None:
        interrupted()
        create_due_notices()
        assert [to for to, _, _ in deliveries()] == ["alice@example.com", "dora@example.com"]

    def test_members_of_other_workspaces_are_not_notified(self, alice: User) -> None:
        interrupted(workspace=make_workspace(slug="other"))
        create_due_notices()
        assert deliveries() == []

    def test_inactive_users_and_users_without_address_are_not_notified(self, alice: User) -> None:
        User.objects.filter(pk=alice.pk).update(is_active=False)
        make_user(name="bob", role=Role.APPROVER)
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_invalid_address_is_skipped(self, alice: User) -> None:
        User.objects.filter(pk=alice.pk).update(email="alice@example.com\nBcc: everybody@example.com")
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_preferences_are_followed(self, alice: User, dora: User) -> None:
        Preferences.objects.create(user=alice, address="pager@example.com", awaiting_approval=False)
        Preferences.objects.create(user=dora, email=False)
        interrupted()
        interrupted("send_mail", status=CallStatus.AWAITING_APPROVAL)
        create_due_notices()
        assert deliveries() == [("pager@example.com", "waiting", 0)]
        assert Delivery.objects.get().notice.event == "interrupted"

    def test_no_mail_is_created_without_a_mail_server(self, alice: User, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_webhooks_get_their_selected_events(self) -> None:
        make_webhook("https://a.example/", events="interrupted,escalation")
        make_webhook("https://b.example/", events="reminder")
        make_webhook("https://c.example/", workspace=make_workspace(slug="other"))
        interrupted()
        create_due_notices()
        assert deliveries() == [("a.example", "waiting", 0)]


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_the_calls(
    alice: User, dora: User, django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    for _ in range(calls):
        interrupted()
    with django_assert_num_queries(16):
        create_due_notices()
    with django_assert_num_queries(2):
        create_due_notices()


@pytest.mark.django_db(transaction=True)
def test_concurrent_collectors_notice_each_call_once(start_site: StartSite, alice: User) -> None:
    for _ in range(20):
        interrupted()
    children = [start_site("collect") for _ in range(3)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    assert sum(child.result() for child in children) == 20
    assert (notices(), Delivery.objects.count()) == ([("interrupted", "refund_card", 20)], 1)
