"""Transcripts of Claude Code, and stores that mirror them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.models import Session, ToolCall
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter

KEY: Any = {"project_key": "-srv-shop", "session_id": SESSION}
MIRRORED = f"-srv-shop/{SESSION}"
USAGE = {"input_tokens": 10, "output_tokens": 5}


def read_file(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def mirror(store: HarnessSessionStore, entries: Iterable[Any], key: Any = KEY, *, batch: int = 1) -> None:
    """Append entries in batches."""
    lines = list(entries)

    async def append() -> None:
        for start in range(0, len(lines), batch):
            await store.append(key, lines[start : start + batch])

    asyncio.run(append())


def load(store: HarnessSessionStore, key: Any = KEY) -> list[Any] | None:
    return asyncio.run(store.load(key))  # type: ignore[arg-type]


def write_conversation(path: Path) -> TranscriptWriter:
    """Write a conversation with all that a reader has to join: parts of messages, notes, an edit, a compaction."""
    transcript_writer = TranscriptWriter(path)
    transcript_writer.note("queue-operation", operation="enqueue")
    transcript_writer.user("Why is the lamp dark?")
    transcript_writer.agent({"type": "thinking", "thinking": "Look."}, message="msg_1", usage=USAGE)
    transcript_writer.note("progress", data="50 %")
    transcript_writer.says("I look.", message="msg_1", usage=USAGE)
    transcript_writer.calls("call_1", "Read", {"file": "lamp.py", "after": 3}, message="msg_1", usage=USAGE)
    transcript_writer.calls("call_2", "Bash", {"command": "make"}, message="msg_1", usage=USAGE)
    transcript_writer.result("call_1", "lamp = off")
    transcript_writer.result("call_2", "no make here", is_error=True)
    answer = transcript_writer.says("It is **off**. Grüße 🪔", message="msg_2", usage=USAGE)
    transcript_writer.user("Then what?")
    transcript_writer.says("I do not know.", message="msg_3", usage=USAGE)
    transcript_writer.user("And now?", parentUuid=answer["uuid"])
    kept = transcript_writer.says("Now it is on.", message="msg_4", usage=USAGE)["uuid"]
    transcript_writer.compaction("The lamp is on.", kept=[kept])
    transcript_writer.user("Thanks")
    transcript_writer.note("custom-title", customTitle="The lamp")
    transcript_writer.calls("call_3", "Bash", {"command": "make light"}, message="msg_5", usage=USAGE)
    return transcript_writer


def describe(cp: SyncCheckpointer, session_id: str) -> dict[str, Any]:
    """Return what the pages show of a session, without the fields in which an imported and a live one differ: the log
    of a live one has the lines, so its messages do not repeat them."""
    row = Session.objects.get(session_id=session_id)
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    names = ("call_id", "tool", "args", "status", "result", "issued_at", "settled_at", "side_effects")
    calls = ToolCall.objects.filter(session=row, call_id__in=("call_1", "call_2")).order_by("issued_at", "call_id")
    metadata = json.loads(row.metadata)
    metadata.pop("import")
    metadata.pop("project")
    metadata.pop(FRAMEWORK_MARK, None)  # an import has none
    return {
        "transcript": [_remove_lines_from_source(message) for message in loaded["transcript"]],
        "calls": list(calls.values_list(*names)),
        "metadata": metadata,
        "row": (
            row.title,
            row.agent,
            row.labels,
            row.total_tokens,
            row.budget_spent_usd,
            row.created_at,
            row.has_times,
        ),
    }


def _remove_lines_from_source(message: dict[str, Any]) -> dict[str, Any]:
    names = {"before", "format", "lines"}
    source = {name: value for name, value in message.get("source", {}).items() if name not in names}
    rest = {name: value for name, value in message.items() if name != "source"}
    return {**rest, "source": source} if source else rest
