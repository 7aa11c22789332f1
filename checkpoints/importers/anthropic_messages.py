"""Messages of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, Final

from checkpoints.formats.parse_message_parts import PROVIDER_CALL_BLOCKS, PROVIDER_RESULT_BLOCKS
from checkpoints.importers.imported_message_and_usage import parse_iso_or_unix_time_or_none
from checkpoints.importers.provider_message_reader import (
    Exchange,
    ExchangeReader,
    are_half_of_scores_positive,
    convert_usage_counts,
    count_unknown_block_types,
    move_undisplayed_fields_to_source,
    read_and_merge_exchanges,
)
from checkpoints.importers.transcript_reader_interface_and_builder import (
    Body,
    TranscriptFormat,
    find_block_types,
    get_text_field_or_empty,
)

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "created_at"})
_QUIET_FIELDS: Final = frozenset(
    {"type", "model", "usage", "stop_reason", "stop_sequence", "container", "context_management"}
)
_KNOWN_BLOCKS: Final = frozenset(
    {
        *PROVIDER_CALL_BLOCKS,
        *PROVIDER_RESULT_BLOCKS,
        "compaction",
        "container_upload",
        "document",
        "fallback",
        "image",
        "audio",
        "mcp_tool_listing",
        "redacted_thinking",
        "search_result",
        "text",
        "thinking",
        "tool_addition",
        "tool_removal",
        "tool_result",
        "tool_use",
    }
)
_USAGE_FIELDS: Final = {
    name: name for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
}


def _read_request_or_message(value: Any) -> Exchange | None:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return _read_request(value)
    return _read_message(value)


def _read_request(value: Body) -> Exchange | None:
    exchange = read_and_merge_exchanges(value["messages"], _read_message)
    if exchange is None:
        return None
    if value.get("system"):
        exchange.messages.insert(0, {"role": "system", "content": value["system"]})
    exchange.whole = True
    exchange.name = next((value[name] for name in ("id", "custom_id") if isinstance(value.get(name), str)), "")
    exchange.tokens = convert_usage_counts(value.get("usage"), _USAGE_FIELDS)
    exchange.at = parse_iso_or_unix_time_or_none(value.get("created_at"))
    exchange.model = value["model"] if isinstance(value.get("model"), str) else ""
    exchange.about = {name: value[name] for name in ("tools", "metadata") if name in value}
    return exchange


def _read_message(value: Any) -> Exchange | None:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str) or "content" not in value:
        return None
    return Exchange(
        [move_undisplayed_fields_to_source(value, _SHOWN_FIELDS, _QUIET_FIELDS)],
        tokens=convert_usage_counts(value.get("usage"), _USAGE_FIELDS),
        at=parse_iso_or_unix_time_or_none(value.get("created_at")),
        model=value["model"] if isinstance(value.get("model"), str) else "",
        unknown=count_unknown_block_types(value["content"], _KNOWN_BLOCKS, "block"),
    )


def _score_format_match(value: Any) -> int:
    """Return 2 for what only this format has: its blocks of tools and thinking, its answers, a separate system
    prompt."""
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("messages"), list):
        scores = [_score_message(message) for message in value["messages"][:50]]
        return (2 if "system" in value else max(scores)) if are_half_of_scores_positive(scores) else 0
    return _score_message(value)


def _score_message(value: Any) -> int:
    if (
        not isinstance(value, dict)
        or get_text_field_or_empty(value, "role") not in {"user", "assistant"}
        or "content" not in value
    ):
        return 0
    content = value["content"]
    types = find_block_types(content)
    if value.get("type", "message") != "message":
        return 0
    if "stop_reason" in value:
        return 2
    return (2 if types - {"text"} else 1) if types <= _KNOWN_BLOCKS else 0


ANTHROPIC: Final = TranscriptFormat(
    "anthropic", "", _score_format_match, lambda context: ExchangeReader(context, _read_request_or_message)
)
