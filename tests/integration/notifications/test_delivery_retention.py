"""Retention of the delivery log."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.delivery_retention import RETENTION, delete_old_notices_and_deliveries
from harness_site.notifications.models import Delivery, Notice
from tests.integration.notifications.conftest import interrupted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


@pytest.fixture
def told(alice: User) -> ToolCall:
    """Call that was notified long ago, and decided since."""
    call = interrupted()
    create_due_notices()
    Delivery.objects.update(status="sent")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED)
    Notice.objects.update(created_at=F("created_at") - RETENTION - timedelta(minutes=1))
    return call


def test_old_finished_deliveries_are_removed(told: ToolCall) -> None:
    assert delete_old_notices_and_deliveries() == 1
    assert (Notice.objects.count(), Delivery.objects.count(), create_due_notices()) == (0, 0, 0)


def test_command_removes_old_deliveries(told: ToolCall) -> None:
    call_command("deliver", verbosity=0)
    assert not Notice.objects.exists()


def test_pending_call_is_not_notified_again(told: ToolCall) -> None:
    ToolCall.objects.filter(pk=told.pk).update(status=CallStatus.INTERRUPTED)
    assert (delete_old_notices_and_deliveries(), create_due_notices()) == (0, 0)


def test_unsent_delivery_is_kept(told: ToolCall) -> None:
    Delivery.objects.update(status="waiting")
    assert delete_old_notices_and_deliveries() == 0


def test_recent_delivery_is_kept(told: ToolCall) -> None:
    Notice.objects.update(created_at=F("created_at") + timedelta(minutes=2))
    assert delete_old_notices_and_deliveries() == 0
