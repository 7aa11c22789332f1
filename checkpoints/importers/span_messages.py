"""Messages in the inputs and outputs of spans, in the forms that instrumentations write."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.tool_definition_name import get_name_of_tool_definition_or_empty
from checkpoints.importers.openai_responses import read_single_item_as_exchange_or_none, score_item_match
from checkpoints.importers.span_message_parts import (
    ID_FIELDS,
    build_call_block,
    build_result_block,
    build_text_block,
    get_first_text_field_or_empty,
    iterate_content_as_blocks,
    unwrap_result_text,
)
from checkpoints.importers.transcript_reader_interface_and_builder import Body, get_text_field_or_empty

_ROLES: Final = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
#: Types that are the role of a message, as LangChain writes them.
_ROLE_TYPES: Final = frozenset({*_ROLES, *_ROLES.values()})
_LIST_FIELDS: Final = ("messages", "contents", "output_messages", "input_messages")


def parse_span_messages(value: Any, role: str) -> list[Body]:
    """Read the messages of a span's input or output; `role` is that of text without one."""
    if isinstance(value, str):
        parsed = _parse_json_text_or_none(value)
        return (
            parse_span_messages(parsed, role)
            if parsed is not None
            else _wrap_blocks_in_message_list(role, [build_text_block(value)] if value else [])
        )
    if isinstance(value, list):
        return _parse_message_list(value, role)
    if isinstance(value, dict):
        return _parse_dict_as_messages(value, role)
    return [] if value is None else _wrap_blocks_in_message_list(role, [value])


def _parse_json_text_or_none(text: str) -> Any:
    """Parse text that is a list or an object of JSON; None if it is neither."""
    if not text.lstrip().startswith(("[", "{", '"')):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, list | dict | str) else None


def _wrap_blocks_in_message_list(role: str, blocks: list[Any]) -> list[Body]:
    return [{"role": role, "blocks": blocks}] if blocks else []


def _parse_message_list(values: list[Any], role: str) -> list[Body]:
    if values and all(
        isinstance(value, dict) and ("toolCallId" in value or _is_tool_call_part_without_message(value))
        for value in values
    ):
        return _wrap_blocks_in_message_list("assistant", [build_call_block(value) for value in values])
    if values and all(isinstance(value, dict) and _is_message(value) for value in values):
        messages = [message for value in values for message in _read_message_or_response_item(value, role)]
        return _merge_neighbouring_tool_definitions(messages)
    return _wrap_blocks_in_message_list(
        role, [block for value in values for block in iterate_content_as_blocks(_unwrap_prompt_or_completion(value))]
    )


def _merge_neighbouring_tool_definitions(messages: list[Body]) -> list[Body]:
    """Make one message of those that define the tools for the model: some traces have one for each tool."""
    merged: list[Body] = []
    for has_definitions, group in groupby(messages, _has_only_tool_definitions):
        if has_definitions:
            merged.append({"role": "system", "blocks": [block for message in group for block in message["blocks"]]})
        else:
            merged += group
    return merged


def _has_only_tool_definitions(message: Body) -> bool:
    blocks = message.get("blocks")
    return isinstance(blocks, list) and bool(blocks) and all(map(get_name_of_tool_definition_or_empty, blocks))


def _unwrap_prompt_or_completion(value: Any) -> Any:
    """Take the text out of an entry of `llm.prompts` or `llm.choices`."""
    fields = value if isinstance(value, dict) else {}
    return next((fields[name] for name in ("prompt", "completion") if isinstance(fields.get(name), dict)), value)


def _is_tool_call_part_without_message(value: Body) -> bool:
    return "role" not in value and get_text_field_or_empty(value, "type") in {"tool_call", "tool-call"}


def _is_message(value: Body) -> bool:
    kind = get_text_field_or_empty(value, "type")
    is_typed = kind in _ROLE_TYPES or score_item_match(value) > 0
    return isinstance(value.get("role"), str) or is_typed or "parts" in value or "message" in value


