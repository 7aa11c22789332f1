"""The delivery thread of the web process."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError

from harness_site.notifications import create_due_notices, delivery_task
from harness_site.notifications.models import Delivery
from tests.integration.notifications.conftest import Start, interrupted
from tests.integration.site.test_lost_run_and_deadline_sweep_task import served_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_task, "ROUND_SECONDS", 0.01)
    monkeypatch.setattr(create_due_notices, "GATHER", timedelta())


def _sent() -> bool:
    return Delivery.objects.filter(status="sent").exists()


async def test_approvers_are_notified(start_mail_server: Start, alice: User) -> None:
    office = start_mail_server()
    await database_sync_to_async(interrupted)()
    await served_until(_sent)
    assert [mail["to"] for mail in office.messages] == ["alice@example.com"]


async def test_thread_continues_after_a_database_outage(
    start_mail_server: Start, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start_mail_server()
    await database_sync_to_async(interrupted)()
    failures: Iterator[Exception] = iter([OperationalError("the server is gone")])

    def collect() -> int:
        for failure in failures:
            raise failure
        return create_due_notices.create_due_notices()

    monkeypatch.setattr(delivery_task, "create_due_notices", collect)
    with caplog.at_level(logging.ERROR):
        await served_until(_sent)
    assert "It tries again until it works" in caplog.text
