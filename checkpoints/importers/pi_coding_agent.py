"""Sessions of the pi coding agent: JSON lines that form a tree."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from checkpoints.importers.imported_message_and_usage import (
    TRANSCRIPT_START,
    parse_iso_or_unix_time_or_none,
    parse_usd_cost_or_none,
)
from checkpoints.importers.transcript_reader_interface_and_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field_or_empty,
)

_ENTRY_TYPES: Final = frozenset(
    {
        "branch_summary",
        "compaction",
        "custom",
        "custom_message",
        "label",
        "message",
        "model_change",
        "session",
        "session_info",
        "thinking_level_change",
    }
)
#: Roles of messages that are no prompt or answer. Extensions write the last two, under the names of two versions.
_ROLES: Final = {"toolResult": "tool", "bashExecution": "user", "custom": "system", "hookMessage": "system"}
_TOKEN_FIELDS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}
_SHOWN_FIELDS: Final = frozenset({"role", "content"})


class PiReader:
    """Reader of one session."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builder: TranscriptBuilder | None = None
        #: Key of the message that each entry stands at: its own, or that of the message before it.
        self._keys: dict[str, str] = {}
        self._last = TRANSCRIPT_START
        #: When the session was forked from another one, whose earlier entries it has copied.
        self._forked_at: datetime | None = None

    def add_value(self, number: int, value: Any) -> None:
        """Read the next entry."""
        entry = value if isinstance(value, dict) else {}
        builder = self._get_or_open_builder(entry)
        kind = get_text_field_or_empty(entry, "type")
        key = self._last
        match kind:
            case "session":
                builder.set_context(cwd=entry.get("cwd"), model=entry.get("modelId"))
                builder.facts["parent_file"] = entry.get("parentSession", "")
                self._forked_at = (
                    parse_iso_or_unix_time_or_none(entry.get("timestamp")) if entry.get("parentSession") else None
                )
            case "model_change":
                builder.set_context(model=entry.get("modelId"))
            case "session_info":
                builder.note_title_candidate(entry.get("name"), "given")
            case "message" if isinstance(entry.get("message"), dict):
                key = self._add_message(builder, entry, entry["message"])
            case "compaction":
                key = self._add_compaction(builder, entry)
            case "branch_summary" | "custom_message":
                text = entry.get("summary", entry.get("content"))
                key = self._add_entry_message_after_parent(
                    builder,
                    entry,
                    {"role": "system", "content": text, "source": _omit_fields(entry, {"summary", "content"})},
                )
            case _ if kind not in _ENTRY_TYPES:
                builder.report.unknown[f"entry {kind}"] += 1
        if kind not in {"message", "compaction", "branch_summary", "custom_message"}:
            builder.add_note(entry)
        if isinstance(entry.get("id"), str) and kind != "session":
            self._keys[entry["id"]] = key
            self._last = key

    def _get_or_open_builder(self, entry: Body) -> TranscriptBuilder:
        if self._builder is None:
            own_id = entry.get("id") if entry.get("type") == "session" else ""
            self._builder = self._context.open_builder(
                self._context.choose_session_id(own_id), has_positional_keys=False
            )
        return self._builder

    def _add_entry_message_after_parent(self, builder: TranscriptBuilder, entry: Body, body: Body, **facts: Any) -> str:
        """Record the message of an entry after that of its parent."""
        parent = entry.get("parentId")
        after: str | None = self._keys.get(parent, self._last) if isinstance(parent, str) else self._last
        if after == TRANSCRIPT_START and builder.message_count == 0:
            after = None
        key = entry["id"] if isinstance(entry.get("id"), str) else ""
        at = parse_iso_or_unix_time_or_none(entry.get("timestamp"))
        return builder.add_message({"id": key, **body}, key=key, at=at, after=after, **facts)

    def _add_message(self, builder: TranscriptBuilder, entry: Body, message: Body) -> str:
        role = get_text_field_or_empty(message, "role")
        source = {**_omit_fields(entry, {"message", "id"}), "message": _omit_fields(message, _SHOWN_FIELDS)}
        body: Body = {"role": _ROLES.get(str(role), role or "system"), "source": source}
        usage = None
        if role == "toolResult":
            block = {
                "kind": "tool_result",
                "call_id": message.get("toolCallId"),
                "content": _convert_call_and_image_blocks(message.get("content")),
            }
            body["blocks"] = [{**block, "is_error": True} if message.get("isError") is True else block]
        elif role == "bashExecution":
            body["content"] = f"$ {message.get('command', '')}\n{message.get('output', '')}"
        elif role in {"branchSummary", "compactionSummary"}:
            body |= {"role": "system", "content": message.get("summary")}
        else:
            body["content"] = _convert_call_and_image_blocks(message.get("content"))
        if isinstance(error := message.get("errorMessage"), str) and error and isinstance(body.get("content"), list):
            body["content"] = [*body["content"], {"errorMessage": error}]
        if role == "assistant":
            at = parse_iso_or_unix_time_or_none(entry.get("timestamp"))
            if at is None or self._forked_at is None or at >= self._forked_at:
                usage = self._add_usage_of_message(builder, message)
            builder.interrupted = message.get("stopReason") == "aborted"
        return self._add_entry_message_after_parent(builder, entry, body, usage=usage, begins_turn=role == "user")

    def _add_usage_of_message(self, builder: TranscriptBuilder, message: Body) -> Body:
        builder.set_context(model=message.get("model"))
        usage = message.get("usage")
        if not isinstance(usage, dict):
            return {}
        cost = usage.get("cost")
        tokens = {target: usage.get(name) for name, target in _TOKEN_FIELDS.items()}
        total = parse_usd_cost_or_none(cost.get("total")) if isinstance(cost, dict) else None
        return builder.add_usage(message.get("model"), tokens, total)

    def _add_compaction(self, builder: TranscriptBuilder, entry: Body) -> str:
        """Start over with the summary; all earlier messages, also those that the program kept, remain in the version
        before."""
        facts = builder.build_compaction_block(tokens_before=entry.get("tokensBefore"))
        body = {
            "role": "system",
            "blocks": [facts, {"kind": "text", "text": entry.get("summary") or ""}],
            "source": _omit_fields(entry, {"summary"}),
        }
        key = entry["id"] if isinstance(entry.get("id"), str) else ""
        at = parse_iso_or_unix_time_or_none(entry.get("timestamp"))
        return builder.add_message({"id": key, **body}, key=key, at=at, after=TRANSCRIPT_START, begins_turn=False)

    def flush(self) -> None:
        """Write everything read so far."""
        if self._builder is not None:
            self._builder.flush()


def _omit_fields(values: Body, names: set[str] | frozenset[str]) -> Body:
    return {name: value for name, value in values.items() if name not in names}


def _convert_call_and_image_blocks(content: Any) -> Any:
    """Convert blocks of calls and images to those of this library; everything else stays."""
    if not isinstance(content, list):
        return content
    return [_convert_call_or_image_block(block) if isinstance(block, dict) else block for block in content]


def _convert_call_or_image_block(block: Body) -> Body:
    if block.get("type") == "toolCall":
        return {"kind": "tool_call", "id": block.get("id"), "name": block.get("name"), "args": block.get("arguments")}
    if block.get("type") == "image" and isinstance(block.get("data"), str):
        source = {"type": "base64", "media_type": block.get("mimeType", ""), "data": block["data"]}
        return {"type": "image", "source": source}
    return block


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict) or get_text_field_or_empty(value, "type") not in _ENTRY_TYPES:
        return 0
    if value["type"] == "session":
        return 3 * ("timestamp" in value and "cwd" in value)
    return 3 if "parentId" in value and "timestamp" in value else 2 * isinstance(value.get("message"), dict)


PI: Final = TranscriptFormat("pi", "pi", _score_format_match, PiReader)
