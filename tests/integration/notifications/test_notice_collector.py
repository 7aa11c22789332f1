"""Calls that wait are noticed once, and what belongs together is one message."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall, Preferences
from harness_site.notifications.notice_collector import APART, GATHER, create_due_notices
from tests.integration.notifications.conftest import StartSite, deliveries, interrupted, make_webhook
from tests.support.factories import make_user, make_workspace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


def notices() -> list[tuple[str, str, int]]:
    """Event, tool and number of calls of each notice."""
    return [(each.event, each.tool, each.noticed.count()) for each in Notice.objects.order_by("pk")]


def close() -> None:
    Notice.objects.update(closed=True)


class TestWhatIsTold:
    def test_a_call_whose_outcome_is_unknown_is_told_once(self, alice: User) -> None:
        interrupted()
        assert [create_due_notices(), create_due_notices()] == [1, 0]
        assert notices() == [("interrupted", "refund_card", 1)]
        assert deliveries() == [("alice@example.com", "waiting", 0)]

    def test_fifty_at_once_are_one_message(self, alice: User) -> None:
        for _ in range(50):
            interrupted()
        assert create_due_notices() == 50
        assert notices() == [("interrupted", "refund_card", 50)]
        assert Delivery.objects.count() == 1

    def test_more_of_the_same_joins_until_it_is_sent(self, alice: User) -> None:
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

    def test_other_tools_states_and_workspaces_are_messages_of_their_own(self) -> None:
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

    def test_a_call_that_was_approved_and_then_lost_is_told_again(self) -> None:
        call = interrupted(status=CallStatus.AWAITING_APPROVAL)
        create_due_notices()
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.INTERRUPTED, interrupted_at=clock.now())
        create_due_notices()
        assert notices() == [("awaiting_approval", "refund_card", 1), ("interrupted", "refund_card", 1)]

    @pytest.mark.parametrize("status", [CallStatus.ISSUED, CallStatus.COMPLETED, CallStatus.APPROVED])
    def test_what_waits_for_nobody_is_not_told(self, status: CallStatus) -> None:
        interrupted(status=status)
        assert create_due_notices() == 0

    def test_a_message_waits_a_moment_for_more(self) -> None:
        interrupted()
        before = clock.database_now("default")
        create_due_notices()
        assert GATHER <= Notice.objects.get().send_at - before < GATHER + timedelta(minutes=1)

    def test_agents_delete_sessions_without_knowing_of_this(self) -> None:
        call = interrupted()
        create_due_notices()
        call.session.runs.all().update(status="lost")
        ToolCall.objects.filter(pk=call.pk)._raw_delete("default")
        assert NoticedCall.objects.count() == 1


class TestDeadlines:
    def call(self, *, passed: timedelta, within: timedelta = timedelta(hours=4)) -> ToolCall:
        return interrupted(interrupted_at=clock.now() - passed, decide_within=within)

    def test_a_reminder_and_an_escalation_come_once_each(self, alice: User, dora: User) -> None:
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

    def test_the_last_hour_of_a_long_time_is_near(self) -> None:
        self.call(passed=timedelta(hours=46), within=timedelta(hours=48))
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 1)]
        self.call(passed=timedelta(hours=47, minutes=1), within=timedelta(hours=48))
        create_due_notices()
        assert ("reminder", "refund_card", 1) in notices()

    def test_who_comes_too_late_to_remind_escalates(self) -> None:
        self.call(passed=timedelta(hours=5))
        create_due_notices()
        assert sorted(notices()) == [("escalation", "refund_card", 1), ("interrupted", "refund_card", 1)]

    def test_a_call_without_a_limit_is_never_due(self) -> None:
        interrupted(interrupted_at=clock.now() - timedelta(days=90))
        create_due_notices()
        assert notices() == [("interrupted", "refund_card", 1)]

    def _later(self, call: ToolCall, delta: timedelta) -> None:
        ToolCall.objects.filter(pk=call.pk).update(interrupted_at=F("interrupted_at") - delta)


class TestRecipients:
    def test_those_who_may_decide_are_told(self, alice: User, dora: User, carol: User) -> None:
        interrupted()
        create_due_notices()
        assert [to for to, _, _ in deliveries()] == ["alice@example.com", "dora@example.com"]

    def test_members_of_other_workspaces_are_not(self, alice: User) -> None:
        interrupted(workspace=make_workspace(slug="other"))
        create_due_notices()
        assert deliveries() == []

    def test_nor_who_is_switched_off_or_has_no_address(self, alice: User) -> None:
        User.objects.filter(pk=alice.pk).update(is_active=False)
        make_user(name="bob", role=Role.APPROVER)
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_an_address_that_is_none_is_left_out(self, alice: User) -> None:
        User.objects.filter(pk=alice.pk).update(email="alice@example.com\nBcc: everybody@example.com")
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_everybody_chooses(self, alice: User, dora: User) -> None:
        Preferences.objects.create(user=alice, address="pager@example.com", awaiting_approval=False)
        Preferences.objects.create(user=dora, email=False)
        interrupted()
        interrupted("send_mail", status=CallStatus.AWAITING_APPROVAL)
        create_due_notices()
        assert deliveries() == [("pager@example.com", "waiting", 0)]
        assert Delivery.objects.get().notice.event == "interrupted"

    def test_without_a_mail_server_nobody_gets_e_mail(self, alice: User, settings: Settings) -> None:
        settings.MAIL_SERVER = None
        interrupted()
        create_due_notices()
        assert deliveries() == []

    def test_webhooks_of_the_workspace_are_told_what_they_want(self) -> None:
        make_webhook("https://a.example/", events="interrupted,escalation")
        make_webhook("https://b.example/", events="reminder")
        make_webhook("https://c.example/", workspace=make_workspace(slug="other"))
        interrupted()
        create_due_notices()
        assert deliveries() == [("a.example", "waiting", 0)]


@pytest.mark.parametrize("calls", [1, 3])
def test_the_number_of_queries_does_not_depend_on_the_number_of_calls(
    alice: User, dora: User, django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    for _ in range(calls):
        interrupted()
    with django_assert_num_queries(16):
        create_due_notices()
    with django_assert_num_queries(2):
        create_due_notices()


@pytest.mark.django_db(transaction=True)
def test_several_processes_notice_each_call_once(start_site: StartSite, alice: User) -> None:
    for _ in range(20):
        interrupted()
    children = [start_site("collect") for _ in range(3)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    assert sum(child.result() for child in children) == 20
    assert (notices(), Delivery.objects.count()) == ([("interrupted", "refund_card", 20)], 1)
