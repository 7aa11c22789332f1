"""Hostile transcript files: an import always ends with a report and stores what it could read."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.models import Session, ToolCall
from tests.integration.checkpoints.importers.transcript_writer import TranscriptWriter

_numbers = count(1)
odd_text = st.text(st.characters() | st.just("\0") | st.just("\ud800"), max_size=8)
any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "type",
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "isSidechain",
    "isMeta",
    "agentId",
    "message",
    "version",
    "cwd",
    "subtype",
    "content",
    "summary",
    "leafUuid",
    "costUSD",
    "isCompactSummary",
    "message.id",
    "message.role",
    "message.content",
    "message.usage",
    "message.model",
    "message.content.0",
    "message.content.0.type",
    "message.content.0.id",
    "message.content.0.name",
    "message.content.0.input",
    "message.content.0.tool_use_id",
    "message.content.0.content",
    "message.content.0.is_error",
    "message.content.0.text",
]
MESSAGE_FIELDS = [
    "type",
    "id",
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "usage",
    "created_at",
    "messages",
    "choices",
    "output",
    "input",
    "action",
    "arguments",
    "call_id",
    "summary",
    "object",
    "status",
    "error",
    "content.0",
    "content.0.type",
    "tool_calls.0",
    "tool_calls.0.function",
]


def replace_at_path(value: Any, path: str, new: Any) -> Any:
    """Return `value` with another value at a path, if it has that path."""
    name, _, rest = path.partition(".")
    key: Any = int(name) if name.isdecimal() else name
    if isinstance(value, list) and isinstance(key, int) and value:
        return [replace_at_path(value[0], rest, new) if rest else new, *value[1:]]
    if isinstance(value, dict) and isinstance(key, str):
        return {**value, key: replace_at_path(value.get(key), rest, new) if rest else new}
    return value


def write_sample_conversation(path: Path) -> list[Any]:
    transcript_writer = TranscriptWriter(path)
    transcript_writer.note("summary", summary="A greeting", leafUuid="u1")
    transcript_writer.user("Hello")
    transcript_writer.calls("call_1", "Read", {"file": "a"}, message="msg_1", usage={"input_tokens": 3})
    transcript_writer.result("call_1", "content")
    transcript_writer.line(type="system", subtype="compact_boundary", content="Compacted")
    transcript_writer.says("Bye", message="msg_2")
    return [json.loads(line) for line in path.read_text().splitlines()]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(FIELDS), any_value), min_size=1, max_size=4))
def test_any_value_in_any_claude_code_field_is_imported_without_an_error(
    cp: SyncCheckpointer, changes: list[tuple[int, str, Any]]
) -> None:
    folder = Path(tempfile.mkdtemp())
    path = folder / f"{next(_numbers):08}-1111-4222-8333-444455556666.jsonl"
    lines = write_sample_conversation(path)
    for number, field, new in changes:
        lines[number] = replace_at_path(lines[number], field, new)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (0, 0))
    first = import_transcripts(cp, path)
    again = import_transcripts(cp, path)
    assert (again.new_messages, again.new_calls) == (0, 0)
    assert again.messages == first.messages
    for session_id in first.session_ids:
        assert cp.load_latest(session_id) is not None
        assert cp.pending_tool_calls(session_id) == []
    shutil.rmtree(folder)


ENTRIES = [
    {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "x"},
    {"type": "function_call", "call_id": "d", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "d", "output": "y"},
    {"type": "mcp_call", "id": "e", "name": "h", "arguments": "{}", "output": "z"},
    {"type": "local_shell_call", "call_id": "f", "action": {}},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "j", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "k"}]},
]


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(MESSAGE_FIELDS), any_value), min_size=1, max_size=4))
def test_any_value_in_any_message_field_is_imported_without_an_error(
    cp: SyncCheckpointer, name: str, changes: list[tuple[int, str, Any]]
) -> None:
    entries: list[Any] = list(ENTRIES)
    for number, field, new in changes:
        entries[number] = replace_at_path(entries[number], field, new)
    session_id = f"s-{next(_numbers)}"
    first = import_transcripts(cp, entries, session_id=session_id, format=name)
    again = import_transcripts(cp, entries, session_id=session_id, format=name)
    assert (again.new_messages, again.new_calls, again.skipped) == (0, 0, first.skipped)
    assert Session.objects.filter(session_id__startswith=session_id).count() == first.sessions
    assert not ToolCall.objects.filter(status="issued").exists()
