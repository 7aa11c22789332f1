"""Messages of chat completions: requests, answers, fine-tuning files, or a list of messages."""

from __future__ import annotations

from typing import Any, Final

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
from checkpoints.importers.transcript_reader_interface_and_builder import Body, TranscriptFormat, find_block_types

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "name", "created_at"})
_QUIET_FIELDS: Final = frozenset({"annotations", "weight"})
_KNOWN_PARTS: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
#: Fields of an answer that are read.
_READ_FIELDS: Final = frozenset(
    {"choices", "created", "created_at", "messages", "metadata", "model", "object", "tools", "usage"}
)
_USAGE_FIELDS: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}


def read_exchange(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("messages"), list):
        return _read_request(value)
    if isinstance(value.get("choices"), list):
        return _read_response(value)
    return _build_exchange_of_message_or_none(value)


def _read_request(value: Body) -> Exchange | None:
    exchange = read_and_merge_exchanges(value["messages"], _build_exchange_of_message_or_none)
    if exchange is None:
        return None
    answer = _read_response(value) if isinstance(value.get("choices"), list) else None
    if answer is not None:
        exchange.messages += answer.messages
        exchange.tokens, exchange.at, exchange.model = answer.tokens, answer.at, answer.model
        exchange.envelope = answer.envelope
    exchange.whole = True
    exchange.name = next((value[name] for name in ("id", "custom_id") if isinstance(value.get(name), str)), "")
    exchange.at = exchange.at or parse_iso_or_unix_time_or_none(value.get("created", value.get("created_at")))
    exchange.model = value["model"] if isinstance(value.get("model"), str) else exchange.model
    exchange.about = {name: value[name] for name in ("tools", "metadata") if name in value}
    return exchange


def _read_response(value: Body) -> Exchange | None:
    choices = [choice for choice in value["choices"] if isinstance(choice, dict)]
    exchange = read_and_merge_exchanges(
        [choice.get("message") for choice in choices], _build_exchange_of_message_or_none
    )
    if exchange is None or not choices:
        return None
    beside = [{name: choice[name] for name in choice if name != "message"} for choice in choices]
    exchange.envelope = {
        **{name: field for name, field in value.items() if name not in _READ_FIELDS and field is not None},
        "choices": beside,
    }
    exchange.tokens = convert_usage_counts(
        value.get("usage"), _USAGE_FIELDS, ("prompt_tokens_details", "cached_tokens")
    )
    exchange.at = parse_iso_or_unix_time_or_none(value.get("created"))
    exchange.model = value["model"] if isinstance(value.get("model"), str) else ""
    exchange.about = {name: value[name] for name in ("tools", "metadata") if value.get(name)}
    return exchange


def _build_exchange_of_message_or_none(value: Any) -> Exchange | None:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return None
    body = move_undisplayed_fields_to_source(value, _SHOWN_FIELDS, _QUIET_FIELDS)
    return Exchange(
        [_convert_legacy_function_call_or_result(body)],
        unknown=count_unknown_block_types(value.get("content"), _KNOWN_PARTS, "part"),
    )


def _convert_legacy_function_call_or_result(body: Body) -> Body:
    """Give a call of an older API, which has no id, and its result that of their function."""
    source, call = body.get("source", {}), body.get("function_call")
    if isinstance(call, dict) and isinstance(call.get("name"), str) and not body.get("tool_calls"):
        entry = {"id": call["name"], "type": "function", "function": call}
        rest = {name: field for name, field in body.items() if name not in {"function_call", "tool_calls"}}
        return {**rest, "tool_calls": [entry], "source": {**source, "function_call": call}}
    if body["role"] == "function" and isinstance(body.get("name"), str):
        return {**body, "role": "tool", "tool_call_id": body["name"], "source": {**source, "role": "function"}}
    return body


def _score_format_match(value: Any) -> int:
    """Return 2 for what only this format has: calls of functions, results with the id of their call, choices."""
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("choices"), list):
        return 2
    messages = value.get("messages", [value]) if "id" not in value or "messages" in value else [value]
    if not isinstance(messages, list) or not messages:
        return 0
    scores = [_score_message(message) for message in messages[:50]]
    return max(scores) if are_half_of_scores_positive(scores) else 0


def _score_message(message: Any) -> int:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return 0
    if {"tool_calls", "tool_call_id", "function_call"} & message.keys() or message["role"] in {"tool", "function"}:
        return 2
    content = message.get("content")
    types = find_block_types(content)
    is_plain = "type" not in message and "parts" not in message and ("content" in message or "refusal" in message)
    return 1 if is_plain and types <= {"text", "image_url", "input_audio", "file", "refusal"} else 0


OPENAI_CHAT: Final = TranscriptFormat(
    "openai-chat", "", _score_format_match, lambda context: ExchangeReader(context, read_exchange)
)
