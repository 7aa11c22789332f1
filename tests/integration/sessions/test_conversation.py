"""A window of a transcript put together with the log and the runs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest

from checkpoints.enums import CallStatus, RunStatus
from checkpoints.models import Segment, Session
from checkpoints.queries import conversation
from checkpoints.queries.blocks import Result, Text
from checkpoints.queries.conversation import CallCard, Conversation, Entry, Handover, Rewrite
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_messages,
    make_run,
    make_session,
)

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
ARGS = {"order": 17}


def asks(session: Session, call_id: str = "call_1", args: dict[str, Any] | None = None, tool: str = "pay") -> None:
    block = {"kind": "tool_call", "id": call_id, "name": tool, "args": ARGS if args is None else args}
    make_message(session=session, role="assistant", blocks=[block])


def answers(session: Session, call_id: str = "call_1", content: str = "done") -> None:
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": call_id, "content": content}])


def logged(session: Session, call_id: str = "call_1", **fields: Any) -> Any:
    fields = {"args": ARGS, "tool": "pay", "status": CallStatus.COMPLETED, **fields}
    return make_call(session=session, call_id=call_id, **fields)


def read(session: Session, version: int | None = None, **bounds: int) -> Conversation:
    session.refresh_from_db()
    place = conversation.place(session, version)
    assert place is not None
    return conversation.read(session, place, **bounds)


def entries(found: Conversation) -> list[Entry]:
    return [item for item in found.items if isinstance(item, Entry)]


def cards(found: Conversation) -> list[CallCard]:
    pending = [item for item in found.items if isinstance(item, CallCard)]
    return [part for entry in entries(found) for part in entry.parts if isinstance(part, CallCard)] + pending


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def test_messages_name_the_version_and_the_run_that_brought_them(session: Session) -> None:
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


def test_a_result_is_shown_with_its_call(session: Session) -> None:
    asks(session)
    answers(session)
    make_checkpoint(session=session)
    found = read(session)
    assert [entry.position for entry in entries(found)] == [0]
    card = cards(found)[0]
    assert card.result == Result("call_1", (Text("done"),))
    assert card.result_position == 1


def test_a_call_knows_what_the_log_says_about_it(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    asks(session)
    make_checkpoint(session=session)
    call = logged(session, step=2, result="done", settled_at=THEN + timedelta(milliseconds=210), replay_count=2)
    make_decision(call=call, reason="Seen.")
    make_late_result(call=call, result="late")
    record = cards(read(session))[0].record
    assert record is not None
    assert (record.pk, record.result, record.replays, record.run_number) == (call.pk, "done", 2, 1)
    assert record.duration == timedelta(milliseconds=210)
    assert [(ruling.label, ruling.actor, ruling.reason) for ruling in record.rulings] == [
        ("It happened", "alice", "Seen.")
    ]
    assert [(late.success, late.result) for late in record.late] == [(True, "late")]


def test_an_interrupted_call_has_no_duration(session: Session) -> None:
    call = logged(session, status=CallStatus.INTERRUPTED, settled_at=THEN + timedelta(hours=1))
    card = cards(read(session))[0]
    assert card.record is not None
    assert (card.record.pk, card.record.duration) == (call.pk, None)


def test_attempts_of_a_call_stand_together(session: Session) -> None:
    asks(session)
    make_checkpoint(session=session)
    first = logged(session, step=1, status=CallStatus.SUPERSEDED)
    second = logged(session, step=1, attempt=2, supersedes=first)
    assert [record.pk for record in cards(read(session))[0].attempts] == [first.pk, second.pk]


def test_a_reused_call_id_finds_the_call_of_its_own_step(session: Session) -> None:
    calls = []
    for _ in range(3):
        asks(session)
        make_checkpoint(session=session)
        calls.append(logged(session, step=session.latest_version))
        answers(session)
        make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk for call in calls]


def test_a_call_saved_after_it_ran_finds_its_row(session: Session) -> None:
    calls = []
    for turn in range(3):
        calls.append(logged(session, step=turn))
        asks(session)
        answers(session)
        make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk for call in calls]


def test_a_reused_call_id_with_other_arguments_is_another_call(session: Session) -> None:
    asks(session, args={"order": 1})
    asks(session, args={"order": 2})
    make_checkpoint(session=session)
    second = logged(session, step=1, args={"order": 2})
    first = logged(session, step=2, args={"order": 1})
    assert [card.attempts[0].pk for card in cards(read(session))] == [first.pk, second.pk]


def test_a_call_of_another_tool_is_not_mistaken_for_it(session: Session) -> None:
    asks(session, tool="look")
    make_checkpoint(session=session)
    logged(session, tool="pay", step=0)
    assert cards(read(session))[0].attempts == ()


def test_a_replayed_call_shows_the_row_it_was_answered_from(session: Session) -> None:
    asks(session)
    make_checkpoint(session=session)
    call = logged(session, step=1, replay_count=1)
    answers(session)
    make_checkpoint(session=session)
    asks(session)
    make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk, call.pk]


def test_calls_that_no_message_names_yet_stand_at_the_end(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    old = logged(session, "old", step=0)
    settled = logged(session, "settled", step=1)
    running = logged(session, "running", step=1, status=CallStatus.ISSUED)
    unknown = logged(session, "unknown", step=0, status=CallStatus.INTERRUPTED)
    pending = [item.attempts[0].pk for item in read(session).items if isinstance(item, CallCard)]
    assert pending == [settled.pk, running.pk, unknown.pk]
    assert old.pk not in pending


def test_calls_of_now_do_not_belong_to_an_older_version(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    logged(session, step=2, status=CallStatus.ISSUED)
    assert cards(read(session, 1)) == []
    assert len(cards(read(session))) == 1


def test_a_lost_run_is_drawn_where_the_next_one_goes_on(session: Session) -> None:
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


def test_runs_that_wrote_nothing_are_named_too(session: Session) -> None:
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


def test_an_edit_is_drawn_where_it_begins(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=1)
    session.save()
    make_messages(session=session, texts=["B"])
    make_checkpoint(session=session)
    assert [item for item in read(session).items if not isinstance(item, Entry)] == [Rewrite(2, forked=False)]
    assert [item.kind for item in read(session, 1).items] == ["message", "message"]


def test_a_fork_is_drawn_where_it_leaves_its_origin(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    forked = make_session()
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


def test_the_newest_messages_are_sent_first(session: Session) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    found = read(session)
    assert (found.first, found.upto, found.earlier, found.later) == (150, 250, True, False)
    before = read(session, upto=found.first)
    assert (before.first, before.upto, before.earlier, before.later) == (50, 150, True, True)
    assert read(session, first=0).upto == 100
    assert (read(session, upto=10).first, read(session, upto=10).upto) == (0, 10)


def test_a_window_never_parts_a_result_from_its_call(session: Session) -> None:
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


def test_bounds_beyond_the_transcript_are_empty(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    assert read(session, first=5, upto=9).items == ()
    assert read(session, upto=0).items == ()


def test_an_empty_session_has_an_empty_conversation() -> None:
    assert read(make_session()).items == ()


def test_a_version_that_does_not_exist_has_no_place(session: Session) -> None:
    make_checkpoint(session=session)
    assert conversation.place(session, 99) is None
    assert conversation.place(session, 0) is None


def test_around_a_call_is_the_end_of_what_was_said_when_it_was_issued(session: Session) -> None:
    make_messages(session=session, texts=["a", "b", "c"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["later"])
    make_checkpoint(session=session)
    found = conversation.around(session, 1, size=2)
    assert found is not None
    assert [entry.parts for entry in entries(found)] == [(Text("b"),), (Text("c"),)]
    assert conversation.around(session, 0) is None


@pytest.mark.parametrize("turns", [1, 3, 30])
def test_reading_takes_the_same_number_of_queries_however_long_it_is(
    session: Session, turns: int, django_assert_num_queries: Queries
) -> None:
    for turn in range(turns):
        asks(session, f"c{turn}")
        make_checkpoint(session=session)
        make_decision(call=logged(session, f"c{turn}", step=turn + 1))
        answers(session, f"c{turn}")
        make_checkpoint(session=session)
    session.refresh_from_db()
    place = conversation.place(session)
    assert place is not None
    with django_assert_num_queries(7):
        conversation.read(session, place)
