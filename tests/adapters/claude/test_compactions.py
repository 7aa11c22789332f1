"""A conversation that Claude Code compacts, in the batches of its lines: killed at each write, and forked."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from claude_agent_sdk import InMemorySessionStore, fork_session_via_store, get_session_messages_from_store

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.testing import Fault, fault_at
from tests.adapters.claude.transcripts import KEY, MIRRORED, load, read_file
from tests.conftest import StartChild
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter
from tests.support.processes import database_url

PLACE = "/srv/shop"


def _write_batches(path: Path) -> list[list[Any]]:
    """Write the batches of a conversation that is compacted: one before it, two of it, and one after it."""
    writer, ends = TranscriptWriter(path), list[int]()

    def end_batch() -> None:
        ends.append(len(read_file(path)))

    writer.user("Why is the lamp dark?")
    kept = writer.says("It is off.", message="msg_1")
    end_batch()
    writer.note("mode", mode="normal")
    writer.note("queue-operation", operation="enqueue", content="/compact")
    end_batch()
    before, writer.parent = writer.parent, None
    segment = {"headUuid": kept["uuid"], "anchorUuid": "u4", "tailUuid": kept["uuid"]}
    messages = {"anchorUuid": "u4", "uuids": [kept["uuid"]], "allUuids": [kept["uuid"]]}
    facts = {"trigger": "manual", "preTokens": 1020, "preservedSegment": segment, "preservedMessages": messages}
    about: dict[str, Any] = {"content": "Conversation compacted", "isMeta": False, "level": "info"}
    writer.line(type="system", subtype="compact_boundary", logicalParentUuid=before, compactMetadata=facts, **about)
    writer.user(
        "This session is being continued. The lamp is on.", isCompactSummary=True, isVisibleInTranscriptOnly=True
    )
    writer.user("<local-command-caveat>A command was run.</local-command-caveat>", isMeta=True)
    writer.user("<command-name>/compact</command-name>")
    writer.user("<local-command-stdout>Compacted </local-command-stdout>")
    writer.line(type="attachment", attachment={"type": "date", "date": "2026-11-28"})
    end_batch()
    writer.note("last-prompt", lastPrompt="/compact")
    writer.user("Thanks")
    writer.says("You are welcome.", message="msg_2")
    end_batch()
    lines = read_file(path)
    return [lines[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def append_in_child(url: str, batches: list[list[Any]], number: int) -> int:
    """Append batches, and die at a write boundary. Returns the number of boundaries if there is no such one."""

    async def append() -> None:
        async with HarnessSessionStore.open(url) as store:
            for batch in batches:
                await store.append(KEY, batch)

    with fault_at(number, Fault.KILL) as boundaries:
        asyncio.run(append())
    return len(boundaries)


def _read_as_sdk(store: Any, session_id: str = SESSION) -> list[Any]:
    messages = asyncio.run(get_session_messages_from_store(store, session_id, directory=PLACE))
    return [(each.type, each.message) for each in messages]


def test_a_compaction_that_is_killed_at_any_write_is_continued(
    cp: SyncCheckpointer, start_child: StartChild, tmp_path: Path
) -> None:
    batches = _write_batches(tmp_path / f"{SESSION}.jsonl")
    lines = [line for batch in batches for line in batch]
    expected = InMemorySessionStore()
    asyncio.run(expected.append(KEY, lines))
    boundaries = start_child(append_in_child, url=database_url(), batches=batches, number=0).result()
    complete = cp.load_latest(MIRRORED)
    assert complete is not None
    assert [each["id"] for each in complete["transcript"]] == [
        "u3",
        "u4",
        "u2",
        *(f"u{number}" for number in (5, 6, 7, 9, 10)),
    ]
    kept, before = complete["transcript"][2], cp.load(MIRRORED, 1)["transcript"]
    assert kept["content"] == [{"type": "text", "text": "It is off."}]
    assert [each["id"] for each in before] == ["u1", "u2"]
    assert {**before[1], "source": None} == {**kept, "source": None}
    assert boundaries >= 2 * len(batches)
    for number in range(1, boundaries + 1):
        asyncio.run(HarnessSessionStore(cp).delete(KEY))
        child = start_child(append_in_child, url=database_url(), batches=batches, number=number)
        assert child.died_by() == signal.SIGKILL
        store = HarnessSessionStore(cp)
        stored = load(store) or []
        assert stored in [[line for batch in batches[:count] for line in batch] for count in range(len(batches) + 1)]
        asyncio.run(store.append(KEY, lines[len(stored) :]))
        assert load(store) == lines
        assert _read_as_sdk(store) == _read_as_sdk(expected)
        latest = cp.load_latest(MIRRORED)
        assert latest is not None
        assert latest["transcript"] == complete["transcript"]
    store = HarnessSessionStore(cp)
    fork = asyncio.run(fork_session_via_store(store, SESSION, directory=PLACE)).session_id
    asyncio.run(store.append({**KEY, "session_id": fork}, [{"type": "mode", "mode": "normal", "sessionId": fork}]))
    assert _read_as_sdk(store, fork) == _read_as_sdk(expected)
    forked = cp.load_latest(f"-srv-shop/{fork}")
    assert forked is not None
    assert [each["role"] for each in forked["transcript"]] == [each["role"] for each in complete["transcript"]]
    assert [each["content"] for each in forked["transcript"][1:3]] == [
        each["content"] for each in complete["transcript"][1:3]
    ]
