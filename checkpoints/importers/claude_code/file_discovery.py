"""Find the files that hold transcripts, and the conversation of each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from checkpoints.importers.import_errors import NothingToImport

_UUID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_PREFIX = "agent-"
#: Number of lines within which a transcript names its session.
_PEEK_LINES = 50
_PEEK_BYTES = 4 * 1024 * 1024
#: Fields of which every known kind of line has one.
_LINE_MARKER_FIELDS = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})


@dataclass(frozen=True)
class TranscriptSource:
    """Transcript file. `agent_id` is set if it is a subagent's; `session_id` is then its parent's."""

    path: Path
    session_id: str
    agent_id: str = ""
    #: Metadata in the file beside a subagent's transcript.
    about: dict[str, Any] | None = None


def find_transcripts(path: Path) -> tuple[list[TranscriptSource], list[Path]]:
    """Find the transcripts at `path`, a file or a folder of any depth, and the files there that are none.

    Raises `NothingToImport`.
    """
    if path.is_file():
        return [_identify_transcript(path)], []
    if not path.is_dir():
        raise NothingToImport(path, "it does not exist")
    folder = path / "projects" if (path / "projects").is_dir() else path
    files = sorted(file for file in folder.rglob("*.jsonl") if file.is_file())
    transcripts = [file for file in files if _is_transcript(file)]
    if not transcripts:
        raise NothingToImport(path, "no file in it is a transcript of Claude Code")
    return [_identify_transcript(file) for file in transcripts], sorted(set(files) - set(transcripts))


def _is_transcript(path: Path) -> bool:
    lines = _read_first_lines(path)
    return not lines or any(_LINE_MARKER_FIELDS & line.keys() for line in lines)


def _read_first_lines(path: Path) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for raw in islice(iter(lambda: file.readline(_PEEK_BYTES), b""), _PEEK_LINES):
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                objects.append(line)
    return objects


def _identify_transcript(path: Path) -> TranscriptSource:
    names = (line.get("sessionId") for line in _read_first_lines(path))
    session_name = next((name for name in names if isinstance(name, str) and name), path.stem)
    if path.stem.startswith(_AGENT_PREFIX):
        return TranscriptSource(
            path,
            _find_parent_session_id(path) or session_name,
            path.stem.removeprefix(_AGENT_PREFIX),
            _read_agent_description(path),
        )
    return TranscriptSource(path, path.stem if _UUID_PATTERN.fullmatch(path.stem) else session_name)


def _find_parent_session_id(path: Path) -> str:
    """Find the session whose folder holds a subagent's transcript: `<session>/subagents/…/agent-<id>.jsonl`."""
    subagent_folders = [folder for folder in path.parents if folder.name == "subagents"]
    return subagent_folders[0].parent.name if subagent_folders else ""


def _read_agent_description(path: Path) -> dict[str, Any] | None:
    try:
        description = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return description if isinstance(description, dict) else None
