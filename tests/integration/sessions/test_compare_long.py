"""Comparison of versions with more differences than are shown."""

from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Session
from harness_site.sessions.compare import compare_versions
from harness_site.sessions.compare.message_alignment import FurtherMessages
from harness_site.sessions.selectors import calls_between_versions, transcript_message_queries
from harness_site.sessions.selectors.transcript_message_queries import StoredMessage
from tests.integration.sessions.compare_helpers import compared, lines, rewrite, say
from tests.support.factories import make_call, make_checkpoint
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_messages_beyond_the_limit_are_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, "x")
    make_checkpoint(session=session)
    rewrite(session, 0)
    say(session, "a", "b", "c")
    make_checkpoint(session=session)
    monkeypatch.setattr(compare_versions, "COMPARED", 2)
    found = compared(session, 1, 2)
    assert (lines(found), found.rest_a, found.rest_b) == ([("-", "x"), ("+", "a"), ("+", "b")], 0, 1)


def test_text_beyond_the_limit_is_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, "x")
    make_checkpoint(session=session)
    rewrite(session, 0)
    say(session, "a", "b", "c")
    make_checkpoint(session=session)
    monkeypatch.setattr(compare_versions, "COMPARED_SIZE", 10)
    found = compared(session, 1, 2)
    assert (lines(found), found.rest_a, found.rest_b) == ([], 1, 3)


def test_newest_part_of_too_much_added_text_is_shown(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    make_checkpoint(session=session)
    say(session, "a", "b", "c")
    make_checkpoint(session=session)
    monkeypatch.setattr(compare_versions, "COMPARED_SIZE", 10)
    found = compared(session, 1, 2)
    assert (found.lines[0], lines(found), found.added_count) == (FurtherMessages("added", 2, 0), [("+", "c")], 3)
    assert (found.rest_a, found.rest_b) == (0, 0)


def test_long_range_is_shortened_and_counted(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    say(session, *[f"message {number}" for number in range(100)])
    make_checkpoint(session=session)
    found = compared(session, 1, 2)
    assert [line.kind for line in found.lines] == ["added"] * 25 + ["more"] + ["added"] * 4
    assert found.lines[25] == FurtherMessages("added", 71, 25)
    assert found.added_count == 100
    assert "+ 71 more messages · read them in version 2" in visible_text(
        reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")
    )
    assert compared(session, 2, 1).removed_count == 100


def test_only_displayed_messages_of_a_long_range_are_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    make_checkpoint(session=session)
    say(session, *[f"message {number}" for number in range(100)])
    make_checkpoint(session=session)
    read: list[int] = []
    window = transcript_message_queries.load_and_verify_newest_messages_within_size

    def counting(*args: Any, **options: Any) -> list[StoredMessage]:
        found = window(*args, **options)
        read.extend(message.position for message in found)
        return found

    monkeypatch.setattr(transcript_message_queries, "load_and_verify_newest_messages_within_size", counting)
    for a, b in ((1, 2), (2, 1)):
        read.clear()
        compared(session, a, b)
        assert read == [*range(25), *range(96, 100)]


@pytest.mark.parametrize("counted", [1000, 25])
def test_first_of_many_calls_are_shown_and_all_counted(
    session: Session, reader: Client, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_between_versions, "COUNTED", counted)
    make_checkpoint(session=session)
    for number in range(30):
        make_call(session=session, call_id=str(number), tool=f"tool_{number}", step=2)
    make_checkpoint(session=session)
    page = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert "tool_19" in page
    assert "tool_20" not in page
    if counted == 25:
        assert "Logged calls25+" in page
        assert "More than 5 later calls are not shown here. Show all tool calls of the session" in page
    else:
        assert "Logged calls30" in page
        assert "10 later calls are not shown here. Show all tool calls of the session" in page
