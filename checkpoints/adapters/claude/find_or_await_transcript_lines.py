"""Find lines in the transcript file that Claude Code writes, whose path its hooks receive, or wait for one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

#: Seconds between two looks into a file, and the number of looks.
_POLL_INTERVAL: Final = 0.05
_POLLS: Final = 200


def find_transcript_path(hook: Mapping[str, Any]) -> Path:
    """Return the path of the file that the program writes, from the input of a hook."""
    return Path(str(hook.get("agent_transcript_path") or hook.get("transcript_path")))


def iterate_transcript_lines_containing(hook: Mapping[str, Any], *marks: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the lines that contain at least one of `marks`, from the file that a hook names.

    Args:
        hook: Input of the hook.
        marks: Texts to find.

    Yields:
        The objects; none if there is no such file. Lines that are no JSON objects are left out.
    """
    yield from iterate_lines_containing_any_mark(find_transcript_path(hook), *marks)


def iterate_lines_containing_any_mark(path: Path, *marks: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the lines that contain at least one of `marks`; none if there is no such file."""
    for line in _read_text_or_empty(path).splitlines():
        if any(mark in line for mark in marks):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def has_line_containing_all_marks(path: Path, *marks: str) -> bool:
    """Return whether a line of a file contains all `marks`."""
    return any(all(mark in line for mark in marks) for line in _read_text_or_empty(path).splitlines())


def wait_for_line_containing(path: Path, mark: str) -> None:
    """Block until a line that the program is writing is in the file, for at most ten seconds: a machine may be busy."""
    for _ in range(_POLLS):
        if has_line_containing_all_marks(path, mark):
            return
        time.sleep(_POLL_INTERVAL)


def _read_text_or_empty(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
