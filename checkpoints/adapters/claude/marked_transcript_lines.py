"""Transcript file that Claude Code writes on its own disk, as the hooks of a program see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read_transcript_lines_containing(hook: Mapping[str, Any], mark: str) -> Iterator[dict[str, Any]]:
    """Read the lines with a mark from the file that the program writes, which a hook names.

    Args:
        hook: Input of the hook.
        mark: Text that a line has to contain.

    Yields:
        The lines that are JSON objects; none if there is no such file.
    """
    path = hook.get("agent_transcript_path") or hook.get("transcript_path")
    try:
        text = Path(str(path)).read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if mark in line:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
