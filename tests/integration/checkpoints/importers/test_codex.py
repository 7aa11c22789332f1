"""Rollouts of Codex: forks and subagents that copy their parent, turns that are taken back, messages between agents."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.importers import ImportReport, import_transcripts
from checkpoints.importers.import_errors import ImportRefused
from checkpoints.models import Checkpoint, Session, ToolCall


def line(second: int, kind: str, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-08-04T10:00:{second:02}.000Z", "type": kind, "payload": payload, **fields}


def says(second: int, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return line(second, "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


def event(second: int, name: str, **fields: Any) -> dict[str, Any]:
    return line(second, "event_msg", {"type": name, **fields})


def tokens(second: int, total: int, cached: int, output: int, written: int = 0) -> dict[str, Any]:
    counts = {"input_tokens": total, "cached_input_tokens": cached, "output_tokens": output}
    counts |= {"cache_write_input_tokens": written, "reasoning_output_tokens": 0}
    return event(second, "token_count", info={"total_token_usage": counts, "last_token_usage": counts})


def import_lines(cp: SyncCheckpointer, folder: Path, lines: list[dict[str, Any]], name: str = "r") -> ImportReport:
    path = folder / f"rollout-{name}.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    os.utime(path, (1_785_900_000, 1_785_900_000))
    report = import_transcripts(cp, path)
    assert (report.unknown, report.skipped) == ({}, 0)
    assert import_transcripts(cp, path).new_messages == 0
    return report


def read_usage(session_id: str) -> dict[str, Any]:
    newest = Checkpoint.objects.filter(session__session_id=session_id).order_by("-version")[0]
    usage: dict[str, Any] = json.loads(newest.usage or "{}")
    return usage


def read_texts(cp: SyncCheckpointer, session_id: str) -> list[str]:
    newest = cp.load_latest(session_id)
    assert newest is not None
    return [body["content"][0]["text"] for body in newest["transcript"] if isinstance(body.get("content"), list)]


PARENT = [
    line(0, "session_meta", {"id": "parent", "cwd": "/srv/app", "cli_version": "0.146.0", "source": "cli"}),
    says(1, "user", "<recommended_plugins>none</recommended_plugins>"),
    says(1, "user", "Fix it"),
    says(4, "assistant", "Fixed."),
    tokens(4, 100, 60, 10, written=5),
]
FORKED: dict[str, dict[str, Any]] = {
    "fork": {"forked_from_id": "parent"},
    "subagent": {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "agent_role": "explorer"}}}},
    "review": {"parent_thread_id": "parent", "source": {"subagent": "review"}},
}


def test_tokens_written_to_the_cache_are_counted_apart(cp: SyncCheckpointer, tmp_path: Path) -> None:
    import_lines(cp, tmp_path, PARENT)
    usage = read_usage("parent")
    assert (usage["input_tokens"], usage["cache_creation_input_tokens"], usage["total_tokens"]) == (35, 5, 110)


def test_texts_that_the_program_inserts_are_no_prompts(cp: SyncCheckpointer, tmp_path: Path) -> None:
    import_lines(cp, tmp_path, PARENT)
    assert Session.objects.get().title == "Fix it"


@pytest.mark.parametrize("is_restamped", [True, False])
@pytest.mark.parametrize("kind", FORKED)
def test_fork_counts_only_its_own_tokens(cp: SyncCheckpointer, tmp_path: Path, kind: str, is_restamped: bool) -> None:
    header = line(30, "session_meta", {"id": "child", "cwd": "/srv/other", **FORKED[kind]})
    copied = [each | ({"timestamp": header["timestamp"]} if is_restamped else {}) for each in PARENT]
    own = [says(32, "user", "And that"), says(35, "assistant", "Done."), tokens(35, 250, 160, 30, written=5)]
    import_lines(cp, tmp_path, [header, *copied, *own], "child")
    usage = read_usage("child")
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (50, 100, 20)
    session = Session.objects.get(session_id="child")
    metadata = json.loads(session.metadata)
    assert metadata["working_directories"] == ["/srv/other"]
    assert (session.parent_session_id, session.agent, metadata.get("forked_from")) == {
        "fork": ("", "codex", "parent"),
        "subagent": ("parent", "codex/explorer", None),
        "review": ("parent", "codex/review", None),
    }[kind]


def test_ordinals_of_lines_say_what_a_subagent_has_copied(cp: SyncCheckpointer, tmp_path: Path) -> None:
    meta = {"id": "child", "parent_thread_id": "parent", "subagent_history_start_ordinal": 2}
    lines = [line(0, "session_meta", meta, ordinal=0), tokens(0, 100, 60, 10) | {"ordinal": 1}]
    lines += [says(0, "user", "And that") | {"ordinal": 2}, tokens(0, 130, 60, 12) | {"ordinal": 3}]
    import_lines(cp, tmp_path, lines)
    assert read_usage("child")["total_tokens"] == 32


@pytest.mark.parametrize("how", ["result", "activity", "event"])
def test_call_is_linked_with_the_subagent_that_it_started(cp: SyncCheckpointer, tmp_path: Path, how: str) -> None:
    call = {"type": "function_call", "name": "spawn_agent", "call_id": "c-1", "arguments": '{"message": "Look"}'}
    output = json.dumps({"agent_id": "child"} if how == "result" else {"task_name": "/root/look"})
    events = {
        "activity": [event(2, "sub_agent_activity", event_id="c-1", agent_thread_id="child", kind="started")],
        "event": [event(2, "collab_agent_spawn_end", call_id="c-1", new_thread_id="child")],
    }.get(how, [])
    result = line(3, "response_item", {"type": "function_call_output", "call_id": "c-1", "output": output})
    import_lines(cp, tmp_path, [*PARENT, line(2, "response_item", call), *events, result])
    assert json.loads(Session.objects.get().metadata)["subagents"] == {"child": "c-1"}


@pytest.mark.parametrize("how", ["result", "event"])
@pytest.mark.parametrize("kind", FORKED)
def test_fork_links_only_the_subagents_that_it_started(
    cp: SyncCheckpointer, tmp_path: Path, kind: str, how: str
) -> None:
    def start(at: int, call_id: str, child: str) -> list[dict[str, Any]]:
        call = {"type": "function_call", "name": "spawn_agent", "call_id": call_id, "arguments": "{}"}
        output = json.dumps({"agent_id": child} if how == "result" else {})
        result = {"type": "function_call_output", "call_id": call_id, "output": output}
        events = [event(at, "collab_agent_spawn_end", call_id=call_id, new_thread_id=child)] if how == "event" else []
        return [line(at, "response_item", call), *events, line(at, "response_item", result)]

    header = line(30, "session_meta", {"id": "child", **FORKED[kind]})
    lines = [header, *PARENT, *start(4, "c-1", "copied"), says(32, "user", "And that"), *start(35, "c-2", "own")]
    import_lines(cp, tmp_path, lines, "child")
    assert json.loads(Session.objects.get().metadata)["subagents"] == {"own": "c-2"}


def test_turns_that_were_taken_back_remain_in_earlier_versions(cp: SyncCheckpointer, tmp_path: Path) -> None:
    lines = [*PARENT[1:], says(5, "user", "Now B"), says(6, "assistant", "B."), says(7, "user", "Now C")]
    lines += [event(8, "thread_rolled_back", num_turns=2), says(9, "user", "Now D"), says(10, "assistant", "D.")]
    import_lines(cp, tmp_path, [PARENT[0], *lines])
    assert read_texts(cp, "parent")[1:] == ["Fix it", "Fixed.", "Now D", "D."]
    import_lines(cp, tmp_path, [PARENT[0], *lines, event(11, "thread_rolled_back", num_turns=9), says(12, "user", "E")])
    assert read_texts(cp, "parent")[1:] == ["E"]


def test_title_is_what_the_person_wrote_in_the_editor(cp: SyncCheckpointer, tmp_path: Path) -> None:
    prompt = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix the lamp"
    import_lines(cp, tmp_path, [PARENT[0], event(1, "user_message", message=prompt)])
    assert Session.objects.get().title.strip() == "Fix the lamp"


def test_name_of_a_thread_is_its_title(cp: SyncCheckpointer, tmp_path: Path) -> None:
    import_lines(cp, tmp_path, [*PARENT, event(6, "thread_name_updated", thread_name="The fix")])
    assert Session.objects.get().title == "The fix"


def test_task_from_another_agent_begins_a_turn_and_is_no_prompt(cp: SyncCheckpointer, tmp_path: Path) -> None:
    task = {"type": "agent_message", "author": "/root", "recipient": "/root/a"}
    task["content"] = [{"type": "input_text", "text": "Look into it"}]  # type: ignore[assignment]
    import_lines(cp, tmp_path, [PARENT[0], line(1, "response_item", task), says(2, "assistant", "Looking.")])
    newest = cp.load_latest("parent")
    assert newest is not None
    assert [body["role"] for body in newest["transcript"]] == ["system", "assistant"]
    assert Session.objects.get().title == "Look into it"


def test_search_for_tools_is_a_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    call = {"type": "tool_search_call", "call_id": "s-1", "status": "completed", "arguments": {"query": "weather"}}
    found = {"type": "tool_search_output", "call_id": "s-1", "tools": [{"name": "get_weather"}]}
    import_lines(cp, tmp_path, [*PARENT, line(5, "response_item", call), line(6, "response_item", found)])
    row = ToolCall.objects.get()
    assert (row.tool, row.status) == ("tool_search", "completed")
    assert "get_weather" in str(row.result_text)


def test_compacted_rollout_is_imported_once(cp: SyncCheckpointer, tmp_path: Path) -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]}
    compaction = line(6, "compacted", {"message": "Fixed so far", "replacement_history": [kept]})
    import_lines(cp, tmp_path, [*PARENT, compaction, says(7, "assistant", "On we go.")])
    assert read_texts(cp, "parent") == ["Fix it", "On we go."]


def test_another_rollout_of_the_same_id_is_refused(cp: SyncCheckpointer, tmp_path: Path) -> None:
    import_lines(cp, tmp_path, PARENT, "1")
    with pytest.raises(ImportRefused, match="begins differently"):
        import_lines(cp, tmp_path, [PARENT[0], says(1, "user", "Another one")], "2")
