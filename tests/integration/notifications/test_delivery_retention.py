"""What is old and over is removed from the log; what still matters stays."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.notifications.delivery_retention import KEPT, delete_old_notices
from harness_site.notifications.models import Delivery, Notice
from harness_site.notifications.notice_collector import create_due_notices
from tests.integration.notifications.conftest import interrupted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


@pytest.fixture
def told(alice: User) -> ToolCall:
    """A call that was told long ago, and decided since."""
    call = interrupted()
    create_due_notices()
    Delivery.objects.update(status="sent")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED)
    Notice.objects.update(created_at=F("created_at") - KEPT - timedelta(minutes=1))
    return call


def test_what_is_over_is_removed(told: ToolCall) -> None:
    assert delete_old_notices() == 1
    assert (Notice.objects.count(), Delivery.objects.count(), create_due_notices()) == (0, 0, 0)


def test_a_command_does_it_too(told: ToolCall) -> None:
    call_command("deliver", verbosity=0)
    assert not Notice.objects.exists()


def test_a_call_that_still_waits_is_not_told_anew(told: ToolCall) -> None:
    ToolCall.objects.filter(pk=told.pk).update(status=CallStatus.INTERRUPTED)
    assert (delete_old_notices(), create_due_notices()) == (0, 0)


def test_what_is_still_to_be_sent_stays(told: ToolCall) -> None:
    Delivery.objects.update(status="waiting")
    assert delete_old_notices() == 0


def test_what_is_younger_stays(told: ToolCall) -> None:
    Notice.objects.update(created_at=F("created_at") + timedelta(minutes=2))
    assert delete_old_notices() == 0