def _parse_dict_as_messages(value: Body, role: str) -> list[Body]:
    for name in _LIST_FIELDS:
        if isinstance(value.get(name), list):
            rest = [{"role": "system", "content": value["system"]}] if isinstance(value.get("system"), str) else []
            return parse_span_messages([*rest, *value[name]], role)
    if isinstance(value.get("choices"), list):
        return parse_span_messages(
            [choice.get("message", choice) for choice in value["choices"] if isinstance(choice, dict)], role
        )
    if isinstance(value.get("output"), list) and value.get("object") == "response":
        return parse_span_messages(value["output"], role)
    if isinstance(value.get("content"), dict) and "parts" in value["content"]:
        return _read_message_or_response_item(value["content"], role)
    if isinstance(value.get("prompt"), str):
        system = (
            _wrap_blocks_in_message_list("system", [build_text_block(value["system"])])
            if isinstance(value.get("system"), str)
            else []
        )
        return [*system, *_wrap_blocks_in_message_list("user", [build_text_block(value["prompt"])])]
    if _is_message(value):
        return _read_message_or_response_item(value, role)
    return _wrap_blocks_in_message_list(role, [value])


def _read_message_or_response_item(value: Body, role: str) -> list[Body]:
    """Read one message, or one item of the Responses API."""
    if isinstance(value.get("message"), dict) and "role" not in value:
        value = value["message"]
    if (
        "role" not in value
        and score_item_match(value)
        and (exchange := read_single_item_as_exchange_or_none(value)) is not None
    ):
        return exchange.messages
    own_role = value.get("role", value.get("type") if value.get("type") in _ROLE_TYPES else role)
    own_role = _ROLES.get(own_role, own_role) if isinstance(own_role, str) else role
    content = value.get("parts", value.get("contents", value.get("content", value.get("text"))))
    call_id = get_first_text_field_or_empty(value, ID_FIELDS[1:])
    if own_role == "tool" and (call_id or isinstance(value.get("name"), str)):
        return [
            {"role": "tool", "blocks": [build_result_block(call_id, value.get("name"), unwrap_result_text(content))]}
        ]
    reasoning = get_first_text_field_or_empty(value, ("reasoning_content", "reasoning"))
    blocks = [{"kind": "reasoning", "text": reasoning}] if reasoning else []
    blocks += iterate_content_as_blocks(content)
    blocks += [build_call_block(call) for call in _iterate_tool_calls_of_message(value)]
    return _wrap_blocks_in_message_list("tool" if blocks and all(map(_is_result_block, blocks)) else own_role, blocks)


def _is_result_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("kind") == "tool_result"


def _iterate_tool_calls_of_message(message: Body) -> Iterator[Body]:
    extra = message.get("additional_kwargs")
    for holder in (message, extra if isinstance(extra, dict) else {}):
        calls = holder.get("tool_calls")
        calls = _parse_json_text_or_none(calls) if isinstance(calls, str) else calls
        if isinstance(calls, list) and calls:
            yield from (call.get("tool_call", call) for call in calls if isinstance(call, dict))
            return
    if isinstance(message.get("function_call_name"), str):
        yield {"name": message["function_call_name"], "arguments": message.get("function_call_arguments_json")}


def build_message_fingerprint(body: Body) -> str:
    """Return what two forms of the same message have in common: its role, texts and calls."""
    parts: list[Any] = [body.get("role")]
    for block in body.get("blocks", [body.get("content")]):
        if isinstance(block, dict) and block.get("kind") == "tool_call":
            parts.append([block.get("name"), block.get("id")])
        elif isinstance(block, dict) and block.get("kind") in {"text", "reasoning"}:
            parts.append(str(block.get("text")).strip())
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            parts.append(block["text"].strip())
        else:
            parts.append(block)
    return to_canonical_json(parts, "message")
