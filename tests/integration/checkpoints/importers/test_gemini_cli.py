"""Logs of Gemini CLI: messages that come again with more in them, rewound and compressed chats, subagents."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.importers import ImportReport, import_transcripts
from checkpoints.models import Checkpoint, Message, Session, ToolCall

T = "2026-03-04T10:00:{:02}.000Z"
HEADER = {"sessionId": "g-1", "projectHash": "h", "startTime": T.format(0), "lastUpdated": T.format(0), "kind": "main"}
TOKENS = {"input": 50, "output": 5, "cached": 20, "thoughts": 7, "tool": 0, "total": 62}


def message(number: int, kind: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "timestamp": T.format(number), "type": kind, "content": text, **fields}


def call(name: str, second: int, output: str | None, **fields: Any) -> dict[str, Any]:
    answer = [{"functionResponse": {"id": name, "name": "read_file", "response": {"output": output}}}]
    status = "executing" if output is None else "success"
    result = None if output is None else answer
    args = {"file_path": name}
    return {"id": name, "name": "read_file", "args": args, "status": status, "timestamp": T.format(second)} | {
        "result": result,
        **fields,
    }


def update(**facts: Any) -> dict[str, Any]:
    return {"$set": facts}


SAYS = message(2, "gemini", "Reading both.", model="m-1")
LOG = [
    HEADER,
    message(1, "user", "Compare them"),
    update(lastUpdated=T.format(1)),
    SAYS,
    SAYS | {"tokens": TOKENS},
    SAYS | {"tokens": TOKENS, "toolCalls": [call("a", 4, "text of a")]},
    SAYS | {"tokens": TOKENS, "toolCalls": [call("a", 4, "text of a"), call("b", 5, "text of b")]},
    update(lastUpdated=T.format(5)),
    message(6, "gemini", "They are equal.", model="m-1", tokens=TOKENS),
    update(summary="Comparison of two files"),
]
TEXTS = ["Compare them", "Reading both.", "text of a", "text of b", "They are equal."]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "chats" / "session-2026-03-04T10-00-g-1.jsonl"


def append(path: Path, *records: dict[str, Any], live: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in records)
    if not live:
        os.utime(path, (1_772_600_000, 1_772_600_000))


def read_newest_bodies(cp: SyncCheckpointer, session_id: str = "g-1") -> list[Any]:
    newest = cp.load_latest(session_id)
    assert newest is not None
    return list(newest["transcript"])


def list_texts(bodies: list[Any]) -> list[str]:
    """List the texts of messages and results in their order."""
    texts = []
    for body in bodies:
        for block in body["blocks"]:
            text = block.get("text", block.get("content"))
            texts += [text] if isinstance(text, str) else []
    return texts


def count_tokens() -> int:
    return int(json.loads(Checkpoint.objects.order_by("-version")[0].usage or "{}")["total_tokens"])


def import_and_repeat(cp: SyncCheckpointer, path: Path) -> ImportReport:
    """Import, and import again, which adds nothing."""
    report = import_transcripts(cp, path)
    again = import_transcripts(cp, path)
    assert (again.new_messages, again.new_calls, again.new_versions) == (0, 0, 0)
    assert (report.unknown, report.skipped, dict(report.formats)) == ({}, 0, {"gemini-cli": 1})
    return report


def test_log_counts_a_message_that_comes_again_once(cp: SyncCheckpointer, log: Path) -> None:
    append(log, *LOG)
    report = import_and_repeat(cp, log)
    assert (report.messages, report.calls, report.unanswered) == (5, 2, 0)
    assert list_texts(read_newest_bodies(cp)) == TEXTS
    assert count_tokens() == 124
    session = Session.objects.get()
    assert (session.title, session.status, session.total_tokens) == ("Comparison of two files", "completed", 124)
    seconds = [(row.settled_at - row.issued_at).total_seconds() for row in ToolCall.objects.all() if row.settled_at]
    assert seconds == [2.0, 3.0]


@pytest.mark.parametrize("cuts", [(4,), (5,), (6,), (4, 6), (2, 3, 4, 5, 6, 7, 8, 9)])
def test_log_that_is_imported_in_pieces_keeps_each_text_call_and_token_once(
    cp: SyncCheckpointer, log: Path, cuts: tuple[int, ...]
) -> None:
    start = 0
    for cut in [*cuts, len(LOG)]:
        append(log, *LOG[start:cut])
        import_and_repeat(cp, log)
        start = cut
    assert list_texts(read_newest_bodies(cp)) == TEXTS
    assert sorted(ToolCall.objects.values_list("call_id", "status")) == [("a", "completed"), ("b", "completed")]
    assert count_tokens() == 124
    assert Message.objects.count() == len({row.message_id for row in Message.objects.all()})


def test_results_that_come_in_another_order_than_their_calls_follow_what_is_there(
    cp: SyncCheckpointer, log: Path
) -> None:
    running = SAYS | {"toolCalls": [call("a", 4, None), call("b", 4, None)]}
    append(log, *LOG[:2], running)
    import_and_repeat(cp, log)
    append(log, SAYS | {"toolCalls": [call("a", 4, None), call("b", 5, "text of b")]})
    import_and_repeat(cp, log)
    append(log, SAYS | {"toolCalls": [call("a", 6, "text of a"), call("b", 5, "text of b")]})
    import_and_repeat(cp, log)
    append(log, message(7, "gemini", "They are equal."))
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp)) == [*TEXTS[:2], "text of b", "text of a", TEXTS[4]]


def test_rewound_messages_remain_in_an_earlier_version(cp: SyncCheckpointer, log: Path) -> None:
    append(log, *LOG)
    import_and_repeat(cp, log)
    append(log, {"$rewindTo": "m6"}, message(7, "gemini", "They differ.", tokens=TOKENS))
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp)) == [*TEXTS[:4], "They differ."]
    assert count_tokens() == 186
    append(log, {"$rewindTo": "m1"}, message(8, "user", "Start over"))
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp)) == ["Start over"]
    assert Message.objects.filter(message_id="m6").exists()


def test_compressed_chat_starts_over_with_what_is_new(cp: SyncCheckpointer, log: Path) -> None:
    shortened = [message(1, "user", "[masked]"), SAYS | {"content": "[masked]"}, LOG[8]]
    append(log, *LOG, update(messages=shortened))  # old outputs are masked, which is no other conversation
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp)) == TEXTS
    append(log, update(messages=[message(9, "user", "Summary"), LOG[8]]), message(10, "gemini", "On we go."))
    import_and_repeat(cp, log)
    bodies = read_newest_bodies(cp)
    assert bodies[0]["blocks"] == [{"kind": "compaction", "messages_before": 5}]
    assert list_texts(bodies) == ["Summary", "On we go."]
    assert count_tokens() == 124


def test_chat_of_a_subagent_is_linked_with_the_call_that_started_it(cp: SyncCheckpointer, log: Path) -> None:
    started = SAYS | {"toolCalls": [call("a", 5, "done", agentId="sub-1")]}
    append(log, HEADER | {"sessionId": "parent-1"}, LOG[1], started)
    child = log.parent / "parent-1" / "sub-1.jsonl"
    append(child, HEADER | {"sessionId": "sub-1", "kind": "subagent"}, message(3, "user", "Look"))
    import_transcripts(cp, log.parent)
    assert json.loads(Session.objects.get(session_id="parent-1").metadata)["subagents"] == {"sub-1": "a"}
    session = Session.objects.get(session_id="sub-1")
    assert (session.parent_session_id, session.agent) == ("parent-1", "gemini-cli/subagent")


def test_whole_chat_and_the_log_that_continues_it_are_one_session(cp: SyncCheckpointer, log: Path) -> None:
    whole = log.with_suffix(".json")
    whole.parent.mkdir()
    whole.write_text(json.dumps({**HEADER, "messages": [LOG[1], LOG[6]]}))
    append(log, HEADER, LOG[1], LOG[6], LOG[8])
    report = import_transcripts(cp, log.parent)
    assert (report.sessions, report.refused, Session.objects.count()) == (2, [], 1)
    assert list_texts(read_newest_bodies(cp)) == TEXTS


CONTEXT = {"id": "ctx", "timestamp": T.format(0), "type": "user", "content": [{"text": "<session_context>\nToday"}]}


def test_context_that_the_program_writes_is_no_prompt(cp: SyncCheckpointer, log: Path) -> None:
    append(log, HEADER, update(messages=[CONTEXT], lastUpdated=T.format(0)), *LOG[1:9], update(sessionId="g-1"))
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp))[1:] == TEXTS
    assert (Session.objects.get().title, read_newest_bodies(cp)[0]["role"]) == ("Compare them", "system")
    orphan = log.with_name("session-2026-03-04T10-09-g-1.jsonl")  # a resumed chat leaves such a file
    append(orphan, HEADER, update(messages=[CONTEXT]))
    import_and_repeat(cp, orphan)
    assert list_texts(read_newest_bodies(cp))[1:] == TEXTS


def test_history_with_results_and_without_notices_is_no_compression(cp: SyncCheckpointer, log: Path) -> None:
    notice = message(5, "info", "Update available")
    results = message(5, "user", "") | {"id": "r", "content": [{"functionResponse": {"id": "a", "response": {}}}]}
    append(log, HEADER, CONTEXT, LOG[1], LOG[6], notice, LOG[8])
    append(log, update(messages=[CONTEXT, LOG[1], LOG[6], results, LOG[8]]), message(9, "user", "Thanks"))
    import_and_repeat(cp, log)
    assert list_texts(read_newest_bodies(cp))[1:] == [*TEXTS[:4], "Update available", TEXTS[4], "Thanks"]


def test_list_of_prompts_beside_the_chats_is_no_transcript(cp: SyncCheckpointer, log: Path) -> None:
    append(log, *LOG)
    prompt = {"sessionId": "g-1", "messageId": 0, "type": "user", "message": "Compare them", "timestamp": T.format(1)}
    (log.parent.parent / "logs.json").write_text(json.dumps([prompt]))
    report = import_transcripts(cp, log.parent.parent)
    assert (dict(report.formats), [Path(path).name for path in report.empty]) == ({"gemini-cli": 1}, ["logs.json"])
