"""Tool calls that a message makes or answers, in the common message formats.

Blocks of a `kind` (`tool_call`, `tool_result`), content parts of a `type` (`tool_use`, `tool_result`), the `tool_calls`
and `tool_call_id` fields of chat completions, items of a `type` (`function_call`, `function_call_output`), the parts
of Pydantic AI, and the blocks of Bedrock's Converse API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.formats import bedrock_converse_messages_to_blocks, pydantic_ai_messages_to_blocks
from checkpoints.formats.canonical_json import parse_json


@dataclass(frozen=True)
class RequestedCall:
    """Tool call as a model requests it. `args` is None if they cannot be read."""

    call_id: str
    tool: str
    args: dict[str, Any] | None


def list_requested_calls(message: Any) -> list[RequestedCall]:
    """List the tool calls that `message` makes, in order."""
    message = bedrock_converse_messages_to_blocks.convert_message_to_one_with_blocks(
        pydantic_ai_messages_to_blocks.convert_message_to_one_with_blocks(message)
    )
    parts = [part for part in _list_dicts_in_blocks_and_content(message) if _is_call(part)]
    parts += [message] if _is_item_of_kind(message, "function_call") else []
    parts += _list_dicts_in_field(message, "tool_calls")
    return [call for part in parts if (call := _parse_call(part)) is not None]


def list_call_ids_of_results(message: Any) -> list[str]:
    """List the ids of the tool calls whose results `message` carries."""
    message = bedrock_converse_messages_to_blocks.convert_message_to_one_with_blocks(
        pydantic_ai_messages_to_blocks.convert_message_to_one_with_blocks(message)
    )
    call_ids = [
        part.get("call_id") or part.get("tool_use_id")
        for part in _list_dicts_in_blocks_and_content(message)
        if _get_kind(part) == "tool_result"
    ]
    if isinstance(message, dict):
        call_ids.append(message.get("tool_call_id"))
    if _is_item_of_kind(message, "function_call_output"):
        call_ids.append(message.get("call_id"))
    return [call_id for call_id in call_ids if isinstance(call_id, str)]


def is_answer_without_calls(message: Any) -> bool:
    """Return whether `message` is an answer of a model that makes no call, which ends the turn of most agents."""
    return isinstance(message, dict) and message.get("role") == "assistant" and not list_requested_calls(message)


def repeats_or_answers_response(message: Any, answer: Any) -> bool:
    """Return whether `message` is this answer of a model, in any format, or has the result of a call that it makes."""
    calls = {call.call_id for call in list_requested_calls(answer)}
    call_ids = {*list_call_ids_of_results(message), *(call.call_id for call in list_requested_calls(message))}
    return bool(message == answer or calls & call_ids)


def list_unanswered_calls_at_end(transcript: Sequence[Any]) -> list[RequestedCall]:
    """List the calls that the last calling message of a transcript makes and that nothing after it answers."""
    later: set[str] = set()
    for message in reversed(transcript):
        if calls := list_requested_calls(message):
            return [call for call in calls if call.call_id not in later]
        later.update(list_call_ids_of_results(message))
    return []


def _parse_call(part: dict[str, Any]) -> RequestedCall | None:
    function = part.get("function")
    fields = function if isinstance(function, dict) else part
    call_id, name = part.get("call_id") if _get_kind(part) == "function_call" else None, fields.get("name")
    call_id = call_id or part.get("id") or part.get("call_id")
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return RequestedCall(call_id, name, _parse_args(fields))


def _is_call(part: dict[str, Any]) -> bool:
    return isinstance(part.get("function"), dict) or _get_kind(part) in {"tool_call", "tool_use"}


def _is_item_of_kind(message: Any, kind: str) -> bool:
    return isinstance(message, dict) and message.get("type") == kind


def _parse_args(fields: dict[str, Any]) -> dict[str, Any] | None:
    for field in ("args", "input", "arguments"):
        value = fields.get(field)
        if isinstance(value, str):
            try:
                value = parse_json(value)
            except ValueError:
                return None
        if isinstance(value, dict):
            return value
    return None


def _get_kind(part: dict[str, Any]) -> Any:
    return part.get("kind") or part.get("type")


def _list_dicts_in_blocks_and_content(message: Any) -> list[dict[str, Any]]:
    return [*_list_dicts_in_field(message, "blocks"), *_list_dicts_in_field(message, "content")]


def _list_dicts_in_field(message: Any, field: str) -> list[dict[str, Any]]:
    parts = message.get(field) if isinstance(message, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
