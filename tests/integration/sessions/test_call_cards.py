"""Call cards of a conversation with data of the call log."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.formats.parse_message_parts import ResultPart, TextPart
from checkpoints.formats.stored_result_sentence import build_stored_result_sentence
from checkpoints.models import Message, Run, Session, ToolCall
from harness_site.sessions.selectors.conversation_window import CallCard
from tests.integration.sessions.conversation_samples import answers, asks, cards, entries, logged, read
from tests.support.factories import THEN, make_checkpoint, make_decision, make_late_result, make_message, make_messages
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_result_is_shown_with_its_call(session: Session) -> None:
    asks(session)
    answers(session)
    make_checkpoint(session=session)
    found = read(session)
    assert [entry.position for entry in entries(found)] == [0]
    card = cards(found)[0]
    assert card.result == ResultPart("call_1", (TextPart("done"),))
    assert card.result_position == 1


def test_card_shows_the_logged_call(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    asks(session)
    make_checkpoint(session=session)
    call = logged(session, step=2, result="done", settled_at=THEN + timedelta(milliseconds=210), replay_count=2)
    make_decision(call=call, reason="Seen.")
    make_late_result(call=call, result="late")
    record = cards(read(session))[0].newest_attempt
    assert record is not None
    assert (record.pk, record.result, record.replays, record.run_number) == (call.pk, "done", 2, 1)
    assert record.duration == timedelta(milliseconds=210)
    assert [(ruling.kind, ruling.actor, ruling.reason) for ruling in record.rulings] == [
        ("confirm_landed", "alice", "Seen.")
    ]
    assert [(late.success, late.result) for late in record.late] == [(True, "late")]


def test_interrupted_call_has_no_duration(session: Session) -> None:
    call = logged(session, status=CallStatus.INTERRUPTED, settled_at=THEN + timedelta(hours=1))
    card = cards(read(session))[0]
    assert card.newest_attempt is not None
    assert (card.newest_attempt.pk, card.newest_attempt.duration) == (call.pk, None)


@pytest.mark.parametrize(("side_effects", "duration"), [("mutate", timedelta()), ("imported", None)])
def test_call_that_ended_at_its_start_has_a_duration_unless_it_was_imported(
    session: Session, side_effects: str, duration: timedelta | None
) -> None:
    asks(session)
    make_checkpoint(session=session)
    logged(session, step=1, status=CallStatus.COMPLETED, settled_at=THEN, side_effects=side_effects)
    record = cards(read(session))[0].newest_attempt
    assert record is not None
    assert record.duration == duration


def test_attempts_of_a_call_are_grouped(session: Session) -> None:
    asks(session)
    make_checkpoint(session=session)
    first = logged(session, step=1, status=CallStatus.SUPERSEDED)
    second = logged(session, step=1, attempt=2, supersedes=first)
    assert [record.pk for record in cards(read(session))[0].attempts] == [first.pk, second.pk]


def test_reused_call_id_is_matched_by_step(session: Session) -> None:
    calls = []
    for _ in range(3):
        asks(session)
        make_checkpoint(session=session)
        calls.append(logged(session, step=session.latest_version))
        answers(session)
        make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk for call in calls]


def test_call_saved_after_it_ran_is_matched(session: Session) -> None:
    calls = []
    for turn in range(3):
        calls.append(logged(session, step=turn))
        asks(session)
        answers(session)
        make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk for call in calls]


def test_reused_call_id_with_other_arguments_is_another_call(session: Session) -> None:
    asks(session, args={"order": 1})
    asks(session, args={"order": 2})
    make_checkpoint(session=session)
    second = logged(session, step=1, args={"order": 2})
    first = logged(session, step=2, args={"order": 1})
    assert [card.attempts[0].pk for card in cards(read(session))] == [first.pk, second.pk]


def test_call_of_another_tool_is_not_matched(session: Session) -> None:
    asks(session, tool="look")
    make_checkpoint(session=session)
    logged(session, tool="pay", step=0)
    assert cards(read(session))[0].attempts == ()


def test_replayed_call_shows_the_original_row(session: Session) -> None:
    asks(session)
    make_checkpoint(session=session)
    call = logged(session, step=1, replay_count=1)
    answers(session)
    make_checkpoint(session=session)
    asks(session)
    make_checkpoint(session=session)
    assert [card.attempts[0].pk for card in cards(read(session))] == [call.pk, call.pk]


def test_calls_without_a_message_are_at_the_end(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    old = logged(session, "old", step=0)
    settled = logged(session, "settled", step=1)
    running = logged(session, "running", step=1, status=CallStatus.ISSUED)
    unknown = logged(session, "unknown", step=0, status=CallStatus.INTERRUPTED)
    pending = [item.attempts[0].pk for item in read(session).items if isinstance(item, CallCard)]
    assert pending == [settled.pk, running.pk, unknown.pk]
    assert old.pk not in pending


def test_current_calls_are_not_shown_in_an_older_version(session: Session) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    logged(session, step=2, status=CallStatus.ISSUED)
    assert cards(read(session, 1)) == []
    assert len(cards(read(session))) == 1


def asks_again(session: Session, fillers: int = 0) -> tuple[int, ToolCall]:
    """Make a call whose stored result answers a second one. Return the position of that, and the call."""
    asks(session, "first")
    make_checkpoint(session=session)
    call = logged(session, "first", step=1, replay_count=1, status=CallStatus.COMPLETED, result="done")
    answers(session, "first")
    make_messages(session=session, texts=["filler"] * fillers)
    asks(session, "again")
    make_messages(session=session, texts=["between"])  # of a hook
    block = {"kind": "tool_result", "call_id": "again", "content": "not made again: done", "is_error": True}
    make_message(session=session, role="tool", blocks=[block])
    make_checkpoint(session=session, run=Run.objects.get(session=session))
    return 2 + fillers, call


def test_call_answered_with_a_stored_result_is_not_an_execution(session: Session) -> None:
    position, call = asks_again(session)
    first, again = cards(read(session))
    assert (first.stored_result_use, first.positions_given_again) == (None, (position,))
    assert again.attempts[0].pk == call.pk
    use = again.stored_result_use
    assert use is not None
    assert (use.first_position, use.version, use.run_number) == (0, 2, 1)
    assert (again.has_failed, again.has_error, again.positions_given_again) == (False, False, ())


def test_call_answered_with_a_stored_result_finds_the_first_one_before_its_window(session: Session) -> None:
    position, _call = asks_again(session, fillers=60)
    (again,) = cards(read(session, first=position))
    assert again.stored_result_use is not None
    assert again.stored_result_use.first_position == 0


def test_only_appearance_of_a_replayed_call_is_the_execution(session: Session) -> None:
    """A run that died did not save what the model asked for; the next one asks again under another id."""
    logged(session, "never-saved", step=0, replay_count=1)
    asks(session, "again")
    make_checkpoint(session=session)
    (card,) = cards(read(session))
    assert (len(card.attempts), card.stored_result_use) == (1, None)


def test_refusal_that_gave_the_result_of_a_call_without_a_message_is_no_error(session: Session, reader: Client) -> None:
    """A framework refuses the call to give the stored result to the model, so that the result is an error there."""
    call = logged(session, "never-saved", step=0, replay_count=1, status=CallStatus.COMPLETED, result="refunded 40")
    asks(session, "again")
    make_messages(session=session, texts=["hook for again"])
    block = {"kind": "tool_result", "call_id": "again", "content": "hook error: refunded 40", "is_error": True}
    make_message(session=session, role="tool", blocks=[block])
    make_checkpoint(session=session)
    (card,) = cards(read(session))
    assert (card.has_failed, card.has_error) == (False, False)
    page = reader.get(f"/sessions/{session.pk}/")
    assert b"res failed" not in page.content
    assert "Result refunded 40 What the framework told the model hook error: refunded 40" in visible_text(page)
    record = reader.get(f"/sessions/{session.pk}/calls/{call.pk}/")
    spot = "v1, message 1 asked again with the id again; no saved message has the first request"
    assert f"In the transcript {spot}" in visible_text(record)
    assert f'href="/sessions/{session.pk}/?at=0#m-0"' in record.content.decode()


def test_reused_id_before_the_window_is_another_call(session: Session) -> None:
    asks(session)
    answers(session)
    make_checkpoint(session=session)
    make_messages(session=session, texts=["filler"] * 60)
    make_checkpoint(session=session)
    asks(session)
    make_checkpoint(session=session)
    logged(session, step=3, replay_count=1)
    (card,) = cards(read(session, first=62))
    assert (len(card.attempts), card.stored_result_use) == (1, None)


def test_transcript_and_record_say_that_a_stored_result_was_given_again(session: Session, reader: Client) -> None:
    position, call = asks_again(session)
    page = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert page.count("Not run again") == 1
    assert f'href="/sessions/{session.pk}/?v=2&amp;at=0#m-0">the call in message 1</a>' in page
    assert f'href="/sessions/{session.pk}/?v=2&amp;at={position}#m-{position}">the call in message 3</a>' in page
    assert "res failed" not in page
    assert page.count(f'id="call-{call.pk}"') == 1
    record = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert re.search(r"Stored result given again [^—]+ — run 1, message 3 nothing ran for that call", record)
    export = reader.get(f"/sessions/{session.pk}/export/print/")
    body = b"".join(export.streaming_content) if export.streaming else export.content  # type: ignore[attr-defined]
    assert b'href="#m-0">the call in message 1</a>' in body


def test_words_of_a_hook_that_gave_a_stored_result_are_a_line_of_the_system(session: Session, reader: Client) -> None:
    """Claude Code stores the words of the hook as a message of the agent."""
    raw = f"PreToolUse:mcp__shop__refund hook error: {build_stored_result_sentence('refunded 40')}"
    stored = make_message(session=session, role="assistant", text=raw)
    make_message(session=session, role="assistant", text="PreToolUse:Bash hook error: not allowed")
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/")
    words = visible_text(response)
    assert re.search(rf"System [^—]*Stored result given to the agent refunded 40 {re.escape(raw)}", words)
    assert re.search(r"Agent [^—]*PreToolUse:Bash hook error: not allowed", words)
    assert '<article class="msg system" id="m-0">' in response.content.decode()
    assert Message.objects.get(pk=stored.pk).body == stored.body
    versions = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "hook error: The call" not in versions
