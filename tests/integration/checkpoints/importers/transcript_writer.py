"""Writer of Claude Code transcripts, with one second between lines."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "0f0e0d0c-1111-4222-8333-444455556666"
THEN = datetime(2025, 3, 4, 10, 0, tzinfo=UTC)
#: Time of the last change of a file whose transcript has ended.
ENDED = datetime(2025, 3, 4, 12, 0, tzinfo=UTC)
Line = dict[str, Any]


class TranscriptWriter:
    """Writer of one conversation. Each method appends a line to the file and returns it."""

    def __init__(self, path: Path, session: str = SESSION, *, prefix: str = "u", **always: Any) -> None:
        self.path, self.session, self.always = path, session, always
        self._prefix, self._number = prefix, 0
        self.parent: str | None = None
        self.start, self.live = THEN, False
        path.parent.mkdir(parents=True, exist_ok=True)

    def raw(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
        if not self.live:
            os.utime(self.path, (ENDED.timestamp(), ENDED.timestamp()))

    def line(self, **fields: Any) -> Line:
        """Append a line with its envelope; `parentUuid` in `fields` attaches it to another line."""
        self._number = number = self._number + 1
        line = {
            "uuid": f"{self._prefix}{number}",
            "parentUuid": self.parent,
            "sessionId": self.session,
            "timestamp": (self.start + timedelta(seconds=number)).isoformat().replace("+00:00", "Z"),
            "cwd": "/srv/shop",
            "gitBranch": "main",
            "version": "2.1.12",
            "userType": "external",
            "isSidechain": False,
            **self.always,
            **fields,
        }
        self.parent = line["uuid"]
        self.write(line)
        return line

    def write(self, line: Line) -> None:
        self.raw(json.dumps(line, ensure_ascii=False) + "\n")

    def user(self, text: str, **fields: Any) -> Line:
        return self.line(type="user", message={"role": "user", "content": text}, **fields)

    def agent(self, *blocks: Line, message: str, usage: Line | None = None, **fields: Any) -> Line:
        said = {"id": message, "type": "message", "role": "assistant", "model": "claude-x", "content": list(blocks)}
        return self.line(type="assistant", message={**said, "usage": usage or {}}, requestId=f"req_{message}", **fields)

    def says(self, text: str, *, message: str, **fields: Any) -> Line:
        return self.agent({"type": "text", "text": text}, message=message, **fields)

    def calls(self, call_id: str, tool: str, args: Line, *, message: str, **fields: Any) -> Line:
        return self.agent({"type": "tool_use", "id": call_id, "name": tool, "input": args}, message=message, **fields)

    def result(self, call_id: str, content: Any, *, is_error: bool = False, **fields: Any) -> Line:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
        fields = {"toolUseResult": "…", **fields}
        return self.line(type="user", message={"role": "user", "content": [block]}, **fields)

    def note(self, kind: str, **fields: Any) -> None:
        self.write({"type": kind, "sessionId": self.session, **fields})

    def compaction(self, summary: str, *, kept: Sequence[str] = (), **facts: Any) -> None:
        """Append the lines of a compaction that keeps lines; `facts` replace what it says about it."""
        before, self.parent = self.parent, None
        anchor = f"{self._prefix}{self._number + 2}"  # the summary
        preserved: Line = {}
        if kept:
            segment = {"headUuid": kept[0], "anchorUuid": anchor, "tailUuid": kept[-1]}
            messages = {"anchorUuid": anchor, "uuids": [*kept], "allUuids": [*kept]}
            preserved = {"preservedSegment": segment, "preservedMessages": messages}
        self.line(
            type="system",
            subtype="compact_boundary",
            content="Conversation compacted",
            logicalParentUuid=before,
            compactMetadata={"trigger": "auto", "preTokens": 155_000, **preserved, **facts},
        )
        self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
