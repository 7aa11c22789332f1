"""Forks of sessions of the Claude Agent SDK: a new session whose first lines were copied from another one.

The copied lines name their origin. Calls that the origin has logged and not answered are logged in the fork too, so
that it asks about them, or replays them, instead of making them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.importers.claude_code.parse_line import get_fork_source_session_id_or_empty
from checkpoints.sessions import fork
from checkpoints.store.database_client_state import Store


def find_origin_session_id_or_none(key: TranscriptKey, lines: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session from which the lines of a transcript were copied; None if they name none."""
    origins = (get_fork_source_session_id_or_empty(dict(line)) for line in lines)
    # The older lines of a fork of a fork may name the first session.
    *_, origin = (None, *(name for name in origins if name and name != key.session))
    return origin


def create_forked_session_if_missing(store: Store, key: TranscriptKey, lines: Iterable[Mapping[str, Any]]) -> None:
    """Create the session of a transcript with the calls of the one that it was forked from.

    Nothing is done if the lines name no origin, the store does not have it, or the session exists.

    Args:
        store: State of the client.
        key: Key of the transcript.
        lines: Its lines.

    Raises:
        SealError: The calls of the origin cannot be verified.
    """
    origin = find_origin_session_id_or_none(key, lines)
    if origin is not None:
        fork.create_fork_without_versions_if_missing(store, replace(key, session=origin).session_id, key.session_id)
