"""Imported conversations of the OpenAI and Anthropic APIs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.enums import CallStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import to_canonical_json
from checkpoints.importers import ImportRefused, import_transcripts
from checkpoints.models import Message, Segment, Session, ToolCall
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import MessageEntry

ASK: dict[str, Any] = {"role": "user", "content": "Where is order 17?"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "track", "arguments": '{"order":17}'}}],
}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "on its way"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "It is on its way."}
CHAT = [ASK, CALL, RESULT, ANSWER]


def session(session_id: str) -> Session:
    return Session.objects.get(session_id=session_id)


def transcript(cp: SyncCheckpointer, session_id: str) -> list[Any]:
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    return list(loaded["transcript"])


def shown(session_id: str) -> list[tuple[str, list[str]]]:
    """Return role and part kinds of each message on the page."""
    place = conversation_window.find_transcript_version(session(session_id))
    assert place is not None
    items = conversation_window.load_conversation_window(session(session_id), place).items
    return [(item.role, [part.kind for part in item.parts]) for item in items if isinstance(item, MessageEntry)]


def saved(path: Path, value: Any) -> Path:
    lines = path.suffix == ".jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in value) if lines else json.dumps(value))
    return path


@pytest.mark.parametrize("name", ["order.json", "order.jsonl"])
def test_chat_messages_are_stored_unchanged(cp: SyncCheckpointer, tmp_path: Path, name: str) -> None:
    report = import_transcripts(cp, saved(tmp_path / name, CHAT), agent="desk", format="openai-chat")
    assert transcript(cp, "order") == CHAT
    assert shown("order") == [("user", ["text"]), ("assistant", ["card"]), ("assistant", ["text"])]
    row, call = session("order"), ToolCall.objects.get()
    assert (row.title, row.agent) == ("Where is order 17?", "desk")
    assert (call.tool, call.args, call.status, call.result_text) == (
        "track",
        '{"order":17}',
        CallStatus.COMPLETED,
        "on its way",
    )
    assert (report.files, report.sessions, report.messages, report.calls) == (1, 1, 4, 1)


def test_messages_are_imported_from_memory(cp: SyncCheckpointer) -> None:
    import_transcripts(cp, CHAT, session_id="s-1", format="openai-chat")
    assert transcript(cp, "s-1") == CHAT
    with pytest.raises(InvalidInput, match="session_id"):
        import_transcripts(cp, CHAT, format="openai-chat")


def test_longer_list_adds_its_new_messages(cp: SyncCheckpointer) -> None:
    import_transcripts(cp, CHAT[:2], session_id="s-1", format="openai-chat")
    assert ToolCall.objects.get().status == CallStatus.DISCARDED
    report = import_transcripts(cp, CHAT, session_id="s-1", format="openai-chat")
    assert (report.new_messages, report.messages) == (2, 4)
    assert ToolCall.objects.get().status == CallStatus.COMPLETED
    assert import_transcripts(cp, CHAT, session_id="s-1", format="openai-chat").new_messages == 0
    assert import_transcripts(cp, CHAT[:3], session_id="s-1", format="openai-chat").new_messages == 0
    assert transcript(cp, "s-1") == CHAT


def test_edited_list_creates_a_branch_and_can_be_reverted(cp: SyncCheckpointer) -> None:
    edited = [ASK, {"role": "assistant", "content": "I do not know."}]
    again = [*CHAT, {"role": "user", "content": "Thanks"}]
    for messages in (CHAT, edited, again):
        import_transcripts(cp, messages, session_id="s-1", format="openai-chat")
        assert transcript(cp, "s-1") == messages
    assert Segment.objects.count() == 3
    assert ToolCall.objects.count() == 1
    assert transcript(cp, "s-1") == again
    assert cp.load("s-1", 1)["transcript"] == CHAT


def test_each_conversation_of_a_jsonl_file_is_a_session(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = saved(tmp_path / "tuning.jsonl", [{"messages": CHAT}, {"id": "x", "messages": CHAT[:1], "model": "gpt"}])
    assert import_transcripts(cp, path, format="openai-chat").session_ids == ["tuning/1", "tuning/x"]
    assert json.loads(session("tuning/x").metadata)["models"] == ["gpt"]


def test_chat_completion_responses(cp: SyncCheckpointer, tmp_path: Path) -> None:
    answer = {
        "object": "chat.completion",
        "created": 1_741_000_000,
        "model": "gpt",
        "choices": [{"index": 0, "message": ANSWER}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    import_transcripts(cp, saved(tmp_path / "log.jsonl", [ASK, answer]), format="openai-chat")
    stored = transcript(cp, "log")
    assert [body["content"] for body in stored] == [ASK["content"], ANSWER["content"]]
    assert stored[1]["source"]["usage"] == {"model": "gpt", "input_tokens": 10, "output_tokens": 5}
    assert session("log").total_tokens == 15
    assert Message.objects.get(position=1).created_at == datetime.fromtimestamp(1_741_000_000, UTC)


def test_fields_beside_the_messages_of_a_chat_completion_are_kept(cp: SyncCheckpointer, tmp_path: Path) -> None:
    choice = {"index": 0, "finish_reason": "length", "logprobs": {"content": [{"token": "It", "logprob": -0.5}]}}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_741_000_000,
        "model": "gpt",
        "system_fingerprint": "fp_1",
        "metadata": {"order": "17"},
        "choices": [{**choice, "message": ANSWER}],
    }
    path = saved(tmp_path / "log.jsonl", [ASK, answer])
    import_transcripts(cp, path)
    kept = {"id": "chatcmpl-1", "system_fingerprint": "fp_1", "choices": [choice]}
    assert transcript(cp, "log")[1]["source"]["response"] == kept
    assert json.loads(session("log").metadata)["metadata"] == {"order": "17"}
    assert import_transcripts(cp, path).new_messages == 0


@pytest.mark.parametrize("is_older", [False, True])
def test_calls_without_a_function_or_an_id_are_logged(cp: SyncCheckpointer, tmp_path: Path, is_older: bool) -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "track", "input": "order 17"}}
    call: dict[str, Any] = {"function_call": {"name": "track", "arguments": "order 17"}}
    call = {"role": "assistant", "content": None, **(call if is_older else {"tool_calls": [custom]})}
    result = {"role": "function", "name": "track", "content": "lost"} if is_older else {**RESULT, "content": "lost"}
    report = import_transcripts(cp, saved(tmp_path / "order.json", [ASK, call, result, call, result, ANSWER]))
    assert (dict(report.formats), report.unknown, report.skipped) == ({"openai-chat": 1}, {}, 0)
    assert shown("order") == [("user", ["text"]), *[("assistant", ["card"])] * 2, ("assistant", ["text"])]
    logged = ToolCall.objects.values_list("tool", "args", "status", "result")
    assert list(logged) == [("track", '"order 17"', "completed", '"lost"')] * 2


def test_reused_call_id_belongs_to_the_newest_call(cp: SyncCheckpointer) -> None:
    import_transcripts(
        cp, [*CHAT, ASK, CALL, {**RESULT, "content": "delivered"}], session_id="s-1", format="openai-chat"
    )
    assert [call.result_text for call in ToolCall.objects.order_by("pk")] == ["on its way", "delivered"]


def test_invalid_message_is_reported(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = saved(tmp_path / "log.jsonl", [ASK, {"event": "ping"}, ANSWER])
    with path.open("a") as file:
        file.write("{torn")
    os.utime(path, (0, 0))
    report = import_transcripts(cp, path, format="openai-chat")
    assert transcript(cp, "log") == [ASK, ANSWER]
    assert [(damaged.line, damaged.why) for damaged in report.damaged] == [
        (2, "it is no message of the format openai-chat"),
        (4, "it ends before it is complete"),
    ]


def test_damaged_json_file_is_reported(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text('[{"role": "user", ')
    report = import_transcripts(cp, path, format="openai-chat")
    assert len(report.damaged) == 1
    assert report.empty == [str(path)]
    assert not Session.objects.exists()


def test_another_format_for_the_same_session_is_refused(cp: SyncCheckpointer) -> None:
    import_transcripts(cp, CHAT, session_id="s-1", format="openai-chat")
    with pytest.raises(ImportRefused, match="openai-chat"):
        import_transcripts(cp, [ASK], session_id="s-1", format="anthropic")


def test_session_continued_by_an_agent_is_refused(cp: SyncCheckpointer) -> None:
    import_transcripts(cp, CHAT[:2], session_id="s-1", format="openai-chat")
    Session.objects.update(status="active")
    cp.resume("s-1")
    with pytest.raises(ImportRefused, match="gone on"):
        import_transcripts(cp, CHAT, session_id="s-1", format="openai-chat")


def test_responses_api_items(cp: SyncCheckpointer, tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Where is order 17?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "track", "arguments": '{"order":17}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "on its way"},
        {"type": "local_shell_call", "id": "ls_1", "call_id": "call_2", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "call_2", "output": "a.py"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "17"}},
        {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{}", "output": None, "error": "no dice"},
        {"type": "time_travel_call", "id": "tt_1"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "On its way.", "annotations": []}],
        },
    ]
    report = import_transcripts(cp, saved(tmp_path / "items.json", items), format="openai-responses")
    assert shown("items") == [
        ("user", ["text"]),
        ("assistant", ["reasoning"]),
        ("assistant", ["card"]),
        ("assistant", ["card"]),
        ("assistant", ["other"]),
        ("assistant", ["card"]),
        ("assistant", ["other"]),
        ("assistant", ["text"]),
    ]
    calls = {call.tool: (call.status, call.result_text) for call in ToolCall.objects.all()}
    assert calls == {
        "track": (CallStatus.COMPLETED, "on its way"),
        "local_shell": (CallStatus.COMPLETED, "a.py"),
        "roll": (CallStatus.FAILED, "no dice"),
    }
    assert report.unknown == {"item time_travel_call": 1}
    assert import_transcripts(cp, tmp_path / "items.json", format="openai-responses").new_messages == 0


def test_responses_api_responses_are_joined(cp: SyncCheckpointer, tmp_path: Path) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    answers = [
        {"object": "response", "id": f"resp_{n}", "output": [said], "usage": {"input_tokens": 3, "output_tokens": 2}}
        for n in range(2)
    ]
    import_transcripts(cp, saved(tmp_path / "log.jsonl", answers), format="openai-responses")
    assert session("log").message_count == 2
    assert session("log").total_tokens == 10
    whole = {"id": "resp_9", "instructions": "Be kind.", "input": "Hi", "output": [said]}
    import_transcripts(cp, saved(tmp_path / "whole.json", whole), format="openai-responses")
    assert [message["role"] for message in transcript(cp, "whole/resp_9")] == ["system", "user", "assistant"]


def test_entry_of_a_response_that_is_no_object_damages_nothing_else(cp: SyncCheckpointer, tmp_path: Path) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    whole = {"object": "response", "input": "Hi", "output": [said, "torn", 7]}
    report = import_transcripts(cp, saved(tmp_path / "whole.json", whole), format="openai-responses")
    assert [message["role"] for message in transcript(cp, "whole")] == ["user", "assistant"]
    assert [damaged.text for damaged in report.damaged] == ['"torn"', "7"]


def test_output_that_is_a_list_belongs_to_its_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "photograph", "arguments": "{}"}
    parts = [{"type": "input_text", "text": "a cat"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]
    output = {"type": "function_call_output", "call_id": "c1", "output": parts}
    run = {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}}
    listed = [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    ran = {"type": "shell_call_output", "call_id": "c2", "output": listed}
    report = import_transcripts(cp, saved(tmp_path / "log.jsonl", [{"type": "message", **ASK}, call, output, run, ran]))
    assert (dict(report.formats), report.unknown, report.skipped) == ({"openai-responses": 1}, {}, 0)
    assert [call.result_text for call in ToolCall.objects.order_by("pk")] == [
        "a cat\n\n[image 1]",
        to_canonical_json(listed[0]),
    ]


def test_program_of_a_model_is_a_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    items = [
        {"type": "program", "id": "p1", "call_id": "c1", "code": "track(17)", "fingerprint": "f"},
        {"type": "program_output", "id": "o1", "call_id": "c1", "result": "lost", "status": "completed"},
        {"type": "additional_tools", "id": "a1", "role": "developer", "tools": []},
        {"type": "configuration_update", "id": "u1"},
        {"type": "compaction_trigger"},
    ]
    response = {"object": "response", "id": "resp_1", "output": items}
    report = import_transcripts(cp, saved(tmp_path / "log.json", response))
    assert (dict(report.formats), report.unknown) == ({"openai-responses": 1}, {})
    call = ToolCall.objects.get()
    assert (call.tool, call.args, call.result_text) == ("program", '"track(17)"', "lost")


def test_error_and_status_of_a_response_are_kept(cp: SyncCheckpointer, tmp_path: Path) -> None:
    error = {"code": "rate_limit_exceeded", "message": "Too fast."}
    failed = {"object": "response", "id": "resp_1", "status": "failed", "output": [], "error": error}
    import_transcripts(cp, saved(tmp_path / "log.jsonl", [{"type": "message", **ASK}, failed]))
    answer = transcript(cp, "log")[1]
    assert answer["content"] == [{"type": "error", **error}]
    assert answer["source"]["response"] == {"id": "resp_1", "status": "failed", "error": error}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "anthropic",
            {"system": "Be kind.", "messages": [ASK, {"role": "assistant", "content": [{"type": "hologram"}]}]},
        ),
        ("openai-responses", {"input": [{"type": "message", **ASK}, {"type": "hologram"}]}),
        ("openai-responses", {"object": "response", "output": [{"type": "hologram"}]}),
        ("openai-chat", {"messages": [ASK, ANSWER, CALL, {"role": "user", "content": [{"type": "hologram"}]}]}),
    ],
)
def test_content_of_a_new_type_does_not_make_a_conversation_unknown(
    cp: SyncCheckpointer, tmp_path: Path, name: str, content: Any
) -> None:
    report = import_transcripts(cp, saved(tmp_path / "log.json", content))
    assert dict(report.formats) == {name: 1}
    assert [kind.split()[-1] for kind in report.unknown] == ["hologram"]
    assert {"type": "hologram"} in transcript(cp, "log")[-1]["content"]


def test_blocks_of_anthropic_that_change_the_tools_are_known(cp: SyncCheckpointer, tmp_path: Path) -> None:
    consulted = {"type": "server_tool_use", "id": "srv_1", "name": "advisor", "input": {}}
    advised = {
        "type": "advisor_tool_result",
        "tool_use_id": "srv_1",
        "content": {"type": "advisor_result", "text": "x"},
    }
    others = [{"type": kind} for kind in ("fallback", "mcp_tool_listing", "tool_addition", "tool_removal")]
    message = {"role": "assistant", "stop_reason": "end_turn", "content": [consulted, advised, *others]}
    report = import_transcripts(cp, saved(tmp_path / "log.jsonl", [ASK, message]))
    assert (dict(report.formats), report.unknown) == ({"anthropic": 1}, {})
    assert (ToolCall.objects.get().tool, ToolCall.objects.get().status) == ("advisor", CallStatus.COMPLETED)


def test_anthropic_messages(cp: SyncCheckpointer, tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "track", "input": {"order": 17}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "lost"}]}
    request = {
        "model": "claude",
        "system": "Be kind.",
        "messages": [
            ASK,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, use]},
            {"role": "user", "content": [{**result, "is_error": True}]},
        ],
    }
    import_transcripts(cp, saved(tmp_path / "request.json", request), format="anthropic")
    assert shown("request") == [("system", ["text"]), ("user", ["text"]), ("assistant", ["reasoning", "card"])]
    assert (ToolCall.objects.get().status, ToolCall.objects.get().result_text) == (CallStatus.FAILED, "lost")


def test_anthropic_responses(cp: SyncCheckpointer, tmp_path: Path) -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "Hello"}, {"type": "smell"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 10},
    }
    report = import_transcripts(cp, saved(tmp_path / "log.jsonl", [ASK, answer]), format="anthropic")
    assert shown("log") == [("user", ["text"]), ("assistant", ["text", "other"])]
    assert session("log").total_tokens == 16
    assert report.unknown == {"block smell": 1}
    assert transcript(cp, "log")[1]["source"]["stop_reason"] == "end_turn"


def test_calls_that_anthropic_makes_itself_have_their_results(cp: SyncCheckpointer, tmp_path: Path) -> None:
    searched = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "order 17"}}
    found = [{"type": "web_search_result", "title": "Orders", "url": "https://example.com", "encrypted_content": "x"}]
    asked = {"type": "mcp_tool_use", "id": "mcp_1", "name": "track", "server_name": "shop", "input": {"order": 17}}
    failed = {"type": "web_fetch_tool_result_error", "error_code": "url_not_allowed"}
    content = [
        searched,
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found},
        asked,
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcp_1",
            "is_error": False,
            "content": [{"type": "text", "text": "Lost"}],
        },
        {**searched, "id": "srv_2", "name": "web_fetch"},
        {"type": "web_fetch_tool_result", "tool_use_id": "srv_2", "content": failed},
    ]
    request = {"messages": [ASK, {"role": "assistant", "content": content}, {"role": "user", "content": "Thanks"}]}
    report = import_transcripts(cp, saved(tmp_path / "request.json", request))
    assert (dict(report.formats), report.unknown, report.unanswered) == ({"anthropic": 1}, {}, 0)
    calls = ToolCall.objects.order_by("pk").values_list("tool", "status")
    assert list(calls) == [
        ("web_search", CallStatus.COMPLETED),
        ("track", CallStatus.COMPLETED),
        ("web_fetch", CallStatus.FAILED),
    ]
    assert "example.com" in str(ToolCall.objects.get(tool="web_search").result_text)
    assert ToolCall.objects.get(tool="track").result_text == "Lost"


def test_sessions_of_a_folder_are_named_after_the_files(cp: SyncCheckpointer, tmp_path: Path) -> None:
    (tmp_path / "may").mkdir()
    saved(tmp_path / "may" / "one.json", CHAT)
    saved(tmp_path / "two.jsonl", CHAT)
    assert import_transcripts(cp, tmp_path, format="openai-chat").session_ids == ["may/one", "two"]
