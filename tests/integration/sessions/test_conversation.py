"""Windows of a conversation, joined with the call log and the runs."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from checkpoints.enums import CallStatus, RunStatus
from checkpoints.formats.parse_message_parts import TextPart
from checkpoints.models import Checkpoint, Segment, Session, ToolCall
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import Handover, MessageEntry, Rewrite
from tests.integration.sessions.conversation_samples import answers, asks, cards, entries, logged, read
from tests.support.factories import (
    THEN,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
)

pytestmark = pytest.mark.django_db


def test_messages_have_their_version_and_run(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["b", "c"])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    make_messages(session=session, texts=["not saved by any version that is left"])
    assert [(entry.position, entry.version, entry.run_number) for entry in entries(read(session))] == [
        (0, 1, 1),
        (1, 2, 1),
        (2, 2, 1),
        (3, None, None),
    ]


def test_lost_run_is_marked_before_the_next_one(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    first = session.owner
    assert first is not None
    first.status, first.ended_at = RunStatus.LOST, THEN
    first.save()
    make_run(session=session, host="worker-1")
    make_messages(session=session, texts=["b"])
    make_checkpoint(session=session)
    kinds = [item.kind for item in read(session).items]
    assert kinds == ["message", "handover", "message"]
    handover = read(session).items[1]
    assert isinstance(handover, Handover)
    assert [(run.number, run.status) for run in handover.ended] == [(1, "lost")]
    assert (handover.follower.number, handover.follower.host) == (2, "worker-1")


def test_messages_of_the_agent_have_the_time_since_the_message_before(session: Session) -> None:
    _say_at(session, ("user", 0), ("assistant", 1.5), ("user", 60), ("assistant", 60), ("model", 64))
    make_checkpoint(session=session)
    make_run(session=session)
    _say_at(session, ("assistant", 3600), ("assistant", 3602))
    make_checkpoint(session=session)
    times = [entry.answer_time for entry in entries(read(session))]
    assert times == [None, timedelta(seconds=1.5), None, None, timedelta(seconds=4), None, timedelta(seconds=2)]


def test_messages_saved_without_a_run_have_times_too(session: Session) -> None:
    _say_at(session, ("user", 0), ("assistant", 1.5))
    make_checkpoint(session=session)
    Checkpoint.objects.update(run=None)
    times = [entry.answer_time for entry in entries(read(session))]
    assert times == [None, timedelta(seconds=1.5)]


def test_call_has_the_time_to_its_result(session: Session) -> None:
    asks(session, "alone")
    answers(session, "alone", at=THEN + timedelta(seconds=2))
    asks(session, "first", "second")
    answers(session, "first", at=THEN + timedelta(seconds=5))
    answers(session, "second", at=THEN + timedelta(seconds=6))
    make_checkpoint(session=session)
    assert [card.time_to_result for card in cards(read(session))] == [timedelta(seconds=2), None, None]


def _say_at(session: Session, *messages: tuple[str, float]) -> None:
    for role, seconds in messages:
        make_message(session=session, role=role, created_at=THEN + timedelta(seconds=seconds))


def test_runs_without_versions_are_marked(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    logged(session, "lost", step=1, status=CallStatus.INTERRUPTED)
    make_run(session=session)
    make_run(session=session)
    items = read(session).items
    assert [item.kind for item in items] == ["message", "card", "handover"]
    last = items[-1]
    assert isinstance(last, Handover)
    assert ([run.number for run in last.ended], last.follower.number) == ([1, 2], 3)


def test_edit_is_marked_at_its_start(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=1)
    session.save()
    make_messages(session=session, texts=["B"])
    make_checkpoint(session=session)
    assert [item for item in read(session).items if not isinstance(item, MessageEntry)] == [Rewrite(2, forked=False)]
    assert [item.kind for item in read(session, 1).items] == ["message", "message"]


@pytest.mark.parametrize(
    ("after", "is_marked"),
    [(["look", "found"], False), (["Look", "found"], True), (["found"], True), ([], True)],
    ids=["continued", "changed", "other", "emptied"],
)
def test_message_that_was_only_continued_is_no_edit(session: Session, after: list[str], is_marked: bool) -> None:
    make_messages(session=session, texts=["a"])
    make_message(session=session, blocks=[{"kind": "text", "text": "look"}])
    make_checkpoint(session=session)
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=1)
    session.save()
    make_message(session=session, blocks=[{"kind": "text", "text": text} for text in after])
    make_checkpoint(session=session)
    assert [item.kind for item in read(session).items if not isinstance(item, MessageEntry)] == ["rewrite"] * is_marked


def test_edit_is_marked_in_a_window_that_begins_there_and_not_after_it(session: Session) -> None:
    make_messages(session=session, texts=map(str, range(30)))
    make_checkpoint(session=session)
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=30)
    session.save()
    make_messages(session=session, texts=map(str, range(30)))
    make_checkpoint(session=session)
    assert [item.kind for item in read(session, first=30, upto=32).items] == ["rewrite", "message", "message"]
    assert [item.kind for item in read(session, first=31, upto=33).items] == ["message", "message"]
    assert [item.kind for item in read(session, first=28, upto=30).items] == ["message", "message"]


def test_runs_are_loaded_only_if_one_may_have_taken_over(
    session: Session, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    session.refresh_from_db()
    place = conversation_window.get_newest_transcript_version(session)
    with django_assert_num_queries(4):
        found = conversation_window.load_conversation_window(session, place, newest_run=1)
    assert found == conversation_window.load_conversation_window(session, place)
    make_run(session=session)
    with django_assert_num_queries(5):
        found = conversation_window.load_conversation_window(session, place, newest_run=2)
    assert [item.kind for item in found.items] == ["message", "handover"]


def test_fork_is_marked_at_its_start(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    forked = make_session(session_id="forked")
    forked.head_segment = Segment.objects.create(session=forked, parent=session.head_segment, parent_length=2)
    forked.message_count = 2
    forked.save()
    make_run(session=forked)
    make_checkpoint(session=forked)
    make_messages(session=forked, texts=["c"])
    make_checkpoint(session=forked)
    found = read(forked)
    assert [item.kind for item in found.items] == ["message", "message", "rewrite", "message"]
    assert [entry.version for entry in entries(found)] == [None, None, 2]


def test_newest_messages_are_shown_first(session: Session) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    found = read(session)
    assert (found.first, found.upto, found.has_earlier, found.has_later) == (226, 250, True, False)
    before = read(session, upto=found.first)
    assert (before.first, before.upto, before.has_earlier, before.has_later) == (202, 226, True, True)
    assert read(session, first=0).upto == 24
    assert (read(session, upto=10).first, read(session, upto=10).upto) == (0, 10)


@pytest.mark.parametrize("more", [10, 11])
def test_window_includes_few_remaining_messages(session: Session, more: int) -> None:
    make_messages(session=session, texts=map(str, range(24 + more)))
    make_checkpoint(session=session)
    newest, oldest = read(session), read(session, first=0)
    assert (newest.first, oldest.upto) == ((0, 34) if more == 10 else (11, 24))


def test_window_keeps_results_with_their_calls(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    asks(session, "x")
    answers(session, "x")
    make_messages(session=session, texts=["b"])
    make_checkpoint(session=session)
    begins_with_result = read(session, first=2, upto=4)
    assert (begins_with_result.first, begins_with_result.upto) == (1, 4)
    ends_before_result = read(session, first=0, upto=2)
    assert (ends_before_result.first, ends_before_result.upto) == (0, 3)
    assert all(card.result is not None for card in cards(ends_before_result))


@pytest.mark.parametrize(("replays", "attempts"), [(1, 1), (0, 0)])
def test_repeated_call_under_another_id_shows_the_log_of_the_first(
    session: Session, replays: int, attempts: int
) -> None:
    call = logged(session, "first", step=1, status=CallStatus.COMPLETED)
    ToolCall.objects.filter(pk=call.pk).update(replay_count=replays)
    asks(session, "again")
    make_checkpoint(session=session)
    (card,) = [card for card in cards(read(session)) if card.call.call_id == "again"]
    assert len(card.attempts) == attempts
    assert [one.call.call_id for one in cards(read(session)) if one is not card and one.result] == []


def test_window_beyond_the_transcript_is_empty(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    assert read(session, first=5, upto=9).items == ()
    assert read(session, upto=0).items == ()


def test_empty_session_has_an_empty_conversation() -> None:
    assert read(make_session()).items == ()


def test_unknown_version_has_no_position(session: Session) -> None:
    make_checkpoint(session=session)
    assert conversation_window.find_transcript_version(session, 99) is None
    assert conversation_window.find_transcript_version(session, 0) is None


def test_window_around_a_call_ends_at_its_issue(session: Session) -> None:
    make_messages(session=session, texts=["a", "b", "c"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["later"])
    make_checkpoint(session=session)
    place = conversation_window.find_newest_transcript_version_upto_step(session, 1)
    assert place is not None
    found = conversation_window.load_conversation_window(session, place, first=place.length - 2)
    assert [entry.parts for entry in entries(found)] == [(TextPart("b"),), (TextPart("c"),)]
    assert conversation_window.find_newest_transcript_version_upto_step(session, 0) is None


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize(
    ("turns", "queries"),
    [(1, 7), (3, 7), (30, 6)],  # no segment begins among the newest of many messages
)
def test_query_count_is_independent_of_the_length(
    session: Session, turns: int, queries: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for turn in range(turns):
        asks(session, f"c{turn}")
        make_checkpoint(session=session)
        make_decision(call=logged(session, f"c{turn}", step=turn + 1))
        answers(session, f"c{turn}")
        make_checkpoint(session=session)
    session.refresh_from_db()
    place = conversation_window.find_transcript_version(session)
    assert place is not None
    with django_assert_num_queries(queries):
        conversation_window.load_conversation_window(session, place)
