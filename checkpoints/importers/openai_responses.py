"""Items of the Responses API: input items, answers, or both in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from checkpoints.importers.imported_message_and_usage import parse_iso_or_unix_time_or_none
from checkpoints.importers.provider_message_reader import (
    Exchange,
    ExchangeReader,
    are_half_of_scores_positive,
    convert_usage_counts,
    move_undisplayed_fields_to_source,
    read_and_merge_exchanges,
)
from checkpoints.importers.transcript_reader_interface_and_builder import Body, TranscriptFormat, find_block_types

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "created_at"})
_QUIET_FIELDS: Final = frozenset({"type", "status", "phase"})
_USAGE_FIELDS: Final = {name: name for name in ("input_tokens", "output_tokens", "total_tokens")}
#: Fields of a response that are read.
_READ_FIELDS: Final = frozenset(
    {"created_at", "input", "instructions", "metadata", "model", "object", "output", "tools", "usage"}
)
#: Known kinds of items that are shown as they are.
_UNCONVERTED_TYPES: Final = frozenset(
    {
        "additional_tools",
        "code_interpreter_call",
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "context_compaction",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "web_search_call",
    }
)
#: Kinds of calls whose arguments are in another field, with their names.
_CALL_ARGUMENT_FIELDS: Final = {
    "computer_call": "action",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
    "tool_search_call": "arguments",
}


def read_exchange(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    return (
        _read_request_and_response(value)
        if _is_response(value) or _is_request(value)
        else read_single_item_as_exchange_or_none(value)
    )


def _is_response(value: Body) -> bool:
    return (
        "type" not in value and isinstance(value.get("output"), list) and value.get("object", "response") == "response"
    )


def _is_request(value: Body) -> bool:
    return "input" in value and "type" not in value


def _read_request_and_response(value: Body) -> Exchange | None:
    request = value.get("input", [])
    request_items = [{"role": "user", "content": request}] if isinstance(request, str) else request
    response_items = value.get("output", [])
    if not isinstance(request_items, list) or not isinstance(response_items, list):
        return None
    exchange = read_and_merge_exchanges([*request_items, *response_items], read_single_item_as_exchange_or_none)
    if exchange is None:
        return None
    exchange.whole = "input" in value
    if exchange.whole and isinstance(value.get("instructions"), str):
        exchange.messages.insert(0, {"role": "system", "content": value["instructions"]})
    exchange.name = value["id"] if exchange.whole and isinstance(value.get("id"), str) else ""
    exchange.tokens = convert_usage_counts(value.get("usage"), _USAGE_FIELDS, ("input_tokens_details", "cached_tokens"))
    exchange.at = parse_iso_or_unix_time_or_none(value.get("created_at"))
    exchange.model = value["model"] if isinstance(value.get("model"), str) else ""
    exchange.about = {name: value[name] for name in ("tools", "metadata") if value.get(name)}
    if not exchange.messages and isinstance(value.get("error"), dict):
        exchange.messages = [{"role": "assistant", "content": [{"type": "error", **value["error"]}]}]
    exchange.envelope = {name: field for name, field in value.items() if name not in _READ_FIELDS and field is not None}
    return exchange


def read_single_item_as_exchange_or_none(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "message" if "role" in value else None)
    if not isinstance(kind, str):
        return None
    if kind == "message":
        return (
            Exchange([move_undisplayed_fields_to_source(value, _SHOWN_FIELDS, _QUIET_FIELDS)])
            if isinstance(value.get("role"), str)
            else None
        )
    reader = _ITEM_READERS.get(kind)
    body = reader(value) if reader else None
    if body is not None:
        return Exchange([body])
    is_known = kind in _UNCONVERTED_TYPES or reader is not None
    return Exchange([_wrap_item_in_message(value)], unknown=Counter() if is_known else Counter([f"item {kind}"]))


def _wrap_item_in_message(value: Body) -> Body:
    return {"role": "assistant", "content": [value]}


def _build_message(value: Body, blocks: list[Body], role: str = "assistant") -> Body:
    metadata = {"id": value["id"]} if isinstance(value.get("id"), str) else {}
    return {**metadata, "role": role, "blocks": blocks, "source": value}


def _find_call_id(value: Body) -> str | None:
    call_id = value.get("call_id") or value.get("id")
    return call_id if isinstance(call_id, str) else None


def _convert_call_to_message(value: Body) -> Body | None:
    """Convert a call; its kind is its name if it has none of its own."""
    call_id, kind = _find_call_id(value), value["type"]
    name, args = value.get("name", kind.removesuffix("_call")), value.get(_CALL_ARGUMENT_FIELDS.get(kind, "arguments"))
    if args is None and kind == "computer_call":
        args = value.get("actions")
    if call_id is None or not isinstance(name, str):
        return None
    return _build_message(value, [{"kind": "tool_call", "id": call_id, "name": name, "args": args}])


def _convert_call_output_to_message(value: Body) -> Body | None:
    call_id = _find_call_id(value)
    if call_id is None:
        return None
    is_error = value.get("status") in ("failed", "incomplete")
    output = next((value[name] for name in ("output", "tools", "result") if name in value), None)
    return _build_message(value, [_build_tool_result(call_id, output, failed=is_error)], "tool")


def _build_tool_result(call_id: str, content: Any, *, failed: bool) -> Body:
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    return {**block, "is_error": True} if failed else block


def _convert_mcp_call_and_result_to_message(value: Body) -> Body | None:
    """Convert a call that the provider made: the item also holds its result."""
    call_id, name, error = _find_call_id(value), value.get("name"), value.get("error")
    if call_id is None or not isinstance(name, str):
        return None
    call_block = {"kind": "tool_call", "id": call_id, "name": name, "args": value.get("arguments")}
    if error is None and value.get("output") is None:
        return _build_message(value, [call_block])
    content = value.get("output") if error is None else error
    return _build_message(value, [call_block, _build_tool_result(call_id, content, failed=error is not None)])


def _convert_agent_message_to_system_message(value: Body) -> Body | None:
    """Convert a message from another agent, which is no prompt of a person."""
    content = value.get("content")
    return (
        None if content is None else {**_build_message(value, [], "system"), "blocks": _convert_to_text_blocks(content)}
    )


def _convert_to_text_blocks(content: Any) -> list[Any]:
    parts = content if isinstance(content, list) else [content]
    return [
        {"kind": "text", "text": part["text"]} if isinstance(part, dict) and isinstance(part.get("text"), str) else part
        for part in parts
    ]


def _convert_reasoning_to_message(value: Body) -> Body | None:
    pieces = [piece for name in ("summary", "content") for piece in _get_list_or_empty(value.get(name))]
    texts = [piece["text"] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get("text"), str)]
    return _build_message(value, [{"kind": "reasoning", "text": "\n\n".join(texts)}]) if texts else None


def _get_list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_ITEM_READERS: Final[dict[str, Callable[[Body], Body | None]]] = {
    "reasoning": _convert_reasoning_to_message,
    "mcp_call": _convert_mcp_call_and_result_to_message,
    "agent_message": _convert_agent_message_to_system_message,
    "tool_search_output": _convert_call_output_to_message,
    **dict.fromkeys(("function_call", *_CALL_ARGUMENT_FIELDS), _convert_call_to_message),
    **dict.fromkeys(
        ("function_call_output", *(f"{kind}_output" for kind in _CALL_ARGUMENT_FIELDS)), _convert_call_output_to_message
    ),
}
_ITEM_TYPES: Final = frozenset({*_ITEM_READERS, *_UNCONVERTED_TYPES})


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    if _is_response(value):
        return 2 if "object" in value or _are_most_items_known(value["output"]) else 0
    if _is_request(value):
        return 2 if isinstance(value["input"], str) or _are_most_items_known(value["input"]) else 0
    return score_item_match(value)


def _are_most_items_known(items: Any) -> bool:
    return isinstance(items, list) and (
        not items or are_half_of_scores_positive([score_item_match(item) for item in items])
    )


def score_item_match(value: Any) -> int:
    """Tell how surely a value is an item: 0 not, 1 possibly, 2 certainly."""
    if not isinstance(value, dict):
        return 0
    kind = value.get("type", "message" if "role" in value else None)
    if kind != "message":
        return 2 * (isinstance(kind, str) and kind in _ITEM_TYPES)
    content = value.get("content")
    types = find_block_types(content)
    if not isinstance(value.get("role"), str):
        return 0
    return (
        2
        if types
        and types
        <= {"input_text", "output_text", "input_image", "input_audio", "output_audio", "input_file", "refusal"}
        else isinstance(content, str)
    )


OPENAI_RESPONSES: Final = TranscriptFormat(
    "openai-responses", "", _score_format_match, lambda context: ExchangeReader(context, read_exchange)
)
