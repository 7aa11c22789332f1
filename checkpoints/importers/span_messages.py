"""Messages in the inputs and outputs of spans, in the forms that instrumentations write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.importers.imported_session_builder import Body, get_text_field
from checkpoints.importers.openai_responses import read_item, score_item_match

_ROLES: Final = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
_CALL_TYPES: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call"})
_RESULT_TYPES: Final = frozenset({"tool_call_response", "tool-result", "tool_result", "function_response"})
_REASONING_TYPES: Final = frozenset({"reasoning", "thinking"})
#: Names of the same field in different conventions, the first one that is there counts.
_ID_FIELDS: Final = ("id", "tool_call_id", "toolCallId", "call_id", "tool_use_id")
_NAME_FIELDS: Final = ("name", "toolName", "tool_name")
_ARGUMENT_FIELDS: Final = ("arguments", "args", "input")
_RESULT_FIELDS: Final = ("response", "result", "output", "content")
_LIST_FIELDS: Final = ("messages", "contents", "output_messages", "input_messages")


def parse_span_messages(value: Any, role: str) -> list[Body]:
    """Read the messages of a span's input or output; `role` is that of text without one."""
    if isinstance(value, str):
        parsed = _parse_json_text(value)
        return (
            parse_span_messages(parsed, role)
            if parsed is not None
            else _build_messages(role, [_build_text_block(value)] if value else [])
        )
    if isinstance(value, list):
        return _parse_message_list(value, role)
    if isinstance(value, dict):
        return _parse_message_dict(value, role)
    return [] if value is None else _build_messages(role, [value])


def _parse_json_text(text: str) -> Any:
    """Parse text that is a list or an object of JSON; None if it is neither."""
    if not text.lstrip().startswith(("[", "{", '"')):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, list | dict | str) else None


def _build_messages(role: str, blocks: list[Any]) -> list[Body]:
    return [{"role": role, "blocks": blocks}] if blocks else []


def _build_text_block(text: str) -> Body:
    return {"kind": "text", "text": text}


def _parse_message_list(values: list[Any], role: str) -> list[Body]:
    if values and all(isinstance(value, dict) and ("toolCallId" in value or _is_flat_call(value)) for value in values):
        return _build_messages("assistant", [_build_call(value) for value in values])
    if values and all(isinstance(value, dict) and _is_message(value) for value in values):
        return [message for value in values for message in _read_message_or_response_item(value, role)]
    if values and all(isinstance(value, str) for value in values):
        return _build_messages(role, [_build_text_block(value) for value in values])
    return _build_messages(role, values)


def _is_flat_call(value: Body) -> bool:
    return "role" not in value and get_text_field(value, "type") in {"tool_call", "tool-call"}


def _is_message(value: Body) -> bool:
    return isinstance(value.get("role", value.get("type")), str) or "parts" in value or "message" in value


def _parse_message_dict(value: Body, role: str) -> list[Body]:
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
            _build_messages("system", [_build_text_block(value["system"])])
            if isinstance(value.get("system"), str)
            else []
        )
        return [*system, *_build_messages("user", [_build_text_block(value["prompt"])])]
    if _is_message(value):
        return _read_message_or_response_item(value, role)
    return _build_messages(role, [value])


def _read_message_or_response_item(value: Body, role: str) -> list[Body]:
    """Read one message, or one item of the Responses API."""
    if isinstance(value.get("message"), dict) and "role" not in value:
        value = value["message"]
    if "role" not in value and score_item_match(value) and (exchange := read_item(value)) is not None:
        return exchange.messages
    own_role = value.get("role", value.get("type"))
    own_role = _ROLES.get(own_role, own_role) if isinstance(own_role, str) else role
    content = value.get("parts", value.get("contents", value.get("content", value.get("text"))))
    call_id = next((value[name] for name in _ID_FIELDS[1:] if isinstance(value.get(name), str)), "")
    if own_role == "tool" and (call_id or isinstance(value.get("name"), str)):
        return [{"role": "tool", "blocks": [_build_result(call_id, value.get("name"), _unwrap_result_text(content))]}]
    blocks = list(_iterate_blocks(content))
    blocks += [_build_call(call) for call in _iterate_calls(value)]
    return _build_messages("tool" if blocks and all(map(_is_result_block, blocks)) else own_role, blocks)


def _is_result_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("kind") == "tool_result"


def _iterate_calls(message: Body) -> Iterator[Body]:
    extra = message.get("additional_kwargs")
    for holder in (message, extra if isinstance(extra, dict) else {}):
        calls = holder.get("tool_calls")
        if isinstance(calls, list) and calls:
            yield from (call.get("tool_call", call) for call in calls if isinstance(call, dict))
            return


def _iterate_blocks(content: Any) -> Iterator[Any]:
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict):
            part = part.get("message_content", part)
        yield from (
            _read_part(part)
            if isinstance(part, dict)
            else [_build_text_block(part)]
            if isinstance(part, str) and part
            else []
            if part in (None, "")
            else [part]
        )


def _read_part(part: Body) -> list[Any]:
    kind = get_text_field(part, "type")
    text = part.get("text", part.get("content", part.get("thinking")))
    for name, build in (("function_call", _build_call), ("functionCall", _build_call)):
        if isinstance(part.get(name), dict):
            return [build(part[name])]
    for name in ("function_response", "functionResponse"):
        if isinstance(part.get(name), dict):
            inner = part[name]
            return [_build_result(inner.get("id") or "", inner.get("name"), inner.get("response"))]
    if kind in _CALL_TYPES:
        return [_build_call(part)]
    if kind in _RESULT_TYPES:
        call_id = next((part[name] for name in _ID_FIELDS if isinstance(part.get(name), str)), "")
        content = next((part[name] for name in _RESULT_FIELDS if name in part), None)
        return [
            _build_result(
                call_id, next((part[name] for name in _NAME_FIELDS if name in part), None), _unwrap_result_text(content)
            )
        ]
    if isinstance(text, str) and (kind in {"text", "input_text", "output_text"} or not kind):
        return [_build_text_block(text)] if text else []
    if kind in _REASONING_TYPES and isinstance(text, str):
        return [{"kind": "reasoning", "text": text}]
    return [part]


def _unwrap_result_text(content: Any) -> Any:
    """Take the text out of a result that wraps it."""
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("value"), str):
        return content["value"]
    return content


def _build_call(call: Body) -> Body:
    function = call["function"] if isinstance(call.get("function"), dict) else {}
    fields = {
        **call,
        **function,
        **{name.removeprefix("function."): call[name] for name in call if name.startswith("function.")},
    }
    call_id = next((fields[name] for name in _ID_FIELDS if isinstance(fields.get(name), str)), "")
    name = next((fields[name] for name in _NAME_FIELDS if isinstance(fields.get(name), str)), "tool")
    args = next((fields[name] for name in _ARGUMENT_FIELDS if name in fields), None)
    return {"kind": "tool_call", "id": call_id, "name": name, "args": args}


def _build_result(call_id: str, name: Any, content: Any) -> Body:
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    return {**block, "name": name} if isinstance(name, str) else block


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
