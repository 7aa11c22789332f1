"""Which files hold transcripts, and which conversation each is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from checkpoints.adapters.importing.refusal import NothingToImport

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT = "agent-"
#: A transcript names its session in one of its first lines.
_PEEK_LINES = 50
_PEEK_BYTES = 4 * 1024 * 1024
#: One of these stands in every kind of line that is known.
_MARKS = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})


@dataclass(frozen=True)
class Source:
    """One transcript file. `agent_id` is set where it is a subagent's; `session_id` is then its parent's."""

    path: Path
    session_id: str
    agent_id: str = ""
    #: What the file beside a subagent's transcript says about it.
    about: dict[str, Any] | None = None


def sources(path: Path) -> tuple[list[Source], list[Path]]:
    """The transcripts at `path`, a file or a folder of any depth, and the files there that are none.

    Raises `NothingToImport`.
    """
    if path.is_file():
        return [_source(path)], []
    if not path.is_dir():
        raise NothingToImport(path, "it does not exist")
    folder = path / "projects" if (path / "projects").is_dir() else path
    files = sorted(file for file in folder.rglob("*.jsonl") if file.is_file())
    found = [file for file in files if _is_transcript(file)]
    if not found:
        raise NothingToImport(path, "no file in it is a transcript of Claude Code")
    return [_source(file) for file in found], sorted(set(files) - set(found))


def _is_transcript(path: Path) -> bool:
    lines = _beginning(path)
    return not lines or any(_MARKS & line.keys() for line in lines)


def _beginning(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for raw in islice(iter(lambda: file.readline(_PEEK_BYTES), b""), _PEEK_LINES):
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                found.append(line)
    return found


def _source(path: Path) -> Source:
    named = (line.get("sessionId") for line in _beginning(path))
    told = next((name for name in named if isinstance(name, str) and name), path.stem)
    if path.stem.startswith(_AGENT):
        return Source(path, _parent(path) or told, path.stem.removeprefix(_AGENT), _about(path))
    return Source(path, path.stem if _UUID.fullmatch(path.stem) else told)


def _parent(path: Path) -> str:
    """The session in whose folder a subagent's transcript lies: `<session>/subagents/…/agent-<id>.jsonl`."""
    folders = [folder for folder in path.parents if folder.name == "subagents"]
    return folders[0].parent.name if folders else ""


def _about(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None
