"""Forks of sessions of the Claude Agent SDK: a new session whose first lines were copied from another one.

The copied lines name their origin. Calls that the origin has logged and not answered are logged in the fork too, so
that it asks about them, or replays them, instead of making them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkpoints.adapters.claude import find_or_await_transcript_lines
from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.importers.claude_code.line_fields import get_fork_source_session_id_or_empty
from checkpoints.sessions import fork
from checkpoints.store.database_client_state import Store


def find_origin_session_id_or_none(key: TranscriptKey, lines: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session from which the lines of a transcript were copied; None if they name none."""
    origins = (get_fork_source_session_id_or_empty(dict(line)) for line in lines)
    # The older lines of a fork of a fork may name the first session.
    *_, origin = (None, *(name for name in origins if name and name != key.session))
    return origin


def create_forked_session_if_missing(store: Store, key: TranscriptKey, origin: str) -> None:
    """Create the session of a transcript with the calls of the one that it was forked from.

    Nothing is done if the store does not have the origin, or if the session exists.

    Args:
        store: State of the client.
        key: Key of the transcript.
        origin: Id of the session that it was forked from.

    Raises:
        SealError: The calls of the origin cannot be verified.
    """
    fork.create_fork_with_calls_only_if_missing(store, replace(key, session=origin).session_id, key.session_id)


def find_origin_session_id_in_files_or_none(hook: Mapping[str, Any], key: TranscriptKey, call_id: str) -> str | None:
    """Find the session from which an agent was forked, in the files that the program reads and writes.

    Args:
        hook: Input of the hook before the first call of the agent.
        key: Key of the agent's transcript.
        call_id: Id of the call.

    Returns:
        The id of the session; None if the agent was not forked.
    """
    path = Path(str(hook.get("transcript_path")))
    others = [each for each in path.parent.glob("*.jsonl") if each != path]
    if "prompt_id" not in hook and not path.exists():
        # The program continues a call that the origin has deferred before it writes the file of the fork.
        marks = (call_id, '"hook_deferred_tool"')
        deferring = [
            each for each in others if find_or_await_transcript_lines.has_line_containing_all_marks(each, *marks)
        ]
        return max(deferring, key=lambda each: each.stat().st_mtime).stem if deferring else None
    if not key.subpath and path.parent.exists():
        find_or_await_transcript_lines.wait_for_line_containing(path, call_id)
    lines = find_or_await_transcript_lines.iterate_lines_containing_any_mark(path, '"forkedFrom"', '"requestSessionId"')
    origin = find_origin_session_id_or_none(key, lines)
    # The SDK gives a resumed program the one session that it resumes. A fork of a fork may name the first session.
    return others[0].stem if origin is not None and len(others) == 1 else origin
