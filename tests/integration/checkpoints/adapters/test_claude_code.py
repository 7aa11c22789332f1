"""Transcripts of Claude Code in the store: what is where, and what a second import does."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude_code import import_claude_code
from checkpoints.adapters.importing import ImportProgress, ImportRefused
from checkpoints.adapters.importing.refusal import ImportOvertaken, NothingToImport
from checkpoints.enums import UNDECIDED_CALL, CallStatus, RunStatus, SessionStatus
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall
from checkpoints.queries import conversation
from checkpoints.queries.conversation import CallCard, Entry, Rewrite
from tests.conftest import Open
from tests.integration.checkpoints.adapters.scribe import SESSION, THEN, Scribe

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / f"{SESSION}.jsonl")


def session(session_id: str = SESSION) -> Session:
    return Session.objects.get(session_id=session_id)


def texts(cp: SyncCheckpointer, session_id: str = SESSION) -> list[Any]:
    """What the newest version says, one entry for each message."""
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    return [message["content"] for message in loaded["transcript"]]


def everything() -> list[Any]:
    """All rows an import writes, in a form that tells any change."""
    tables = (Session, Segment, Message, Checkpoint, ToolCall)
    return [sorted(map(repr, table.objects.values_list())) for table in tables]


def a_turn(scribe: Scribe, number: int) -> None:
    scribe.user(f"Question {number}")
    scribe.says(f"Looking at {number}.", message=f"msg_{number}", usage=USAGE)
    scribe.calls(f"call_{number}", "Read", {"file": f"{number}.py"}, message=f"msg_{number}", usage=USAGE)
    scribe.result(f"call_{number}", f"content {number}")
    scribe.says(f"Answer {number}", message=f"msg_{number}b", usage=USAGE)


def test_a_conversation_becomes_a_session(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    a_turn(scribe, 2)
    report = import_claude_code(cp, scribe.path)
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


def test_what_a_line_says_beside_its_message_is_kept(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello", thinkingMetadata={"level": "high"})
    import_claude_code(cp, scribe.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    (line,) = loaded["transcript"][0]["source"]["lines"]
    assert line["thinkingMetadata"] == {"level": "high"}
    assert line["cwd"] == "/srv/shop"
    assert line["message"] == {"role": "user"}


def test_a_page_reads_like_a_conversation(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    import_claude_code(cp, scribe.path)
    place = conversation.place(session())
    assert place is not None
    user, agent, last = conversation.read(session(), place).items
    assert isinstance(user, Entry)
    assert isinstance(agent, Entry)
    assert isinstance(last, Entry)
    text, card = agent.parts
    assert text.kind == "text"
    assert isinstance(card, CallCard)
    assert card.result is not None
    assert card.record is not None
    assert (card.record.status, card.record.result) == (CallStatus.COMPLETED, "content 1")
    assert card.record.duration == timedelta(seconds=1)
    assert [part.kind for part in last.parts] == ["text"]


def test_usage_repeated_on_the_lines_of_a_message_counts_once(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    scribe.says("one", message="msg_1", usage={"input_tokens": 10, "output_tokens": 1})
    scribe.says("two", message="msg_1", usage={"input_tokens": 10, "output_tokens": 50})
    import_claude_code(cp, scribe.path)
    assert Checkpoint.objects.get().usage == '{"input_tokens":10,"output_tokens":50,"total_tokens":60}'


def test_costs_are_summed_where_they_are_given(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    scribe.says("one", message="msg_1", costUSD=0.1)
    scribe.says("two", message="msg_2", costUSD=0.2)
    import_claude_code(cp, scribe.path)
    assert session().budget_spent_usd == Decimal("0.3")


def test_a_failed_call_is_failed(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    scribe.calls("call_1", "Bash", {"command": "false"}, message="msg_1")
    scribe.result("call_1", [{"type": "text", "text": "exit 1"}], is_error=True)
    import_claude_code(cp, scribe.path)
    call = ToolCall.objects.get()
    assert (call.status, call.result_text, call.settled_at) == (
        CallStatus.FAILED,
        "exit 1",
        THEN + timedelta(seconds=3),
    )


def test_parallel_calls_find_their_results(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    first = scribe.calls("call_1", "Read", {"file": "a"}, message="msg_1")
    second = scribe.calls("call_2", "Read", {"file": "b"}, message="msg_1")
    scribe.result("call_2", "b", parentUuid=second["uuid"])
    scribe.result("call_1", "a", parentUuid=first["uuid"])
    scribe.says("Both read.", message="msg_2")
    import_claude_code(cp, scribe.path)
    results = {call.call_id: call.result_text for call in ToolCall.objects.all()}
    assert results == {"call_1": "a", "call_2": "b"}
    assert session().message_count == 5


def test_a_call_without_a_result_asks_nobody(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Pay")
    scribe.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    report = import_claude_code(cp, scribe.path)
    call = ToolCall.objects.get()
    assert call.status == CallStatus.DISCARDED
    assert call.sentence.startswith("The imported transcript ends before this call was answered.")
    assert not call.mutates
    assert report.unanswered == 1
    assert session().status == SessionStatus.CANCELLED
    assert cp.pending_tool_calls(SESSION) == []
    assert not ToolCall.objects.filter(status__in=UNDECIDED_CALL).exists()
    place = conversation.place(session())
    assert place is not None
    items = conversation.read(session(), place).items
    assert [item.kind for item in items] == ["message", "message"]


def test_the_result_that_comes_later_settles_the_call(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Pay")
    scribe.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    import_claude_code(cp, scribe.path)
    scribe.result("call_1", "paid")
    report = import_claude_code(cp, scribe.path)
    call = ToolCall.objects.get()
    assert (call.status, call.result_text, call.sentence) == (CallStatus.COMPLETED, "paid", "")
    assert (report.new_messages, report.new_calls, report.unanswered) == (1, 0, 0)
    assert session().status == SessionStatus.COMPLETED


def test_a_second_import_changes_nothing(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    scribe.calls("call_9", "Bash", {}, message="msg_9")
    scribe.note("last-prompt", lastPrompt="Question 1")
    import_claude_code(cp, scribe.path)
    before = everything()
    report = import_claude_code(cp, scribe.path)
    assert everything() == before
    assert (report.new_sessions, report.new_messages, report.new_calls, report.new_versions) == (0, 0, 0, 0)
    assert (report.sessions, report.messages, report.calls, report.unanswered) == (1, 5, 2, 1)


def test_a_later_import_adds_what_was_said_since(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    import_claude_code(cp, scribe.path)
    first = texts(cp)
    a_turn(scribe, 2)
    report = import_claude_code(cp, scribe.path)
    assert texts(cp)[: len(first)] == first
    assert (report.new_messages, report.new_versions) == (4, 1)
    assert session().total_tokens == 4 * 122
    assert session().runs.count() == 1


@pytest.mark.parametrize("cut", range(1, 11))
def test_an_import_at_any_line_and_then_of_the_rest_says_the_same(
    cp: SyncCheckpointer, scribe: Scribe, tmp_path: Path, cut: int
) -> None:
    a_turn(scribe, 1)
    a_turn(scribe, 2)
    lines = scribe.path.read_text().splitlines(keepends=True)
    growing = tmp_path / "growing" / scribe.path.name
    growing.parent.mkdir()
    growing.write_text("".join(lines[:cut]))
    import_claude_code(cp, growing)
    growing.write_text("".join(lines))
    import_claude_code(cp, growing)
    spread = [content if isinstance(content, list) else [content] for content in texts(cp)]
    said = [block for content in spread for block in content]
    wanted = [json.loads(line)["message"]["content"] for line in lines]
    assert said == [block for content in wanted for block in (content if isinstance(content, list) else [content])]
    assert session().total_tokens == 4 * 122
    assert {call.status for call in ToolCall.objects.all()} == {CallStatus.COMPLETED}


def test_an_edited_prompt_leaves_what_it_replaced_in_earlier_versions(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("One")
    answer = scribe.says("Answer one", message="msg_1")
    scribe.user("Two")
    scribe.says("Answer two", message="msg_2")
    scribe.user("Two, but better", parentUuid=answer["uuid"])
    scribe.says("Better answer", message="msg_3")
    import_claude_code(cp, scribe.path)
    assert [content if isinstance(content, str) else content[0]["text"] for content in texts(cp)] == [
        "One",
        "Answer one",
        "Two, but better",
        "Better answer",
    ]
    assert len(cp.load(SESSION, 2)["transcript"]) == 4
    assert Segment.objects.count() == 2


def test_results_stay_with_the_calls_that_an_edit_goes_on_from(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("One")
    call = scribe.calls("call_1", "Read", {}, message="msg_1")
    scribe.result("call_1", "a")
    scribe.says("Answer", message="msg_2")
    scribe.user("Two", parentUuid=call["uuid"])
    import_claude_code(cp, scribe.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    assert [message["id"] for message in loaded["transcript"]] == ["u1", "u2", "u3", "u5"]


def test_results_of_parallel_calls_are_no_edit(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("One")
    call = scribe.calls("call_1", "Read", {}, message="msg_1")
    scribe.calls("call_2", "Read", {}, message="msg_1")
    scribe.result("call_1", "a", parentUuid=call["uuid"])
    scribe.result("call_2", "b")
    scribe.user("Go on")
    import_claude_code(cp, scribe.path)
    assert Segment.objects.count() == 1


def test_a_compaction_begins_anew(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    scribe.compaction("This session is being continued. Summary: one question.")
    a_turn(scribe, 2)
    import_claude_code(cp, scribe.path)
    place = conversation.place(session())
    assert place is not None
    items = conversation.read(session(), place).items
    assert isinstance(items[0], Rewrite)
    boundary, summary = items[1], items[2]
    assert isinstance(boundary, Entry)
    assert isinstance(summary, Entry)
    assert (boundary.role, summary.role) == ("system", "system")
    assert session().message_count == 6
    assert len(cp.load(SESSION, 1)["transcript"]) == 4
    assert session().title == "Question 1"


def test_a_summary_without_a_boundary_begins_anew_too(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    scribe.user("Summary: one question.", isCompactSummary=True)
    import_claude_code(cp, scribe.path)
    assert session().message_count == 1


def test_repeated_lines_count_once(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    line = json.loads(scribe.path.read_text().splitlines()[0])
    scribe.write({**line, "parentUuid": "elsewhere"})
    report = import_claude_code(cp, scribe.path)
    assert (report.repeated, report.messages) == (1, 4)


def test_the_same_uuid_with_other_content_is_another_message(cp: SyncCheckpointer, scribe: Scribe) -> None:
    line = scribe.user("One")
    scribe.write({**line, "message": {"role": "user", "content": "Two"}})
    for _ in range(2):
        import_claude_code(cp, scribe.path)
        assert texts(cp) == ["One", "Two"]


def test_unknown_lines_and_blocks_are_shown_as_they_are(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    scribe.line(type="holo-gram", depth={"of": 3})
    scribe.agent({"type": "smell", "notes": ["pine"]}, message="msg_1")
    report = import_claude_code(cp, scribe.path)
    assert report.unknown == {"line holo-gram": 1, "block smell": 1}
    assert texts(cp)[1:] == [[{"type": "holo-gram", "depth": {"of": 3}}], [{"type": "smell", "notes": ["pine"]}]]
    place = conversation.place(session())
    assert place is not None
    shown = [item.parts[0].kind for item in conversation.read(session(), place).items if isinstance(item, Entry)]
    assert shown == ["text", "other", "other"]


def test_notes_are_kept_with_the_message_after_them(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.note("file-history-snapshot", messageId="x", snapshot={"files": {}})
    scribe.user("Hello")
    scribe.note("queue-operation", operation="dequeue")
    import_claude_code(cp, scribe.path)
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    (message,) = loaded["transcript"]
    assert [note["type"] for note in message["source"]["before"]] == ["file-history-snapshot"]
    told = json.loads(session().metadata)["import"]
    assert [note["type"] for note in told["trailing_notes"]] == ["queue-operation"]


def test_damaged_lines_are_reported_and_the_rest_is_read(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("One")
    scribe.raw('{"type": "user", "mess\n')
    scribe.raw("[1, 2]\n\n")
    scribe.raw('{"type": "user", "uuid": "n", "n": NaN}\n')
    scribe.user("Two")
    with scribe.path.open("ab") as file:
        file.write(b'{"type": "user", "uuid": "\xff"}\n')
        file.write(b'{"type": "assistant", "torn')
    report = import_claude_code(cp, scribe.path)
    assert texts(cp) == ["One", "Two"]
    assert [damaged.line for damaged in report.damaged] == [2, 3, 5, 7, 8]
    assert report.damaged[0].text == '{"type": "user", "mess\n'
    assert report.damaged[-1].why == "it ends before it is complete"


def test_the_title_is_the_summary_of_this_conversation(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.note("summary", summary="Of another one", leafUuid="not-here")
    line = scribe.user("Hello")
    scribe.note("summary", summary="A greeting", leafUuid=line["uuid"])
    import_claude_code(cp, scribe.path)
    assert session().title == "A greeting"


def test_what_the_program_says_in_the_users_name_is_no_title(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Caveat: The messages below were generated by the user.", isMeta=True)
    scribe.user("<command-name>/review</command-name>\n<command-args>42</command-args>")
    scribe.user("<local-command-stdout>done</local-command-stdout>")
    import_claude_code(cp, scribe.path)
    assert session().title == "/review 42"


def test_sidechains_are_sessions_of_their_own(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Search")
    scribe.calls("call_1", "Task", {"prompt": "Find it"}, message="msg_1")
    side = Scribe(scribe.path, prefix="s", isSidechain=True)
    side.user("Find it")
    side.says("Found it", message="msg_s")
    scribe.result("call_1", "Found it")
    other = Scribe(scribe.path, prefix="t", isSidechain=True, agentId="a7")
    other.user("Find more")
    report = import_claude_code(cp, scribe.path)
    assert report.session_ids == [SESSION, f"{SESSION}/sidechain-s1", f"{SESSION}/agent-a7"]
    assert [session(name).message_count for name in report.session_ids] == [3, 2, 1]
    assert json.loads(session(f"{SESSION}/agent-a7").metadata)["parent_session"] == SESSION


def test_a_folder_of_projects(cp: SyncCheckpointer, tmp_path: Path) -> None:
    one, two = SESSION, SESSION.replace("0f", "1f")
    a_turn(Scribe(tmp_path / "projects" / "-srv-shop" / f"{one}.jsonl", one), 1)
    a_turn(Scribe(tmp_path / "projects" / "-srv-site" / f"{two}.jsonl", two), 1)
    folder = tmp_path / "projects" / "-srv-shop" / one / "subagents"
    agent = Scribe(folder / "agent-a1.jsonl", one, isSidechain=True, agentId="a1", prefix="a")
    agent.user("Explore")
    (folder / "agent-a1.meta.json").write_text(json.dumps({"agentType": "Explore", "description": "Look around"}))
    (tmp_path / "projects" / "other.jsonl").write_text('{"display": "typed"}\n')
    (tmp_path / "history.jsonl").write_text('{"display": "typed"}\n')
    report = import_claude_code(cp, tmp_path)
    assert sorted(report.session_ids) == [one, f"{one}/agent-a1", two]
    assert report.empty == [str(tmp_path / "projects" / "other.jsonl")]
    row = session(f"{one}/agent-a1")
    assert (row.agent, row.title) == ("claude-code/Explore", "Look around")


def test_a_file_of_another_name_is_called_by_the_session_in_it(cp: SyncCheckpointer, tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "saved.jsonl")
    scribe.user("Hello")
    assert import_claude_code(cp, scribe.path).session_ids == [SESSION]


def test_no_transcript_no_session(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.note("summary", summary="Of another one", leafUuid="not-here")
    report = import_claude_code(cp, scribe.path)
    assert report.empty == [str(scribe.path)]
    assert not Session.objects.exists()
    with pytest.raises(NothingToImport):
        import_claude_code(cp, scribe.path.parent / "missing")


def test_a_session_from_elsewhere_is_left_alone(cp: SyncCheckpointer, scribe: Scribe) -> None:
    cp.start_session(SESSION)
    scribe.user("Hello")
    with pytest.raises(ImportRefused, match="it was not imported"):
        import_claude_code(cp, scribe.path)


def test_an_agent_that_takes_the_session_meanwhile_keeps_it(
    cp: SyncCheckpointer, open_checkpointer: Open, scribe: Scribe
) -> None:
    agent = open_checkpointer()
    for number in range(700):
        scribe.user(f"Question {number}" + "." * 1000)

    def take(progress: ImportProgress) -> None:
        if progress.report.new_versions:
            agent.resume(SESSION)

    with pytest.raises(ImportOvertaken):
        import_claude_code(cp, scribe.path, progress=take)
    point = agent.resume(SESSION)
    agent.save_checkpoint(SESSION, [*point.transcript, {"role": "user", "content": "Mine"}], None, 0)


def test_a_fork_goes_on_where_the_transcript_ended(cp: SyncCheckpointer, scribe: Scribe) -> None:
    a_turn(scribe, 1)
    import_claude_code(cp, scribe.path)
    cp.fork_session(SESSION, "mine")
    point = cp.resume("mine")
    assert [message["role"] for message in point.transcript] == ["user", "assistant", "user", "assistant"]
    assert point.replayable == {}


def test_a_fork_does_not_ask_about_a_call_that_was_never_answered(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Pay")
    scribe.calls("call_1", "Bash", {"command": "pay"}, message="msg_1")
    import_claude_code(cp, scribe.path)
    cp.fork_session(SESSION, "mine")
    point = cp.resume("mine")
    assert (point.replayable, len(point.transcript)) == ({}, 2)


def test_a_long_turn_becomes_several_versions(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Go")
    for number in range(300):
        scribe.calls(f"call_{number}", "Read", {"n": number}, message=f"msg_{number}")
        scribe.result(f"call_{number}", str(number))
    import_claude_code(cp, scribe.path)
    assert list(Checkpoint.objects.order_by("version").values_list("length", flat=True)) == [250, 500, 601]
    assert ToolCall.objects.filter(status=CallStatus.COMPLETED).count() == 300


def test_progress_ends_at_the_end(cp: SyncCheckpointer, tmp_path: Path) -> None:
    for name in ("1f", "2f"):
        a_turn(Scribe(tmp_path / f"{SESSION.replace('0f', name)}.jsonl"), 1)
    seen: list[tuple[int, int, int]] = []
    import_claude_code(cp, tmp_path, progress=lambda now: seen.append((now.file, now.read, now.total)))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen == [(1, total // 2, total), (2, total, total)]


def test_a_report_can_be_printed_as_json(cp: SyncCheckpointer, scribe: Scribe) -> None:
    scribe.user("Hello")
    scribe.raw("{\n")
    told = json.loads(json.dumps(import_claude_code(cp, scribe.path).as_dict()))
    assert (told["sessions"], told["damaged"][0]["line"], told["unknown"]) == (1, 2, {})
