"""Parts of the messages in spans, in the forms that instrumentations write: as blocks of this library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from checkpoints.importers.transcript_reader_interface_and_builder import Body, get_text_field_or_empty

#: Types of calls and results, and the field that has what was asked or answered if it is not one of those below.
_CALL_TYPES: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "server_tool_call"})
_RESULT_TYPES: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_response", "server_tool_call_response"}
)
_TEXT_TYPES: Final = frozenset({"", "text", "input_text", "output_text"})
_REASONING_TYPES: Final = frozenset({"reasoning", "thinking"})
_REASONING_TEXTS: Final = frozenset({"type", "text", "content", "thinking"})
#: Types of parts with data or with an address, and the media that pages show.
_DATA_TYPES: Final = frozenset({"blob", "file", "file_data", "uri"})
_SHOWN_MEDIA: Final = frozenset({"image", "audio"})
#: Names of the same field in different conventions, the first one that is there counts.
ID_FIELDS: Final = ("id", "tool_call_id", "toolCallId", "call_id", "tool_use_id")
_NAME_FIELDS: Final = ("name", "toolName", "tool_name")
_ARGUMENT_FIELDS: Final = ("arguments", "args", "input", "server_tool_call")
_RESULT_FIELDS: Final = ("response", "result", "output", "content", "server_tool_call_response")


def build_text_block(text: str) -> Body:
    return {"kind": "text", "text": text}


def iterate_content_as_blocks(content: Any) -> Iterator[Any]:
    """Iterate over the parts of a message's content as blocks; unknown ones stay as they are."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict):
            yield from _convert_part_to_blocks(part.get("message_content", part))
        elif isinstance(part, str) and part:
            yield build_text_block(part)
        elif part not in (None, ""):
            yield part


def _convert_part_to_blocks(part: Any) -> list[Any]:
    if not isinstance(part, dict):
        return [part]
    for name in ("function_call", "functionCall"):
        if isinstance(part.get(name), dict):
            return [build_call_block(part[name])]
    for name in ("function_response", "functionResponse"):
        if isinstance(part.get(name), dict):
            inner = part[name]
            return [build_result_block(inner.get("id") or "", inner.get("name"), inner.get("response"))]
    kind = get_text_field_or_empty(part, "type") or get_text_field_or_empty(part, "kind")
    if kind in _CALL_TYPES:
        return [build_call_block(part)]
    if kind in _RESULT_TYPES:
        content = next((part[name] for name in _RESULT_FIELDS if name in part), None)
        return [
            build_result_block(
                get_first_text_field_or_empty(part, ID_FIELDS),
                get_first_text_field_or_empty(part, _NAME_FIELDS),
                unwrap_result_text(content),
            )
        ]
    text = next((part[name] for name in ("text", "content", "thinking") if name in part), None)
    if isinstance(text, str) and kind in _TEXT_TYPES:
        return [build_text_block(text)] if text else []
    if isinstance(text, str) and kind in _REASONING_TYPES:
        beside = {name: value for name, value in part.items() if name not in _REASONING_TEXTS}
        return [{**beside, "kind": "reasoning", "text": text}]
    return [_build_media_block_or_none(part, kind) or part]


def _build_media_block_or_none(part: Body, kind: str) -> Body | None:
    """Read an image or a recording; None if it is neither, or has neither data nor an address."""
    media = get_text_field_or_empty(part, "modality") if kind in _DATA_TYPES else kind
    if media not in _SHOWN_MEDIA:
        return None
    nested = part.get(media)  # OpenInference writes `image.image.url`
    nested = nested.get(media, nested) if isinstance(nested, dict) else {}
    fields = nested if isinstance(nested, dict) and nested else part
    media_type = get_text_field_or_empty(fields, "mime_type")
    if isinstance(fields.get("content"), str):
        source = {"type": "base64", "media_type": media_type, "data": fields["content"]}
        return {"type": media, "source": source}
    url = get_first_text_field_or_empty(fields, ("url", "uri"))
    transcript = get_first_text_field_or_empty(fields, ("transcript",))
    return {"type": media, "url": url, **({"transcript": transcript} if transcript else {})} if url else None


def get_first_text_field_or_empty(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the fields that is a text; empty if there is none."""
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def unwrap_result_text(content: Any) -> Any:
    """Take the text out of a result that wraps it."""
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("value"), str):
        return content["value"]
    return content


def build_call_block(call: Body) -> Body:
    """Build the block of a call. Its id is empty if it has none."""
    function = call["function"] if isinstance(call.get("function"), dict) else {}
    fields = {
        **call,
        **function,
        **{name.removeprefix("function."): call[name] for name in call if name.startswith("function.")},
    }
    args = next((fields[name] for name in _ARGUMENT_FIELDS if name in fields), None)
    name = get_first_text_field_or_empty(fields, _NAME_FIELDS) or "tool"
    return {"kind": "tool_call", "id": get_first_text_field_or_empty(fields, ID_FIELDS), "name": name, "args": args}


def build_result_block(call_id: str, name: Any, content: Any) -> Body:
    """Build the block of a result. The id of its call is empty if it has none."""
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    return {**block, "name": name} if isinstance(name, str) and name else block
