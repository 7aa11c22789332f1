"""A store of sessions keeps every line, whoever writes, and shows what an import of the file shows."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer, ToolPolicies
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.enums import Role
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InvalidIdentifier,
    InvalidInput,
    NotRepresentable,
    SessionBusy,
    SessionFinished,
    StorageUnavailable,
    VersionConflict,
)
from checkpoints.formats import digests
from checkpoints.framework_states import opaque_line_log
from checkpoints.importers import import_transcripts
from checkpoints.models import Blob, FrameworkWrite, Message, Session
from tests.adapters import other_processes
from tests.adapters.claude.agents import write_lines
from tests.adapters.claude.transcripts import KEY, MIRRORED, describe, load, mirror, read_file, write_conversation
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter
from tests.support.factories import make_user
from tests.support.page_text import visible_text
from tests.support.processes import database_url


@pytest.fixture
def store(cp: SyncCheckpointer) -> HarnessSessionStore:
    return HarnessSessionStore(cp)


# lines


def test_lines_come_back_as_they_were_written(store: HarnessSessionStore) -> None:
    lines: list[Any] = [
        {"z": 1, "type": "x", "a": {"b": [1.0, 1, True, None, 2**70], "\ud800": "\udfff"}, "uuid": "u1"},
        {"type": "user", "uuid": "u2", "message": {"role": "user", "content": "a\0b 🪔 \u2028"}},
        {"type": "title", "n": 1},
        {"type": "title", "n": 1},
        {"type": "user", "uuid": "u3", "message": {"role": "user", "content": "x" * 5_000_000}},
        {"type": "x", "uuid": "long " * 100},
    ]
    mirror(store, lines, batch=4)
    loaded = load(store)
    assert loaded is not None
    assert [json.dumps(line) for line in loaded] == [json.dumps(line) for line in lines]


def test_a_uuid_is_stored_once(store: HarnessSessionStore, open_checkpointer: Open) -> None:
    first, second = {"type": "x", "uuid": "u1"}, {"type": "x", "uuid": "u2"}
    mirror(store, [first, second, first], batch=3)
    mirror(store, [second, {"type": "x", "uuid": "u3"}], batch=2)
    mirror(HarnessSessionStore(open_checkpointer()), [first, {"type": "x"}], batch=2)
    loaded = load(store)
    assert loaded is not None
    assert [line.get("uuid") for line in loaded] == ["u1", "u2", "u3", None]


def test_a_program_with_hooks_stores_nothing_behind_the_lines_of_another_one(
    store: HarnessSessionStore, open_checkpointer: Open
) -> None:
    text = {"type": "user", "message": {"role": "user", "content": "Hello"}, "timestamp": "2026-01-01T10:00:00Z"}
    overtaken = HarnessSessionStore(open_checkpointer())
    policies = ToolPolicies({"mcp__shop__refund": {}})
    for each in (store, overtaken):
        each.exclude_calls_logged_by_hooks(policies)
    mirror(store, [{**text, "uuid": "u1"}])
    for uuid in ("u2", "u3"):
        with pytest.raises(VersionConflict):
            mirror(overtaken, [{**text, "uuid": uuid}])
    lines = load(overtaken)
    assert lines is not None
    assert [line["uuid"] for line in lines] == ["u1"]
    mirror(overtaken, [{**text, "uuid": "u4"}])  # what the other one stored is in its conversation now


def test_a_large_batch_does_not_read_the_lines_before_it(
    cp: SyncCheckpointer, store: HarnessSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"type": "user", "message": {"role": "user", "content": "Hello"}, "timestamp": "2026-01-01T10:00:00Z"}
    mirror(store, [{**text, "uuid": str(number)} for number in range(3)])

    def read_lines(*_: Any) -> None:
        raise AssertionError("The lines are read again.")

    with monkeypatch.context() as patches:
        patches.setattr(opaque_line_log, "load_session_lines", read_lines)
        mirror(store, [*({"type": "note"} for _ in range(100)), {**text, "uuid": "after notes"}], batch=101)
        mirror(store, [{"type": "note"} for _ in range(100)], batch=100)
        mirror(store, [{**text, "uuid": "last"}])

    assert len(load(store) or []) == 205
    assert len((cp.load_latest(MIRRORED) or {})["transcript"]) == 205


def test_processes_write_the_same_session_at_the_same_time(store: HarnessSessionStore, start_child: StartChild) -> None:
    children = [start_child(write_lines, url=database_url(), name=name, count=8) for name in "ab"]
    for child in children:
        child.result()
    loaded = load(store)
    assert loaded is not None
    uuids = [line["uuid"] for line in loaded]
    assert sorted(uuids) == sorted(["same", *(f"{name}{n}" for name in "ab" for n in range(8))])
    assert [[uuid for uuid in uuids if uuid.startswith(name)] for name in "ab"] == [
        [f"{name}{n}" for n in range(8)] for name in "ab"
    ]


def test_hosts_that_take_turns_write_one_transcript(
    cp: SyncCheckpointer, open_checkpointer: Open, tmp_path: Path
) -> None:
    transcript_writer = write_conversation(tmp_path / f"{SESSION}.jsonl")
    hosts = [HarnessSessionStore(cp), HarnessSessionStore(open_checkpointer())]
    lines = read_file(transcript_writer.path)
    for number, line in enumerate(lines):
        mirror(hosts[number % 2], [line])
    assert load(hosts[0]) == load(hosts[1]) == lines
    import_transcripts(cp, transcript_writer.path)
    assert describe(cp, MIRRORED)["transcript"] == describe(cp, SESSION)["transcript"]


def test_lines_that_another_process_has_removed_are_not_taken_for_stored(
    store: HarnessSessionStore, start_child: StartChild
) -> None:
    questions = [_ask(number) for number in range(4)]
    mirror(store, questions[:2])  # the session is known from then on
    assert start_child(other_processes.delete_all_states, url=database_url(), session_id=MIRRORED).result()
    mirror(store, questions[2:])
    assert load(store) == questions[2:]


def test_a_missing_line_is_not_left_out(store: HarnessSessionStore) -> None:
    mirror(store, [_ask(number) for number in range(3)])
    FrameworkWrite.objects.filter(position=1).delete()
    with pytest.raises(CheckpointCorrupted):
        load(store)


def _ask(number: int) -> dict[str, Any]:
    """Build a line that a version shows."""
    message = {"role": "user", "content": f"Question {number}"}
    return {"type": "user", "uuid": f"question {number}", "timestamp": "2026-01-01T10:00:00Z", "message": message}


def test_lines_are_stored_after_the_newest_version_was_deleted(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path
) -> None:
    lines = read_file(write_conversation(tmp_path / f"{SESSION}.jsonl").path)
    mirror(store, lines[:-2])
    cp.delete_checkpoint(MIRRORED, cp.list_checkpoints(MIRRORED)[0]["version"])
    mirror(store, lines[-2:])
    assert load(store) == lines


# the readable transcript


@pytest.mark.parametrize("seed", range(4))
def test_a_mirrored_session_is_what_an_import_of_its_file_is(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path, seed: int
) -> None:
    transcript_writer = write_conversation(tmp_path / f"{SESSION}.jsonl")
    transcript_writer.says("There is light.", message="msg_6")
    transcript_writer.note("progress", data="100 %")  # stored with the next message
    transcript_writer.user("And upstairs?", cwd="/srv/attic")
    lines, chance = read_file(transcript_writer.path), random.Random(seed)
    while lines:
        size = chance.randint(1, 1 + 2 * seed)
        mirror(store, lines[:size], batch=size)
        del lines[:size]
        if chance.random() < 0.3:
            store = HarnessSessionStore(cp)  # as if the process had been started again
    import_transcripts(cp, transcript_writer.path)
    assert describe(cp, MIRRORED) == describe(cp, SESSION)


def test_its_page_is_that_of_the_imported_file(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path, client: Client
) -> None:
    transcript_writer = write_conversation(tmp_path / f"{SESSION}.jsonl")
    transcript_writer.result("call_3", "light")
    transcript_writer.says("There is light.", message="msg_6")
    transcript_writer.user("And the stairs?")
    transcript_writer.says("Dark.", message="msg_7")
    transcript_writer.says("I go on.", message="msg_7")
    mirror(store, read_file(transcript_writer.path))
    import_transcripts(cp, transcript_writer.path)
    client.force_login(make_user(role=Role.AUDITOR))
    pages = []
    for session_id in (MIRRORED, SESSION):
        row = Session.objects.get(session_id=session_id)
        text = visible_text(client.get(f"/sessions/{row.pk}/"))
        conversation = text[text.index("Conversation compacted") : text.index("I go on.") + 8]
        pages.append(re.sub(r"version \d+|v\d+", "version", conversation))
    assert pages[0] == pages[1]


def test_a_subagent_is_a_session_of_its_own(cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path) -> None:
    main, about = (
        TranscriptWriter(tmp_path / f"{SESSION}.jsonl"),
        {"agentType": "Explore", "description": "Look for lamps"},
    )
    main.user("Where are lamps?")
    main.calls("call_1", "Task", {"prompt": "Look"}, message="msg_1")
    side = TranscriptWriter(
        tmp_path / SESSION / "subagents" / "agent-a1.jsonl", prefix="s", isSidechain=True, agentId="a1"
    )
    side.path.with_suffix(".meta.json").write_text(json.dumps(about))
    side.user("Look")
    side.says("In the hall.", message="msg_s1")
    main.result("call_1", "In the hall.", toolUseResult={"agentId": "a1"})
    key = {**KEY, "subpath": "subagents/agent-a1"}
    mirror(store, read_file(main.path))
    mirror(store, [*read_file(side.path), {**about, "type": "agent_metadata"}], key)
    import_transcripts(cp, tmp_path)
    for part in ("", "/agent-a1"):
        mirrored, imported = describe(cp, MIRRORED + part), describe(cp, SESSION + part)
        links = mirrored["metadata"].pop("subagents", {})
        assert {name.removeprefix("-srv-shop/"): call for name, call in links.items()} == imported["metadata"].pop(
            "subagents", {}
        )
        assert mirrored == imported
    row = Session.objects.get(session_id=f"{MIRRORED}/agent-a1")
    assert (row.parent_session_id, row.agent, row.title) == (MIRRORED, "claude-code/Explore", "Look for lamps")


def test_old_messages_that_were_pruned_do_not_come_back(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path
) -> None:
    transcript_writer = write_conversation(tmp_path / f"{SESSION}.jsonl")
    mirror(store, read_file(transcript_writer.path))
    before = describe(cp, MIRRORED)["transcript"]
    count = Message.objects.count()
    cp.prune(MIRRORED, keep_last=1)
    kept = Message.objects.count()
    assert kept < count
    mirror(HarnessSessionStore(cp), [transcript_writer.user("Still there?")])
    assert Message.objects.count() == kept + 1
    assert describe(cp, MIRRORED)["transcript"][:-1] == before
    assert load(store) == read_file(transcript_writer.path)


def test_a_line_without_a_form_in_the_transcript_is_kept_all_the_same(
    cp: SyncCheckpointer, store: HarnessSessionStore
) -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]
    lines = [
        {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "One"}},
        {"type": "user", "uuid": "u2", "sessionId": "s", "message": {"role": "user", "content": deep}},
        {"type": "user", "uuid": "u3", "sessionId": "s", "message": {"role": "user", "content": "Three"}},
    ]
    mirror(store, lines, batch=3)
    assert load(store) == lines
    assert [message["content"] for message in describe(cp, MIRRORED)["transcript"]] == ["One", "Three"]


# refused


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("text", NotRepresentable),
        ({"n": float("nan")}, NotRepresentable),
        ({1: 2}, NotRepresentable),
        ({"a": {1}}, NotRepresentable),
    ],
)
def test_a_damaged_line_is_refused_with_its_batch(store: HarnessSessionStore, entry: Any, error: type) -> None:
    mirror(store, [{"type": "x", "uuid": "u1"}])
    with pytest.raises(error):
        mirror(store, [{"type": "x", "uuid": "u2"}, entry], batch=2)
    assert load(store) == [{"type": "x", "uuid": "u1"}]


@pytest.mark.parametrize(
    "key",
    [
        {},
        "key",
        {"project_key": "p"},
        {"project_key": "p", "session_id": ""},
        {**KEY, "subpath": ""},
        {**KEY, "session_id": "a\0"},
    ],
)
def test_a_wrong_key_is_refused(store: HarnessSessionStore, key: Any) -> None:
    with pytest.raises((InvalidInput, InvalidIdentifier)):
        mirror(store, [{"type": "x"}], key)
    with pytest.raises((InvalidInput, InvalidIdentifier)):
        load(store, key)
    assert not Session.objects.exists()


def test_keys_that_look_alike_are_different_sessions(store: HarnessSessionStore) -> None:
    keys: list[Any] = [
        {"project_key": "a", "session_id": "b"},
        {"project_key": "a", "session_id": "b", "subpath": "subagents/agent-c"},
        {"project_key": "a", "session_id": "b", "subpath": "agent-c"},
        {"project_key": "a", "session_id": "b", "subpath": "subagents/workflows/run-1/agent-c"},
        {"project_key": "a", "session_id": "b/agent-c"},
        {"project_key": "a/b", "session_id": "agent-c"},
        {"project_key": "p" * 250, "session_id": "b"},
        {"project_key": "p" * 250, "session_id": "c"},
    ]
    for number, key in enumerate(keys):
        mirror(store, [{"type": "x", "n": number}], key)
    assert [load(store, key) for key in keys] == [[{"type": "x", "n": number}] for number in range(len(keys))]
    subkeys = asyncio.run(store.list_subkeys(keys[0]))
    assert sorted(subkeys) == ["agent-c", "subagents/agent-c", "subagents/workflows/run-1/agent-c"]
    assert [each["session_id"] for each in asyncio.run(store.list_sessions("p" * 250))] == ["b", "c"]


def test_a_write_beside_a_run_of_another_client_is_refused(
    cp: SyncCheckpointer, store: HarnessSessionStore, open_checkpointer: Open
) -> None:
    mirror(store, [{"type": "x", "uuid": "u1"}])
    cp.start_session(MIRRORED)
    other = HarnessSessionStore(open_checkpointer())
    with pytest.raises(SessionBusy):
        mirror(other, [{"type": "x", "uuid": "u2"}])
    mirror(store, [{"type": "x", "uuid": "u3"}])
    cp.release_session(MIRRORED)
    mirror(other, [{"type": "x", "uuid": "u2"}])
    assert [line["uuid"] for line in load(store) or []] == ["u1", "u3", "u2"]
    cp.start_session(MIRRORED)
    cp.finish_session(MIRRORED, "completed")
    with pytest.raises(SessionFinished):
        mirror(store, [{"type": "x", "uuid": "u4"}])


# bytes


def test_the_text_of_a_line_is_stored_once(
    store: HarnessSessionStore, cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    letters, lines, parent = random.Random(1), list[Any](), None
    for number in range(12):
        text = "".join(letters.choices('abcdefghijklmnopqrstuvwxyz äé数\n"', k=3000))
        role = ("user", "assistant")[number % 2]
        about = {"type": role, "uuid": f"u{number}", "parentUuid": parent, "timestamp": "2026-01-01T10:00:00Z"}
        message = {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]}
        lines.append({**about, "sessionId": SESSION, "message": message})
        parent = f"u{number}"
    mirror(store, lines[:4], batch=2)
    mirror(HarnessSessionStore(open_checkpointer()), lines[4:], batch=8)
    assert load(store) == lines
    writes = list(FrameworkWrite.objects.all())
    assert len(writes) == len(lines)
    assert max(len(write.content or b"") for write in writes) < 120
    transcript = (cp.load_latest(MIRRORED) or {})["transcript"]
    assert all("source" not in message for message in transcript)
    assert not Blob.objects.exists()
    session_id = Session.objects.get().session_id
    cp.prune(session_id, keep_last=1)
    assert load(store) == lines


def test_lines_of_an_older_version_are_read_and_known(store: HarnessSessionStore) -> None:
    lines = [{"type": "x", "uuid": f"u{number}", "text": "a" * 400} for number in range(3)]
    mirror(store, lines[:2], batch=2)
    for write, line in zip(FrameworkWrite.objects.order_by("position"), lines, strict=False):
        content = json.dumps(line).encode()
        digest = digests.digest_blob("json", content)
        Blob.objects.create(session_id=write.session_id, digest=digest, type="json", content=content)
        none = {"type": "", "content": None, "compressed": False, "base_segment": None, "base_position": None}
        FrameworkWrite.objects.filter(pk=write.pk).update(task_id=line["uuid"], digest=digest, **none)
    again = HarnessSessionStore(store.sync_checkpointer)
    mirror(again, [lines[1], lines[2]], batch=2)
    assert load(again) == lines


def test_a_note_and_another_folder_after_an_answer_do_not_change_the_answer(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path
) -> None:
    transcript_writer = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    transcript_writer.user("Where are lamps?")
    transcript_writer.says("In the hall.", message="msg_1")
    transcript_writer.note("progress", data="100 %")
    transcript_writer.user("Thanks", cwd="/srv/attic")
    mirror(store, read_file(transcript_writer.path))
    versions = [cp.load(MIRRORED, number)["transcript"] for number in (1, 2, 3)]
    assert [versions[2][: len(version)] for version in versions] == versions
    answer, thanks = versions[2][1:]
    assert "source" not in answer or answer["source"].keys() == {"context"}
    assert thanks["source"] == {"context": {**thanks["source"]["context"], "cwd": "/srv/attic"}}


def test_records_of_the_program_are_stored_once_and_no_messages_in_the_store_and_in_an_import(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path
) -> None:
    transcript_writer = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    attachment: dict[str, Any] = {"type": "prompt_snapshot", "systemPrompt": ["You are a lamp."], "tools": ["x" * 9000]}
    transcript_writer.user("Where are lamps?")
    transcript_writer.line(type="attachment", attachment={"type": "file", "filename": "/a", "content": "In the hall"})
    transcript_writer.line(type="attachment", attachment=attachment)
    transcript_writer.note("data-flow-records", records=[])
    transcript_writer.agent({"type": "text", "text": "I look."}, message="msg_1")
    transcript_writer.line(type="attachment", attachment=attachment)
    transcript_writer.calls("call_1", "Read", {"file": "/a"}, message="msg_1")
    transcript_writer.result("call_1", "lamp")
    transcript_writer.line(type="attachment", attachment=attachment)
    transcript_writer.note("cost-state", totalCostUSD=1)
    lines = read_file(transcript_writer.path)
    mirror(store, lines)
    import_transcripts(cp, transcript_writer.path)
    assert [json.dumps(line) for line in load(store) or ()] == [json.dumps(line) for line in lines]
    assert describe(cp, MIRRORED) == describe(cp, SESSION)
    transcript = (cp.load_latest(MIRRORED) or {})["transcript"]
    assert [message["role"] for message in transcript] == ["user", "system", "assistant", "user"]
    assert "You are a lamp." not in json.dumps(transcript)
    assert "trailing_notes" not in json.loads(Session.objects.get(session_id=MIRRORED).metadata)["import"]


@pytest.mark.parametrize("batch", [1, 2])
def test_lines_that_an_outage_refused_are_stored_before_the_next_ones(
    cp: SyncCheckpointer, store: HarnessSessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    lines = read_file(write_conversation(tmp_path / f"{SESSION}.jsonl").path)
    mirror(store, lines[:2], batch=2)

    def refuse(*_: Any) -> None:
        raise StorageUnavailable("The database is restarted.", may_have_happened=False)

    with monkeypatch.context() as patches:
        patches.setattr(store, "_append_lines", refuse)
        for entries in (lines[2:3], lines[3:5]):
            for _ in range(3):
                with pytest.raises(StorageUnavailable):
                    asyncio.run(store.append(KEY, entries))
    mirror(store, lines[5:], batch=batch)
    assert [json.dumps(line) for line in load(store) or ()] == [json.dumps(line) for line in lines]
    import_transcripts(cp, tmp_path / f"{SESSION}.jsonl")
    assert describe(cp, MIRRORED) == describe(cp, SESSION)
