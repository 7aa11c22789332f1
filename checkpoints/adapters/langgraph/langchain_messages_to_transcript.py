"""Messages of LangChain as messages of a transcript, which the pages and the gate read."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_MAX_DEPTH = 50


def convert_to_transcript(messages: object) -> list[dict[str, Any]] | None:
    """Convert the value of a channel to a transcript.

    Args:
        messages: Value of a channel.

    Returns:
        One JSON object for each message; None if the value is no list of messages.
    """
    if not isinstance(messages, list):
        return None
    transcript = [_convert_message(message) for message in messages]
    return None if any(message is None for message in transcript) else [message or {} for message in transcript]


def filter_and_convert_tool_messages(messages: object) -> list[dict[str, Any]]:
    """Return the messages of a channel that have results of tool calls, as messages of a transcript."""
    if not isinstance(messages, list):
        return []
    found = [_convert_message(message) for message in messages if isinstance(message, ToolMessage)]
    return [message for message in found if message is not None]


def find_first_prompt_or_empty(values: Mapping[str, Any], channel: str) -> str:
    """Return the text of the first message of a user in the values of the channels, or in the input; else no text."""
    start = values.get("__start__")
    candidates = [values.get(channel), start.get(channel) if isinstance(start, dict) else None]
    for messages in candidates:
        for message in messages if isinstance(messages, list) else []:
            converted = _convert_message(message)
            if converted is not None and converted.get("role") == "user":
                return _get_content_text(converted.get("content"))
    return ""


def _get_content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict)).strip()


def _convert_message(message: object) -> dict[str, Any] | None:
    if isinstance(message, BaseMessage):
        return _convert_langchain_message(message)
    if isinstance(message, dict) and isinstance(message.get("role"), str) and "content" in message:
        return {str(key): convert_to_json_value(value) for key, value in message.items()}
    return None


def _convert_langchain_message(message: BaseMessage) -> dict[str, Any]:
    converted: dict[str, Any] = {
        "role": _ROLES.get(message.type) or str(getattr(message, "role", "") or message.type),
        "content": convert_to_json_value(message.content),
    }
    if message.id:
        converted["id"] = message.id
    if message.name:
        converted["name"] = message.name
    if isinstance(message, AIMessage):
        _add_tool_calls_usage_and_model(converted, message)
    if isinstance(message, ToolMessage):
        converted["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            converted["is_error"] = True
    return converted


def _add_tool_calls_usage_and_model(converted: dict[str, Any], message: AIMessage) -> None:
    if message.tool_calls:
        calls = [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": convert_to_json_value(call["args"])}
            for call in message.tool_calls
        ]
        converted["content"] = [
            *_list_parts_without_calls(converted["content"], {call["id"] for call in calls}),
            *calls,
        ]
    if message.usage_metadata:
        converted["usage"] = convert_to_json_value(dict(message.usage_metadata))
    model = message.response_metadata.get("model_name") or message.response_metadata.get("model")
    if isinstance(model, str):
        converted["model"] = model


def _list_parts_without_calls(content: Any, call_ids: set[Any]) -> list[Any]:
    """Return the parts of a content without the calls, which some providers repeat there."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, dict) and part.get("id") in call_ids)]


def convert_to_json_value(value: Any, depth: int = 0) -> Any:
    """Return a value in JSON's own types; an object that has no JSON form becomes its text."""
    if depth > _MAX_DEPTH:
        return str(type(value).__name__)
    if value is None or isinstance(value, bool | int | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): convert_to_json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Sequence):
        return [convert_to_json_value(item, depth + 1) for item in value]
    return str(value)
