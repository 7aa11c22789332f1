"""Fields on the lines of a rollout of Codex: tokens, durations, texts of the program, and what a fork has copied."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from checkpoints.importers.imported_message_and_usage import parse_iso_or_unix_time_or_none, parse_token_count_or_zero
from checkpoints.importers.transcript_reader_interface_and_builder import Body, get_text_field_or_empty

_TOKEN_FIELDS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
#: Beginnings of what the program writes in the user's name.
_INSERTED_TEXTS: Final = (
    "<app-context>",
    "<apps_instructions>",
    "<collaboration_mode>",
    "<environment>",
    "<environment-change>",
    "<environment_context>",
    "<heartbeat>",
    "<multi_agent_mode>",
    "<permissions instructions>",
    "<recommended_plugins>",
    "<skill>",
    "<skills_instructions>",
    "<subagent_notification>",
    "<task-notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "The following is the Codex agent history ",
)
#: Line between what is open in the editor and what the person wrote, in prompts from an editor.
_REQUEST: Final = "## My request for Codex:"
#: First lines of a result as text: `Wall time: 1.3 seconds`.
_WALL_TIME: Final = re.compile(r"(?:[^\n]{0,80}\n){0,3}Wall time: (\d{1,6}(?:\.\d{1,6})?) seconds")
#: Characters at the end of a result in which its metadata is named, and the longest duration in seconds.
_METADATA_TAIL_CHARS: Final = 200
_MAX_DURATION_SECONDS: Final = 10**6
#: What a fork copies is written within this time; its own first answer of a model takes longer.
_COPY_SECONDS: Final = 1.0


class RunningTokenTotals:
    """Running totals of a rollout. Events repeat them without new usage, and forks go on from those of their parent."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}

    def update_and_return_growth(self, info: Body) -> dict[str, int]:
        """Return what the totals of an event have grown by, as this library counts tokens; empty without totals."""
        total = info.get("total_token_usage")
        if not isinstance(total, dict):
            return {}
        totals = {name: parse_token_count_or_zero(total.get(name)) for name in _TOKEN_FIELDS}
        before = self._totals if all(totals[name] >= self._totals.get(name, 0) for name in totals) else {}
        self._totals = totals
        return _separate_cached_from_input_tokens({name: totals[name] - before.get(name, 0) for name in totals})


class CopiedHistory:
    """Beginning of a rollout that a fork or a subagent has copied from its parent, as its header describes it."""

    def __init__(self, line: Body, meta: Body) -> None:
        self.parent_id = _find_parent_id_or_empty(meta)
        first = meta.get("subagent_history_start_ordinal")
        self._first_own = first if isinstance(first, int) and not isinstance(first, bool) else None
        self._written_at = parse_iso_or_unix_time_or_none(line.get("timestamp")) or parse_iso_or_unix_time_or_none(
            meta.get("timestamp")
        )

    def includes_line(self, line: Body) -> bool:
        """Return whether a line was copied. Copies have the time of the fork, or that of the original."""
        ordinal, at = line.get("ordinal"), parse_iso_or_unix_time_or_none(line.get("timestamp"))
        if not self.parent_id:
            return False
        if self._first_own is not None and isinstance(ordinal, int):
            return ordinal < self._first_own
        return at is not None and self._written_at is not None and at <= self._written_at + _COPY_TIME


_COPY_TIME: Final = timedelta(seconds=_COPY_SECONDS)


def get_subagent_role_or_empty_if_main_agent(meta: Body) -> str:
    """Return the role of the subagent whose rollout it is; empty if it is none."""
    source = meta.get("source")
    kind = source.get("subagent") if isinstance(source, dict) else None
    if kind is None:
        return ""
    spawned = kind.get("thread_spawn") if isinstance(kind, dict) else None
    names = [get_text_field_or_empty(holder, "agent_role") for holder in (meta, spawned)]
    own_kind = kind if isinstance(kind, str) else get_text_field_or_empty(kind, "other")
    return next((name for name in (*names, own_kind) if name), "subagent")


def find_started_session_and_call_ids_or_empty(event: Body, tools_by_call_id: Mapping[str, str]) -> tuple[str, str]:
    """Return the session that a call has started as a subagent, and the call; empty texts for another event.

    Args:
        event: An event, or the item with the result of a call.
        tools_by_call_id: Names of the tools of the calls so far, by the id of the call.
    """
    kind = get_text_field_or_empty(event, "type")
    if kind == "sub_agent_activity" and event.get("kind") == "started":
        return get_text_field_or_empty(event, "agent_thread_id"), get_text_field_or_empty(event, "event_id")
    if kind == "collab_agent_spawn_end":
        return get_text_field_or_empty(event, "new_thread_id"), get_text_field_or_empty(event, "call_id")
    call_id = get_text_field_or_empty(event, "call_id")
    if kind == "function_call_output" and tools_by_call_id.get(call_id) == "spawn_agent":
        return get_text_field_or_empty(_parse_json_object_or_empty(event.get("output")), "agent_id"), call_id
    return "", ""


def read_command_duration_of_output_or_none(output: object) -> float | None:
    """Read the seconds that the result of a command states, in its metadata or its first lines; None without them."""
    if not isinstance(output, str):
        return None
    if match := _WALL_TIME.match(output):
        return float(match[1])
    if "duration_seconds" not in output[-_METADATA_TAIL_CHARS:]:
        return None
    metadata = _parse_json_object_or_empty(output).get("metadata")
    seconds = metadata.get("duration_seconds") if isinstance(metadata, dict) else None
    is_duration = (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= _MAX_DURATION_SECONDS
    )
    return float(seconds) if is_duration and isinstance(seconds, int | float) else None


def is_text_inserted_by_program(text: str) -> bool:
    """Return whether the program wrote a text in the user's name."""
    return text.lstrip().startswith(_INSERTED_TEXTS)


def extract_prompt_after_editor_context_or_empty(text: str) -> str:
    """Return what a person wrote, of a prompt that also has what is open in the editor; empty for other prompts."""
    return text.partition(_REQUEST)[2]


def _find_parent_id_or_empty(meta: Body) -> str:
    source = meta.get("source")
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawned = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    ids = (
        meta.get("parent_thread_id"),
        get_text_field_or_empty(spawned, "parent_thread_id"),
        meta.get("forked_from_id"),
    )
    return next((name for name in ids if isinstance(name, str) and name), "")


def _separate_cached_from_input_tokens(counts: Mapping[str, int]) -> dict[str, int]:
    """Convert counts in which the input includes what came from and went to the cache."""
    cached, written = counts["cached_input_tokens"], counts["cache_write_input_tokens"]
    return {
        "input_tokens": counts["input_tokens"] - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": counts["output_tokens"],
        "reasoning_output_tokens": counts["reasoning_output_tokens"],
    }


def _parse_json_object_or_empty(text: object) -> Body:
    """Parse an object of JSON; empty for anything else."""
    try:
        value: Any = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
