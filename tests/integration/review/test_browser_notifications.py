"""Desktop notifications of an open page: one for each new call or outage, and each comment that mentions the reader."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.db import clock
from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.core import formatting
from harness_site.review.models import Comment
from harness_site.review.views import browser_notifications
from tests.integration.review.conftest import Lost
from tests.support.factories import THEN

pytestmark = pytest.mark.django_db


def told(client: Client, ago: timedelta = timedelta()) -> list[dict[str, Any]]:
    """Return the notifications since a time."""
    response = client.get("/review/news/", {"since": formatting.format_iso_time(clock.now() - ago)})
    assert response.status_code == 200
    found: list[dict[str, Any]] = response.json()["news"]
    return found


def now(lost: Lost, **fields: Any) -> ToolCall:
    return lost((clock.now() - THEN).total_seconds(), **fields)


def test_notification_contains_the_question_of_the_call(people: dict[str, Client], lost: Lost) -> None:
    call = now(lost, sentence="Refund 40.00 EUR")
    assert told(people["carol"]) == [
        {
            "tag": f"call {call.pk}",
            "title": "Did this happen?",
            "body": "Refund 40.00 EUR",
            "url": f"/review/calls/{call.pk}/",
        }
    ]
    ToolCall.objects.update(status=CallStatus.AWAITING_APPROVAL, interrupted_at=None, issued_at=clock.now())
    assert told(people["carol"])[0]["title"] == "May this happen?"


def test_notification_of_an_altered_call_tells_nothing_of_it(people: dict[str, Client], lost: Lost) -> None:
    call = now(lost)
    ToolCall.objects.update(args='{"payee":"mallory"}')
    (notification,) = told(people["carol"])
    assert notification["title"] == "Altered data"
    assert notification["body"] == "A call is not shown, because its data are not as they were written"
    assert notification["url"] == f"/review/calls/{call.pk}/"


def test_older_decided_and_foreign_calls_are_not_notified(people: dict[str, Client], lost: Lost) -> None:
    lost()
    now(lost, status=CallStatus.COMPLETED)
    now(lost, workspace="elsewhere")
    assert told(people["carol"]) == []


def test_outage_is_notified_once(people: dict[str, Client], lost: Lost) -> None:
    calls = [now(lost) for _ in range(50)]
    alone = now(lost, tool="ring")
    found = told(people["carol"])
    outage, other = found
    assert re.fullmatch(r"50 calls of refund_card interrupted (within \d+ s|in the same second)", outage["title"])
    assert other["title"] == "Did this happen?"
    page = people["carol"].get(outage["url"])
    assert {row.call.pk for row in page.context["rows"]} == {call.pk for call in calls}
    assert other["tag"] == f"call {alone.pk}"
    calls[0].refresh_from_db()
    now(lost)
    assert told(people["carol"])[0]["tag"] == outage["tag"]


def test_many_calls_are_notified_as_a_count(people: dict[str, Client], lost: Lost) -> None:
    for number in range(browser_notifications.MAX_NOTIFICATIONS + 3):
        now(lost, tool=f"tool_{number}")
    found = told(people["carol"])
    assert [one["title"] for one in found] == ["Did this happen?"] * browser_notifications.MAX_NOTIFICATIONS + [
        "3 more calls need a decision"
    ]


def test_secret_is_masked(people: dict[str, Client], lost: Lost) -> None:
    now(lost, args={"api_key": "sk-live-4242424242424242"})
    assert "sk-live" not in told(people["alice"])[0]["body"]


def test_comment_that_mentions_the_reader_is_notified(people: dict[str, Client], lost: Lost) -> None:
    call, foreign = lost(args={"password": "violet-harbour"}), lost(workspace="elsewhere")
    people["alice"].post(f"/review/calls/{call.pk}/comment/", {"text": "@carol, it is\nviolet-harbour."})
    Comment.objects.create(call=foreign, author="alice", text="@carol")
    comment = Comment.objects.get(call=call)
    (notification,) = told(people["carol"])
    assert (notification["tag"], notification["title"]) == (f"comment {comment.pk}", "alice mentions you")
    assert notification["body"].startswith("@carol, it is ")
    assert "violet" not in notification["body"]
    assert notification["url"] == f"/review/calls/{call.pk}/#comments"
    assert [told(people[name]) for name in ("alice", "bob")] == [[], []]
    Comment.objects.update(created_at=clock.now() - timedelta(minutes=1))
    assert told(people["carol"]) == []
    assert len(told(people["carol"], timedelta(minutes=2))) == 1


@pytest.mark.parametrize("since", ["", "yesterday", "0001-01-01T00:00:00Z", "2025-03-04T10:00:00"])
def test_invalid_time_is_a_bad_request(people: dict[str, Client], since: str) -> None:
    assert people["alice"].get("/review/news/", {"since": since}).status_code == 400


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_the_news(
    people: dict[str, Client], lost: Lost, django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    for number in range(calls):
        Comment.objects.create(call=now(lost, tool=f"tool_{number}"), author="bob", text="@carol")
    carol = people["carol"]
    with django_assert_num_queries(11):
        carol.get("/review/news/", {"since": formatting.format_iso_time(clock.now())})
