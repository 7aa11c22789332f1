"""Rollouts of Codex: one line for each item of the model's conversation, and events beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from checkpoints.importers.imported_message import TRANSCRIPT_START, parse_time, parse_token_count
from checkpoints.importers.imported_session_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field,
)
from checkpoints.importers.openai_responses import read_item, score_item_match

_LINE_TYPES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "ghost_snapshot"}
)
#: Events whose text the items have too; of a file without items, they are the messages.
_TEXT_EVENTS: Final = {
    "user_message": ("user", "message"),
    "agent_message": ("assistant", "message"),
    "agent_reasoning": ("assistant", "text"),
}
_TOKEN_FIELDS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
#: Beginnings of what the program writes in the user's name.
_INSERTED_TEXTS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "<skill>",
)
#: Line between what is open in the editor and what the person wrote, in prompts from an editor.
_REQUEST: Final = "## My request for Codex:"
#: First lines of a result as text: `Wall time: 1.3 seconds`.
_WALL_TIME: Final = re.compile(r"(?:[^\n]{0,80}\n){0,3}Wall time: (\d{1,6}(?:\.\d{1,6})?) seconds")
#: Characters at the end of a result in which its metadata is named, and the longest duration in seconds.
_METADATA_TAIL_CHARS: Final = 200
_MAX_DURATION_SECONDS: Final = 10**6


class CodexReader:
    """Reader of one rollout."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builder: TranscriptBuilder | None = None
        self._totals: dict[str, int] = {}
        self._events: list[tuple[str, str, Any]] = []
        #: Times of the calls without a result, by call id.
        self._issued: dict[str, datetime] = {}

    def add_value(self, number: int, value: Any) -> None:
        """Read a line: an item becomes a message, everything else a fact or a note."""
        line = value if isinstance(value, dict) else {}
        payload = line.get("payload")
        kind = get_text_field(line, "type")
        if not isinstance(payload, dict):  # the lines of early versions are the items themselves
            kind, payload = ("session_meta" if _is_header_of_old_format(line) else "response_item"), line
        builder = self._get_or_open_builder(payload if kind == "session_meta" else {})
        match kind:
            case "session_meta":
                self._add_session_facts(builder, payload)
            case "turn_context":
                self._add_turn_facts(builder, payload)
            case "response_item":
                self._add_item(builder, payload, line.get("timestamp"))
                return
            case "compacted":
                self._add_compaction(builder, payload, line.get("timestamp"))
                return
            case "event_msg":
                self._add_event(builder, payload, line.get("timestamp"))
            case _ if kind not in _LINE_TYPES:
                builder.report.unknown[f"line {kind}"] += 1
        builder.add_note(line)

    def _get_or_open_builder(self, header: Body) -> TranscriptBuilder:
        if self._builder is None:
            self._builder = self._context.open_builder(self._context.make_session_id(header.get("id")))
        return self._builder

    def _add_session_facts(self, builder: TranscriptBuilder, meta: Body) -> None:
        git = meta.get("git")
        builder.set_context(
            cwd=meta.get("cwd"),
            program_version=meta.get("cli_version"),
            git_branch=git.get("branch") if isinstance(git, dict) else None,
        )

    def _add_turn_facts(self, builder: TranscriptBuilder, turn: Body) -> None:
        sandbox = turn.get("sandbox_policy")
        mode = sandbox.get("mode", sandbox.get("type")) if isinstance(sandbox, dict) else sandbox
        names = [name for name in (turn.get("approval_policy"), mode) if isinstance(name, str)]
        builder.set_context(model=turn.get("model"), cwd=turn.get("cwd"), permission_mode=", ".join(names))

    def _add_item(self, builder: TranscriptBuilder, item: Body, timestamp: object) -> None:
        exchange = read_item(item)
        if exchange is None:
            builder.report.unknown[f"item {item.get('type', item.get('record_type', 'without a type'))}"] += 1
            builder.add_note(item)
            return
        if exchange.unknown:
            builder.report.unknown.update(exchange.unknown)
        for body in exchange.messages:
            is_prompt = body.get("role") == "user" and not _is_inserted_message(body)
            role = {} if is_prompt or body.get("role") != "user" else {"role": "system"}
            if is_prompt:
                builder.set_title(_get_first_text(body).partition(_REQUEST)[2])
            builder.add_message(
                {**body, **role},
                at=parse_time(timestamp),
                begins_turn=is_prompt,
                times=self._find_result_times(item, parse_time(timestamp)),
            )
        builder.interrupted = False

    def _find_result_times(self, item: Body, at: datetime | None) -> dict[str, datetime]:
        """Return when a call ended if its result states how long it took.

        Call and result are often written at one time, after both.
        """
        call_id = get_text_field(item, "call_id")
        if at is None or not call_id:
            return {}
        if not get_text_field(item, "type").endswith("_output"):
            self._issued[call_id] = at
            return {}
        issued_at, seconds = self._issued.pop(call_id, at), _read_stated_duration(item.get("output"))
        return {} if seconds is None else {call_id: issued_at + timedelta(seconds=seconds)}

    def _add_compaction(self, builder: TranscriptBuilder, payload: Body, timestamp: object) -> None:
        text = payload.get("message")
        replacement_history = payload.get("replacement_history")
        blocks = [builder.build_compaction_block(), {"kind": "text", "text": text if isinstance(text, str) else ""}]
        body = {"role": "system", "blocks": blocks, "source": payload}
        builder.add_message(body, at=parse_time(timestamp), after=TRANSCRIPT_START, begins_turn=False)
        for item in replacement_history if isinstance(replacement_history, list) else ():
            if isinstance(item, dict):
                self._add_item(builder, item, timestamp)

    def _add_event(self, builder: TranscriptBuilder, event: Body, timestamp: object) -> None:
        kind = get_text_field(event, "type")
        if kind == "token_count" and isinstance(event.get("info"), dict):
            self._add_new_token_usage(builder, event["info"])
        elif kind == "turn_aborted":
            builder.interrupted = True
        elif kind in _TEXT_EVENTS and builder.message_count == 0:
            role, name = _TEXT_EVENTS[kind]
            self._events.append((role, get_text_field(event, name), timestamp))

    def _add_new_token_usage(self, builder: TranscriptBuilder, info: Body) -> None:
        """Count what the running total has grown by, since the event is repeated without new usage."""
        total = info.get("total_token_usage")
        if not isinstance(total, dict):
            return
        totals = {name: parse_token_count(total.get(name)) for name in _TOKEN_FIELDS}
        before = self._totals if all(totals[name] >= self._totals.get(name, 0) for name in totals) else {}
        self._totals = totals
        builder.add_usage("", _convert_token_counts({name: totals[name] - before.get(name, 0) for name in totals}))

    def finish(self) -> None:
        """Write everything read so far."""
        builder = self._builder
        if builder is None:
            return
        if builder.message_count == 0:
            for role, text, timestamp in self._events:
                builder.add_message({"role": role, "content": text}, at=parse_time(timestamp))
        self._events = []
        builder.finish()


