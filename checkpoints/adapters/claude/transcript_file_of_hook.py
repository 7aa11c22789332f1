"""Transcript file that Claude Code writes on its own disk, as the hooks of a program see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read_transcript_lines_containing(hook: Mapping[str, Any], *marks: str) -> Iterator[dict[str, Any]]:
    """Read the lines with one of some marks from the file that the program writes, which a hook names.

    Args:
        hook: Input of the hook.
        marks: Texts of which a line has to contain one.

    Yields:
        The lines that are JSON objects; none if there is no such file.
    """
    path = hook.get("agent_transcript_path") or hook.get("transcript_path")
    try:
        text = Path(str(path)).read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if any(mark in line for mark in marks):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
