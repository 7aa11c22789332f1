"""What is old and over is removed from the log; what still matters stays."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.notifications.collecting import collect
from harness_site.notifications.forgetting import KEPT, forget
from harness_site.notifications.models import Delivery, Notice
from tests.integration.notifications.conftest import interrupted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


@pytest.fixture
def told(alice: User) -> ToolCall:
    """A call that was told long ago, and decided since."""
    call = interrupted()
    collect()
    Delivery.objects.update(status="sent")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED)
    Notice.objects.update(created_at=F("created_at") - KEPT - timedelta(minutes=1))
    return call


def test_what_is_over_is_removed(told: ToolCall) -> None:
    assert forget() == 1
    assert (Notice.objects.count(), Delivery.objects.count(), collect()) == (0, 0, 0)


def test_a_command_does_it_too(told: ToolCall) -> None:
    call_command("deliver", verbosity=0)
    assert not Notice.objects.exists()


def test_a_call_that_still_waits_is_not_told_anew(told: ToolCall) -> None:
    ToolCall.objects.filter(pk=told.pk).update(status=CallStatus.INTERRUPTED)
    assert (forget(), collect()) == (0, 0)


def test_what_is_still_to_be_sent_stays(told: ToolCall) -> None:
    Delivery.objects.update(status="waiting")
    assert forget() == 0


def test_what_is_younger_stays(told: ToolCall) -> None:
    Notice.objects.update(created_at=F("created_at") + timedelta(minutes=2))
    assert forget() == 0