def _convert_token_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Convert counts in which the input includes what came from the cache."""
    cached = counts["cached_input_tokens"]
    return {
        "input_tokens": counts["input_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": counts["output_tokens"],
        "reasoning_output_tokens": counts["reasoning_output_tokens"],
    }


def _read_stated_duration(output: object) -> float | None:
    """Read the seconds that the result of a command states, in its metadata or its first lines; None without them."""
    if not isinstance(output, str):
        return None
    if match := _WALL_TIME.match(output):
        return float(match[1])
    if "duration_seconds" not in output[-_METADATA_TAIL_CHARS:]:
        return None
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return None
    metadata = value.get("metadata") if isinstance(value, dict) else None
    seconds = metadata.get("duration_seconds") if isinstance(metadata, dict) else None
    is_duration = (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= _MAX_DURATION_SECONDS
    )
    return float(seconds) if is_duration and isinstance(seconds, int | float) else None


def _get_first_text(body: Body) -> str:
    content = body.get("content")
    return (
        get_text_field(content[0], "text")
        if isinstance(content, list) and content
        else content
        if isinstance(content, str)
        else ""
    )


def _is_inserted_message(body: Body) -> bool:
    return _get_first_text(body).lstrip().startswith(_INSERTED_TEXTS)


def _is_header_of_old_format(line: Body) -> bool:
    return "instructions" in line and "timestamp" in line and "type" not in line


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("payload"), dict) and isinstance(value.get("type"), str):
        return 3 * (value["type"] in _LINE_TYPES)
    if _is_header_of_old_format(value):
        return 500
    return 1 if "record_type" in value or ("type" in value and score_item_match(value)) else 0


CODEX: Final = TranscriptFormat("codex", "codex", _score_format_match, CodexReader)
