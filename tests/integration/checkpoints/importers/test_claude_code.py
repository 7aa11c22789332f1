"""Imported Claude Code transcripts: messages, versions, calls and costs in the store."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, RunStatus, SessionStatus
from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.importers import import_transcripts, transcript_recorder
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import CallCard, MessageEntry, Rewrite
from tests.integration.checkpoints.importers.stored_rows import session, texts, write_turn
from tests.integration.checkpoints.importers.transcript_writer import SESSION, THEN, TranscriptWriter


def test_conversation_is_imported_as_a_session(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    write_turn(transcript_writer, 1)
    write_turn(transcript_writer, 2)
    report = import_transcripts(cp, transcript_writer.path)
    row = session()
    assert (row.title, row.agent, row.status) == ("Question 1", "claude-code", SessionStatus.COMPLETED)
    assert (row.latest_version, row.message_count) == (2, 8)
    assert row.total_tokens == 4 * 122
    assert row.created_at == THEN + timedelta(seconds=1)
    assert (report.sessions, report.messages, report.calls, report.unanswered) == (1, 8, 2, 0)
    assert report.session_ids == [SESSION]
    assert texts(cp)[1] == [
        {"type": "text", "text": "Looking at 1."},
        {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file": "1.py"}},
    ]
    run = row.runs.get()
    assert (run.code_version, run.status) == ("claude-code 2.1.12", RunStatus.COMPLETED)
    assert run.ended_at == THEN + timedelta(seconds=10)


def test_metadata_of_a_line_is_stored_with_its_message(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Hello", thinkingMetadata={"level": "high"})
    import_transcripts(cp, transcript_writer.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    (line,) = loaded["transcript"][0]["source"]["lines"]
    assert line["thinkingMetadata"] == {"level": "high"}
    assert line["cwd"] == "/srv/shop"
    assert line["message"] == {"role": "user"}


def test_imported_session_page_shows_the_conversation(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    write_turn(transcript_writer, 1)
    import_transcripts(cp, transcript_writer.path)
    place = conversation_window.find_transcript_version(session())
    assert place is not None
    user, agent, last = conversation_window.load_conversation_window(session(), place).items
    assert isinstance(user, MessageEntry)
    assert isinstance(agent, MessageEntry)
    assert isinstance(last, MessageEntry)
    text, card = agent.parts
    assert text.kind == "text"
    assert isinstance(card, CallCard)
    assert card.result is not None
    assert card.newest_attempt is not None
    assert (card.newest_attempt.status, card.newest_attempt.result) == (CallStatus.COMPLETED, "content 1")
    assert card.newest_attempt.duration == timedelta(seconds=1)
    assert [part.kind for part in last.parts] == ["text"]


def test_usage_repeated_on_lines_of_a_message_counts_once(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Hello")
    transcript_writer.says("one", message="msg_1", usage={"input_tokens": 10, "output_tokens": 1})
    transcript_writer.says("two", message="msg_1", usage={"input_tokens": 10, "output_tokens": 50})
    import_transcripts(cp, transcript_writer.path)
    counts = {"input_tokens": 10, "output_tokens": 50}
    usage = json.loads(Checkpoint.objects.get().usage or "")
    assert usage == {**counts, "total_tokens": 60, "by_model": {"claude-x": counts}}


@pytest.mark.parametrize(
    ("stop_reasons", "is_incomplete"), [((None, None), True), ((None, "end_turn"), False), (("end_turn",), False)]
)
def test_usage_is_incomplete_if_no_line_of_a_message_has_the_reason_of_its_end(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, stop_reasons: tuple[str | None, ...], is_incomplete: bool
) -> None:
    transcript_writer.user("Write a poem")
    for reason in stop_reasons:
        counts = {"input_tokens": 10, "output_tokens": 300 if reason else 2}
        answer = {"id": "msg_1", "role": "assistant", "model": "claude-x", "usage": counts, "stop_reason": reason}
        block = {"type": "text", "text": "a line"}
        transcript_writer.line(type="assistant", message={**answer, "content": [block]}, requestId="req_1")
    import_transcripts(cp, transcript_writer.path)
    usage = json.loads(Checkpoint.objects.get().usage or "")
    assert usage.get("is_incomplete", False) == is_incomplete
    assert usage["output_tokens"] == (2 if is_incomplete else 300)


def test_stated_costs_are_summed(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Hello")
    transcript_writer.says("one", message="msg_1", costUSD=0.1)
    transcript_writer.says("two", message="msg_2", costUSD=0.2)
    import_transcripts(cp, transcript_writer.path)
    assert session().budget_spent_usd == Decimal("0.3")


def test_failed_call_has_status_failed(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Hello")
    transcript_writer.calls("call_1", "Bash", {"command": "false"}, message="msg_1")
    transcript_writer.result("call_1", [{"type": "text", "text": "exit 1"}], is_error=True)
    import_transcripts(cp, transcript_writer.path)
    call = ToolCall.objects.get()
    assert (call.status, call.result_text, call.settled_at) == (
        CallStatus.FAILED,
        "exit 1",
        THEN + timedelta(seconds=3),
    )


def test_parallel_calls_are_paired_with_their_results(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Hello")
    first = transcript_writer.calls("call_1", "Read", {"file": "a"}, message="msg_1")
    second = transcript_writer.calls("call_2", "Read", {"file": "b"}, message="msg_1")
    transcript_writer.result("call_2", "b", parentUuid=second["uuid"])
    transcript_writer.result("call_1", "a", parentUuid=first["uuid"])
    transcript_writer.says("Both read.", message="msg_2")
    import_transcripts(cp, transcript_writer.path)
    results = {call.call_id: call.result_text for call in ToolCall.objects.all()}
    assert results == {"call_1": "a", "call_2": "b"}
    assert session().message_count == 5


def test_call_without_a_result_needs_no_decision(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    report = import_transcripts(cp, transcript_writer.path)
    call = ToolCall.objects.get()
    assert call.status == CallStatus.DISCARDED
    assert call.sentence.startswith("The imported file has no result of this call.")
    assert not call.has_side_effects
    assert report.unanswered == 1
    assert session().status == SessionStatus.CANCELLED
    assert cp.pending_tool_calls(SESSION) == []
    assert not ToolCall.objects.filter(status__in=UNDECIDED_CALL_STATUSES).exists()
    place = conversation_window.find_transcript_version(session())
    assert place is not None
    items = conversation_window.load_conversation_window(session(), place).items
    assert [item.kind for item in items] == ["message", "message"]


def test_messages_replaced_by_an_edited_prompt_stay_in_earlier_versions(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("One")
    answer = transcript_writer.says("Answer one", message="msg_1")
    transcript_writer.user("Two")
    transcript_writer.says("Answer two", message="msg_2")
    transcript_writer.user("Two, but better", parentUuid=answer["uuid"])
    transcript_writer.says("Better answer", message="msg_3")
    import_transcripts(cp, transcript_writer.path)
    assert [content if isinstance(content, str) else content[0]["text"] for content in texts(cp)] == [
        "One",
        "Answer one",
        "Two, but better",
        "Better answer",
    ]
    assert len(cp.load(SESSION, 2)["transcript"]) == 4
    assert Segment.objects.count() == 2


def test_prompt_that_continues_from_a_note_of_the_program_is_an_edit(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Pay")
    transcript_writer.says("Paid.", message="msg_1")
    transcript_writer.line(type="system", subtype="stop_hook_summary")
    note = transcript_writer.line(type="system", subtype="turn_duration")
    transcript_writer.user("Refund it")
    transcript_writer.says("Refunded.", message="msg_2")
    transcript_writer.user("Send a receipt", parentUuid=note["uuid"])
    import_transcripts(cp, transcript_writer.path)
    newest = cp.load_latest(SESSION)
    assert newest is not None
    texts = [body["content"] if isinstance(body["content"], str) else "Paid." for body in newest["transcript"]]
    assert texts == ["Pay", "Paid.", "Send a receipt"]
    assert cp.load(SESSION, newest["version"] - 1)["transcript"][-1]["role"] == "assistant"
    assert import_transcripts(cp, transcript_writer.path).new_messages == 0


def test_prompt_after_the_last_note_of_the_program_is_no_edit(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    for number in range(3):
        transcript_writer.user(f"Prompt {number}")
        transcript_writer.says("Done.", message=f"msg_{number}")
        transcript_writer.line(type="system", subtype="turn_duration")
    import_transcripts(cp, transcript_writer.path)
    newest = cp.load_latest(SESSION)
    assert newest is not None
    assert len(newest["transcript"]) == 6


def test_results_stay_with_the_calls_before_an_edit(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("One")
    call = transcript_writer.calls("call_1", "Read", {}, message="msg_1")
    transcript_writer.result("call_1", "a")
    transcript_writer.says("Answer", message="msg_2")
    transcript_writer.user("Two", parentUuid=call["uuid"])
    import_transcripts(cp, transcript_writer.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    assert [message["id"] for message in loaded["transcript"]] == ["u1", "u2", "u3", "u5"]


def test_results_of_parallel_calls_do_not_start_a_branch(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("One")
    call = transcript_writer.calls("call_1", "Read", {}, message="msg_1")
    transcript_writer.calls("call_2", "Read", {}, message="msg_1")
    transcript_writer.result("call_1", "a", parentUuid=call["uuid"])
    transcript_writer.result("call_2", "b")
    transcript_writer.user("Go on")
    import_transcripts(cp, transcript_writer.path)
    assert Segment.objects.count() == 1


def test_compaction_starts_a_new_segment(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    write_turn(transcript_writer, 1)
    transcript_writer.compaction("This session is being continued. Summary: one question.")
    write_turn(transcript_writer, 2)
    import_transcripts(cp, transcript_writer.path)
    place = conversation_window.find_transcript_version(session())
    assert place is not None
    items = conversation_window.load_conversation_window(session(), place).items
    assert isinstance(items[0], Rewrite)
    assert items[0].compacted
    boundary, summary = items[1], items[2]
    assert isinstance(boundary, MessageEntry)
    assert isinstance(summary, MessageEntry)
    assert (boundary.role, summary.role) == ("system", "system")
    assert session().message_count == 6
    assert len(cp.load(SESSION, 1)["transcript"]) == 4
    assert session().title == "Question 1"


def _keep(anchor: str, *uuids: str) -> dict[str, Any]:
    """Build the facts of a compaction that keeps messages."""
    segment = {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}
    return {"preservedSegment": segment, "preservedMessages": {"anchorUuid": anchor, "uuids": [*uuids]}}


def _write_four_messages(transcript_writer: TranscriptWriter) -> None:
    for number in (1, 2):
        transcript_writer.user(f"Question {number}")
        transcript_writer.says(f"Answer {number}", message=f"msg_{number}")


def _list_transcript_ids(cp: SyncCheckpointer) -> list[str]:
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    return [message["id"] for message in loaded["transcript"]]


def test_messages_that_a_compaction_keeps_follow_its_summary(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("One")
    transcript_writer.calls("call_1", "Read", {}, message="msg_1", usage={"input_tokens": 10})
    transcript_writer.result("call_1", "a")
    transcript_writer.compaction("Summary.", kept=["u2", "u3"])
    transcript_writer.user("Two")
    transcript_writer.says("Done.", message="msg_2", usage={"input_tokens": 20})
    report = import_transcripts(cp, transcript_writer.path)
    assert _list_transcript_ids(cp) == ["u4", "u5", "u2", "u3", "u6", "u7"]
    before, after = cp.load(SESSION, 1)["transcript"], cp.load(SESSION, 2)["transcript"]
    assert [message["id"] for message in before] == ["u1", "u2", "u3"]
    assert [message["id"] for message in after] == ["u4", "u5", "u2", "u3"]
    assert [message["content"] for message in after[2:]] == [message["content"] for message in before[1:]]
    assert [message["created_at"] for message in after[2:]] == [message["created_at"] for message in before[1:]]
    assert [call.call_id for call in ToolCall.objects.all()] == ["call_1"]
    assert session().total_tokens == 30
    assert (report.messages, report.new_messages, report.calls, report.new_calls) == (7, 7, 1, 1)
    again = import_transcripts(cp, transcript_writer.path)
    assert (again.new_messages, again.new_versions, again.new_calls) == (0, 0, 0)
    assert _list_transcript_ids(cp) == ["u4", "u5", "u2", "u3", "u6", "u7"]
    transcript_writer.compaction("Summary of both.", kept=["u2", "u7"])
    assert import_transcripts(cp, transcript_writer.path).new_messages == 2
    assert _list_transcript_ids(cp) == ["u8", "u9", "u2", "u7"]
    block = cp.load(SESSION, 4)["transcript"][0]["content"][-1]
    assert (block["kind"], block["messages_before"]) == ("compaction", 6)


@pytest.mark.parametrize("lines", range(1, 9))
def test_kept_messages_follow_the_summary_wherever_an_import_ended_before(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, lines: int
) -> None:
    _write_four_messages(transcript_writer)
    transcript_writer.compaction("Summary.", kept=["u3", "u4"])
    transcript_writer.user("Two")
    transcript_writer.says("Done.", message="msg_3")
    text = transcript_writer.path.read_text()
    transcript_writer.path.write_text("".join(text.splitlines(keepends=True)[:lines]))
    import_transcripts(cp, transcript_writer.path)
    transcript_writer.path.write_text(text)
    import_transcripts(cp, transcript_writer.path)
    assert _list_transcript_ids(cp) == ["u5", "u6", "u3", "u4", "u7", "u8"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"preservedSegment": _keep("u6", "u2", "u4")["preservedSegment"]}, ["u5", "u6", "u2", "u3", "u4", "u7"]),
        (_keep("u5", "u4"), ["u5", "u4", "u6", "u7"]),
        (_keep("elsewhere", "u4"), ["u5", "u6", "u4", "u7"]),
        (_keep("u6", "elsewhere", "u5", "u6", "u7"), ["u5", "u6", "u7"]),
        (_keep("u6", "u4", "u1", "u4"), ["u5", "u6", "u4", "u1", "u7"]),
        ({"preservedMessages": ["u4"], "preservedSegment": "u4"}, ["u5", "u6", "u7"]),
        ({"preservedMessages": {"uuids": [["u4"], None]}}, ["u5", "u6", "u7"]),
        ({"preservedSegment": {"headUuid": "u4", "tailUuid": 1}}, ["u5", "u6", "u7"]),
    ],
)
def test_kept_messages_follow_the_line_that_the_compaction_names(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, facts: dict[str, Any], expected: list[str]
) -> None:
    _write_four_messages(transcript_writer)
    transcript_writer.compaction("Summary.", **facts)
    transcript_writer.user("Two")
    import_transcripts(cp, transcript_writer.path)
    assert _list_transcript_ids(cp) == expected
    assert import_transcripts(cp, transcript_writer.path).new_messages == 0


def test_a_kept_message_that_was_altered_in_the_database_is_not_repeated(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    _write_four_messages(transcript_writer)
    import_transcripts(cp, transcript_writer.path)
    body = Message.objects.get(message_id="u4").body
    Message.objects.filter(message_id="u4").update(body=body.replace("Answer", "Advice"))
    transcript_writer.compaction("Summary.", kept=["u4"])
    with pytest.raises(CheckpointCorrupted):
        import_transcripts(cp, transcript_writer.path)


def test_compactions_that_keep_a_large_message_again_and_again_do_not_multiply_it(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_recorder, "MAX_BUFFERED_CHARACTERS", 100_000)
    transcript_writer.user("large" * 10_000)
    for _ in range(20):
        transcript_writer.compaction("Summary.", kept=["u1"])
    import_transcripts(cp, transcript_writer.path)
    assert sum(len(message.body) for message in Message.objects.all()) < 250_000
    assert "u1" in [message["id"] for message in cp.load(SESSION, 3)["transcript"]]


def test_only_the_kept_lines_of_a_message_follow_the_summary(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("One")
    transcript_writer.agent({"type": "thinking", "thinking": "Look."}, message="msg_1")
    transcript_writer.says("I look.", message="msg_1")
    transcript_writer.says("It is off.", message="msg_1")
    transcript_writer.compaction("Summary.", kept=["u3", "u4"])
    import_transcripts(cp, transcript_writer.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    assert [block.get("text") for block in loaded["transcript"][2]["content"]] == ["I look.", "It is off."]


def test_a_prompt_that_continues_from_a_kept_message_takes_back_what_follows(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    _write_four_messages(transcript_writer)
    transcript_writer.compaction("Summary.", kept=["u3", "u4"])
    transcript_writer.user("Two")
    transcript_writer.user("Three", parentUuid="u4")
    import_transcripts(cp, transcript_writer.path)
    assert _list_transcript_ids(cp) == ["u5", "u6", "u3", "u4", "u8"]


def test_summary_without_a_boundary_starts_a_new_segment(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    write_turn(transcript_writer, 1)
    transcript_writer.user("Summary: one question.", isCompactSummary=True)
    import_transcripts(cp, transcript_writer.path)
    assert session().message_count == 1


def test_repeated_lines_count_once(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    write_turn(transcript_writer, 1)
    line = json.loads(transcript_writer.path.read_text().splitlines()[0])
    transcript_writer.write({**line, "parentUuid": "elsewhere"})
    report = import_transcripts(cp, transcript_writer.path)
    assert (report.repeated, report.messages) == (1, 4)


def test_unknown_lines_and_blocks_are_shown_unchanged(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Hello")
    transcript_writer.line(type="holo-gram", depth={"of": 3})
    transcript_writer.agent({"type": "smell", "notes": ["pine"]}, message="msg_1")
    report = import_transcripts(cp, transcript_writer.path)
    assert report.unknown == {"line holo-gram": 1, "block smell": 1}
    assert texts(cp)[1:] == [[{"type": "holo-gram", "depth": {"of": 3}}], [{"type": "smell", "notes": ["pine"]}]]
    place = conversation_window.find_transcript_version(session())
    assert place is not None
    shown = [
        item.parts[0].kind
        for item in conversation_window.load_conversation_window(session(), place).items
        if isinstance(item, MessageEntry)
    ]
    assert shown == ["text", "other", "other"]


def test_notes_are_stored_with_the_next_message(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.note("file-history-snapshot", messageId="x", snapshot={"files": {}})
    transcript_writer.user("Hello")
    transcript_writer.note("queue-operation", operation="dequeue")
    import_transcripts(cp, transcript_writer.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    (message,) = loaded["transcript"]
    assert [note["type"] for note in message["source"]["before"]] == ["file-history-snapshot"]
    told = json.loads(session().metadata)["import"]
    assert [note["type"] for note in told["trailing_notes"]] == ["queue-operation"]


def test_long_turn_is_split_into_several_versions(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Go")
    for number in range(300):
        transcript_writer.calls(f"call_{number}", "Read", {"n": number}, message=f"msg_{number}")
        transcript_writer.result(f"call_{number}", str(number))
    import_transcripts(cp, transcript_writer.path)
    assert list(Checkpoint.objects.order_by("version").values_list("length", flat=True)) == [250, 500, 601]
    assert ToolCall.objects.filter(status=CallStatus.COMPLETED).count() == 300


def test_session_ends_with_its_newest_message(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Hello", timestamp=(THEN + timedelta(hours=1)).isoformat())
    transcript_writer.user("An older line that was written later", timestamp=THEN.isoformat())
    import_transcripts(cp, transcript_writer.path)
    row = session()
    assert (row.created_at, row.updated_at) == (THEN, THEN + timedelta(hours=1))


def test_title_has_no_tags_of_the_program(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    transcript_writer.user("Water the plants.<system-reminder>It is May.</system-reminder>")
    import_transcripts(cp, transcript_writer.path)
    assert session().title == "Water the plants."


def test_fork_counts_only_its_own_tokens(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    origin = {"sessionId": "earlier", "messageUuid": "x"}
    transcript_writer.user("Hello", forkedFrom=origin)
    transcript_writer.agent({"type": "text", "text": "Hi"}, message="m1", usage=usage, costUSD=0.5, forkedFrom=origin)
    transcript_writer.user("And now?")
    transcript_writer.agent({"type": "text", "text": "Now this."}, message="m2", usage=usage, costUSD=0.25)
    import_transcripts(cp, transcript_writer.path)
    row = Session.objects.get()
    assert (row.total_tokens, row.message_count, str(row.budget_spent_usd)) == (15, 4, "0.250000")
    assert json.loads(row.metadata)["forked_from"] == "earlier"


@pytest.mark.parametrize(
    "kind",
    [
        "api-request",
        "api-request-blob",
        "continued-in",
        "data-flow-records",
        "pr-link",
        "file-history-delta",
        "fork-context-ref",
        "bridge-session",
        "worktree-state",
    ],
)
def test_records_of_the_program_are_no_messages(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, kind: str
) -> None:
    transcript_writer.user("Hello")
    transcript_writer.note(kind, prNumber=7)
    transcript_writer.says("Hi", message="m1")
    report = import_transcripts(cp, transcript_writer.path)
    assert (report.messages, report.unknown) == (2, {})


def test_a_record_of_a_new_type_beside_the_conversation_is_no_message_and_is_counted(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.user("Hello")
    transcript_writer.note("moon-phase", phase="new")
    transcript_writer.says("Hi", message="m1")
    report = import_transcripts(cp, transcript_writer.path)
    assert (report.messages, report.unknown) == (2, {"line moon-phase": 1})
    assert (cp.load_latest(SESSION) or {})["transcript"][1]["source"]["before"][0]["phase"] == "new"


def test_attachments_that_the_model_was_given_are_messages_and_those_about_the_program_are_not(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    def attach(kind: str, **fields: Any) -> dict[str, Any]:
        return transcript_writer.line(type="attachment", attachment={"type": kind, **fields})

    transcript_writer.user("Look at @notes.txt")
    shown = [
        attach("file", filename="/srv/shop/notes.txt", content={"type": "text", "file": {"content": "In the cellar."}}),
        attach("instructions", files=[{"path": "/srv/shop/CLAUDE.md", "content": "Be kind."}]),
        attach("hook_success", hookName="SessionStart", content="started"),
        attach("mcp_instructions_delta", addedBlocks=["Ask the shop."]),
        attach("of-a-new-kind", text="Hm"),
    ]
    records = [
        attach("prompt_snapshot", systemPrompt=["You are an agent."], tools=[{"name": "Read"}]),
        attach("environment", snapshot={"platform": "linux"}),
        attach("skill_listing", content="- dataviz: …", skillCount=1),
        attach("date", date="2026-11-28"),
    ]
    call = {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file": "a"}}
    transcript_writer.agent({"type": "text", "text": "I look."}, message="m1")
    between = attach("prompt_snapshot", systemPrompt=[], tools=[])
    transcript_writer.agent(call, message="m1")
    transcript_writer.result("call_1", "a")
    transcript_writer.line(type="system", subtype="status", status="compacting")
    answer = transcript_writer.says("Done.", message="m2")
    report = import_transcripts(cp, transcript_writer.path)
    assert report.unknown == {}
    transcript = (cp.load_latest(SESSION) or {})["transcript"]
    assert [each["role"] for each in transcript] == ["user", *["system"] * 5, "assistant", "user", "assistant"]
    assert [each["id"] for each in transcript[1:6]] == [line["uuid"] for line in shown]
    said = transcript[6]
    assert [block["type"] for block in said["content"]] == ["text", "tool_use"]
    assert said["source"]["before"] == [*records, between]
    transcript_writer.user("And @more.txt?", parentUuid=attach("date", date="2026-11-29")["uuid"])
    assert answer["uuid"] in _import_and_list_transcript_ids(cp, transcript_writer)
    transcript_writer.user("Instead: where is it?", parentUuid=records[-1]["uuid"])
    assert _import_and_list_transcript_ids(cp, transcript_writer) == ["u1", *(line["uuid"] for line in shown), "u19"]


def _import_and_list_transcript_ids(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> list[str]:
    import_transcripts(cp, transcript_writer.path)
    return _list_transcript_ids(cp)


@pytest.mark.parametrize("named", ["uuids", "segment"])
def test_a_compaction_that_names_records_of_the_program_keeps_the_messages_between_them(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter, named: str
) -> None:
    _write_four_messages(transcript_writer)
    record = transcript_writer.line(type="attachment", attachment={"type": "date", "date": "2026-11-28"})["uuid"]
    transcript_writer.user("Two")
    answer = transcript_writer.says("Two it is.", message="m9")["uuid"]
    last = transcript_writer.line(type="attachment", attachment={"type": "date", "date": "2026-11-29"})["uuid"]
    facts = _keep("u10", record, "u6", answer, last)
    transcript_writer.compaction(
        "Summary.", **(facts if named == "uuids" else {"preservedSegment": facts["preservedSegment"]})
    )
    transcript_writer.user("Three")
    assert _import_and_list_transcript_ids(cp, transcript_writer) == ["u9", "u10", "u6", "u7", "u11"]
