"""Repeated imports: of unchanged, longer and concurrent transcripts, and of sessions an agent has continued."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from checkpoints import SyncCheckpointer
from checkpoints.enums import CallStatus, SessionStatus
from checkpoints.importers import ImportProgress, ImportRefused, import_transcripts
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.models import ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.importers.stored_rows import all_rows, session, texts, write_turn
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter


def test_later_result_settles_the_call(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    import_transcripts(cp, transcript_writer.path)
    transcript_writer.result("call_1", "paid")
    report = import_transcripts(cp, transcript_writer.path)
    call = ToolCall.objects.get()
    assert (call.status, call.result_text, call.sentence) == (CallStatus.COMPLETED, "paid", "")
    assert (report.new_messages, report.new_calls, report.unanswered) == (1, 0, 0)
    assert session().status == SessionStatus.COMPLETED


def test_second_import_changes_nothing(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    write_turn(transcript_writer, 1)
    transcript_writer.calls("call_9", "Bash", {}, message="msg_9")
    transcript_writer.note("last-prompt", lastPrompt="Question 1")
    import_transcripts(cp, transcript_writer.path)
    before = all_rows()
    report = import_transcripts(cp, transcript_writer.path)
    assert all_rows() == before
    assert (report.new_sessions, report.new_messages, report.new_calls, report.new_versions) == (0, 0, 0, 0)
    assert (report.sessions, report.messages, report.calls, report.unanswered) == (1, 5, 2, 1)


def test_later_import_adds_new_messages(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    write_turn(transcript_writer, 1)
    import_transcripts(cp, transcript_writer.path)
    first = texts(cp)
    write_turn(transcript_writer, 2)
    report = import_transcripts(cp, transcript_writer.path)
    assert texts(cp)[: len(first)] == first
    assert (report.new_messages, report.new_versions) == (4, 1)
    assert session().total_tokens == 4 * 122
    assert session().runs.count() == 1


@pytest.mark.parametrize("cut", range(1, 11))
def test_import_in_two_parts_equals_one_import(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, tmp_path: Path, cut: int
) -> None:
    write_turn(transcript_writer, 1)
    write_turn(transcript_writer, 2)
    lines = transcript_writer.path.read_text().splitlines(keepends=True)
    growing = tmp_path / "growing" / transcript_writer.path.name
    growing.parent.mkdir()
    growing.write_text("".join(lines[:cut]))
    import_transcripts(cp, growing)
    growing.write_text("".join(lines))
    import_transcripts(cp, growing)
    spread = [content if isinstance(content, list) else [content] for content in texts(cp)]
    said = [block for content in spread for block in content]
    wanted = [json.loads(line)["message"]["content"] for line in lines]
    assert said == [block for content in wanted for block in (content if isinstance(content, list) else [content])]
    assert session().total_tokens == 4 * 122
    assert {call.status for call in ToolCall.objects.all()} == {CallStatus.COMPLETED}


def test_same_uuid_with_other_content_is_another_message(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    line = transcript_writer.user("One")
    transcript_writer.write({**line, "message": {"role": "user", "content": "Two"}})
    for _ in range(2):
        import_transcripts(cp, transcript_writer.path)
        assert texts(cp) == ["One", "Two"]


def test_session_not_created_by_an_import_is_not_changed(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    cp.start_session(SESSION)
    transcript_writer.user("Hello")
    with pytest.raises(ImportRefused, match="it was not imported"):
        import_transcripts(cp, transcript_writer.path)


def test_agent_that_takes_the_session_during_the_import_keeps_it(
    cp: SyncCheckpointer, open_checkpointer: Open, transcript_writer: TranscriptWriter
) -> None:
    agent = open_checkpointer()
    for number in range(700):
        transcript_writer.user(f"Question {number}" + "." * 1000)

    def take(progress: ImportProgress) -> None:
        if progress.report.new_versions:
            agent.resume(SESSION)

    with pytest.raises(ImportOvertaken):
        import_transcripts(cp, transcript_writer.path, progress=take)
    point = agent.resume(SESSION)
    agent.save_checkpoint(SESSION, [*point.transcript, {"role": "user", "content": "Mine"}], None, 0)


def test_fork_continues_after_the_imported_transcript(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    write_turn(transcript_writer, 1)
    import_transcripts(cp, transcript_writer.path)
    cp.fork_session(SESSION, "mine")
    point = cp.resume("mine")
    assert [message["role"] for message in point.transcript] == ["user", "assistant", "user", "assistant"]
    assert point.replayable == {}


def test_fork_needs_no_decision_about_an_imported_call_without_a_result(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    import_transcripts(cp, transcript_writer.path)
    cp.fork_session(SESSION, "mine")
    point = cp.resume("mine")
    assert (point.replayable, len(point.transcript)) == ({}, 2)


def test_fork_of_a_growing_transcript_has_the_answered_calls_of_its_messages(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.live, transcript_writer.start = True, timezone.now() - timedelta(minutes=2)
    write_turn(transcript_writer, 1)
    transcript_writer.user("Pay")
    transcript_writer.calls("call_paid", "Bash", {"command": "pay"}, message="msg_paid")
    transcript_writer.result("call_paid", "paid")
    transcript_writer.calls("call_open", "Bash", {"command": "mail"}, message="msg_open")
    import_transcripts(cp, transcript_writer.path)
    assert ToolCall.objects.get(call_id="call_open").status == CallStatus.ISSUED
    cp.fork_session(SESSION, "all")
    cp.fork_session(SESSION, "first", version=1)
    assert {
        name: list(ToolCall.objects.filter(session__session_id=name).values_list("call_id", flat=True))
        for name in ("all", "first")
    } == {"all": ["call_1", "call_paid"], "first": ["call_1"]}
    assert cp.resume("all").replayable == {}
