"""Hostile transcript files: an import always ends with a report and stores what it could read."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import tempfile
import tracemalloc
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.importers.find_and_read_transcript_files import (
    build_source_file_from_stat,
    read_first_values_and_detect_json_lines,
)
from checkpoints.importers.import_errors import EncodingRefused, NothingToImport
from checkpoints.importers.watch_folder import FolderWatch
from checkpoints.management.commands.import_transcripts import REFUSED_STATUS
from checkpoints.models import Message, Session, ToolCall
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


@settings(max_examples=60)
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
@settings(max_examples=40)
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


def write_lines(path: Path, *values: Any, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{json.dumps(value)}\n" for value in values).encode(encoding))
    os.utime(path, (1_741_100_000, 1_741_100_000))
    return path


def say(uuid: str, text: str = "Hi", **fields: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, "sessionId": "s", **fields}


def test_names_that_are_no_utf_8_stop_nothing(cp: SyncCheckpointer, tmp_path: Path) -> None:
    for number, name in enumerate((b"caf\xe9.jsonl", b"caf\xe8.jsonl", b"ok.jsonl")):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        write_lines(path, *({"role": "user", "content": f"{text} {number}"} for text in ("Hi", "Bye")))
    write_lines(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")), {"unknown": 1})
    report = import_transcripts(cp, tmp_path, skip_unchanged=True)
    assert sorted(report.session_ids) == ["caf\\xe8", "caf\\xe9", "ok"]
    assert [path.rpartition("/")[2] for path in report.empty] == ["\\xff.jsonl"]
    assert json.dumps(report.to_dict()).encode()
    again = import_transcripts(cp, tmp_path, skip_unchanged=True)
    assert (again.unchanged, again.files) == (4, 0)


def test_folder_that_cannot_be_read_is_refused_and_stops_no_other(
    cp: SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open", "locked"):
        (tmp_path / name).mkdir()
        write_lines(tmp_path / name / "s.jsonl", {"role": "user", "content": "Hi"})
    scan, locked = os.scandir, str(tmp_path / "locked")

    def refuse_locked_folder(path: Any) -> Any:
        if str(path) == locked:
            raise PermissionError(errno.EACCES, "Permission denied", locked)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_locked_folder)
    with pytest.raises(CommandError, match="1 file or folder was refused") as error:
        call_command("import_transcripts", str(tmp_path), stdout=StringIO())
    assert (error.value.returncode, Session.objects.get().session_id) == (REFUSED_STATUS, "open/s")
    watch = FolderWatch(cp, tmp_path)
    watch.import_existing()
    watch.import_changes()
    assert [(folder.path, folder.why) for folder in watch.report.refused] == [
        (locked, "it cannot be read (Permission denied)")
    ]
    with pytest.raises(NothingToImport, match="locked: it cannot be read"):
        import_transcripts(cp, locked)


def test_file_that_becomes_shorter_while_it_is_read_is_reported_and_read_again(
    cp: SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    lines = [{"role": "user", "content": f"{number} {'x' * 9000}"} for number in range(100)]
    write_lines(path, *lines)
    os.utime(path, (0, 0))
    report = import_transcripts(cp, path, progress=lambda now: os.truncate(path, 0), skip_unchanged=True)
    assert 0 < report.messages < len(lines)
    assert report.damaged[-1].why == "the file became shorter while it was read; import it again"
    write_lines(path, *lines)
    again = import_transcripts(cp, path, skip_unchanged=True)
    assert (again.messages, Message.objects.count()) == (len(lines), len(lines))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "gzip"])
def test_file_that_has_to_be_converted_is_refused_with_the_reason(
    cp: SyncCheckpointer, tmp_path: Path, encoding: str
) -> None:
    write_lines(tmp_path / "ok.jsonl", say("u1"), say("u2"))
    path = write_lines(
        tmp_path / "other.jsonl", say("u3"), say("u4"), encoding="utf-8" if encoding == "gzip" else encoding
    )
    if encoding == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    report = import_transcripts(cp, tmp_path)
    assert (report.session_ids, report.skipped, len(report.refused)) == (["s"], 0, 1)
    why = "it is compressed" if encoding == "gzip" else "it is UTF-16 or UTF-32, not UTF-8"
    assert report.refused[0].why == f"{why}. Convert it to UTF-8 without compression, and import it again."
    with pytest.raises(EncodingRefused, match=why):
        import_transcripts(cp, path)


def test_document_in_utf_16_is_read(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hi"}], indent=1), encoding="utf-16")
    assert import_transcripts(cp, path).messages == 1


def test_long_line_after_a_short_one_is_not_read_as_a_document(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "long.jsonl", say("u1"), say("u2", "x" * 9_000_000))
    tracemalloc.start()
    try:
        read_first_values_and_detect_json_lines(build_source_file_from_stat(path, "long"))
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert import_transcripts(cp, path).messages == 2


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1969-12-31T00:00:00Z", 253402300799000]
)
def test_time_from_another_age_is_none(cp: SyncCheckpointer, tmp_path: Path, time: Any) -> None:
    known = "2025-03-04T10:00:00Z"
    import_transcripts(cp, write_lines(tmp_path / "s.jsonl", say("u1", timestamp=known), say("u2", timestamp=time)))
    session = Session.objects.get()
    assert session.created_at == session.updated_at == datetime(2025, 3, 4, 10, tzinfo=UTC)


@pytest.mark.parametrize("count", [-5, 10**30, 10**13, 1.5, "7", True])
def test_number_of_tokens_that_is_none_does_not_count(cp: SyncCheckpointer, tmp_path: Path, count: Any) -> None:
    message = {"role": "assistant", "id": "m1", "content": "Hi", "usage": {"input_tokens": count, "output_tokens": 4}}
    answer = {"type": "assistant", "uuid": "a1", "sessionId": "s", "message": message}
    import_transcripts(cp, write_lines(tmp_path / "s.jsonl", say("u1"), answer))
    assert Session.objects.get().total_tokens == 4


def test_number_with_thousands_of_digits_is_reported_in_plain_words(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", say("u1"), say("u2"))
    path.write_text(path.read_text() + '{"type": "user", "uuid": "u3", "x": ' + "9" * 5000 + "}\n")
    report = import_transcripts(cp, path)
    assert [(place.line, place.why) for place in report.damaged] == [(3, "a number has too many digits")]
