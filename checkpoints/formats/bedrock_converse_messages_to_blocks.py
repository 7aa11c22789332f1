"""Messages of the Converse API of Amazon Bedrock, as Strands Agents stores them, in the blocks that this library reads.

A block has no type: its key names what it is, such as `text`, `toolUse` or `toolResult`. Bytes are Base64 text in an
object. Nothing of the framework is imported: a block of another kind stays as it is, and is shown as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def convert_message_to_one_with_blocks(message: Any) -> Any:
    """Convert a message with such content to one with blocks; any other value is returned as it is."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or not any(map(_is_bedrock_block, content)):
        return message
    shown = {key: value for key, value in message.items() if key != "content"}
    return {**shown, "blocks": [_convert_block(block) for block in content]}


def _is_bedrock_block(block: Any) -> bool:
    return isinstance(block, dict) and not {"type", "kind"} & block.keys() and bool(_CONVERTERS.keys() & block.keys())


def _convert_block(block: Any) -> Any:
    if not _is_bedrock_block(block):
        return block
    name = next(key for key in block if key in _CONVERTERS)
    converted = _CONVERTERS[name](block[name])
    return block if converted is None else converted


def _convert_text(text: Any) -> dict[str, Any] | None:
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _convert_reasoning(reasoning: Any) -> dict[str, Any] | None:
    thought = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
    text = thought.get("text") if isinstance(thought, dict) else None
    return {"type": "thinking", "thinking": text} if isinstance(text, str) else None


def _convert_call(call: Any) -> dict[str, Any] | None:
    if not isinstance(call, dict) or not isinstance(call.get("toolUseId"), str):
        return None
    return {"type": "tool_use", "id": call["toolUseId"], "name": call.get("name"), "input": call.get("input")}


def _convert_result(result: Any) -> dict[str, Any] | None:
    if not isinstance(result, dict) or not isinstance(result.get("toolUseId"), str):
        return None
    content = result.get("content")
    return {
        "type": "tool_result",
        "tool_use_id": result["toolUseId"],
        "content": [_convert_block(item) for item in content] if isinstance(content, list) else content,
        "is_error": result.get("status") == "error",
    }


def _convert_image(image: Any) -> dict[str, Any] | None:
    source = image.get("source") if isinstance(image, dict) else None
    content = source.get("bytes") if isinstance(source, dict) else None
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, str):
        return None
    return {"type": "image", "source": {"media_type": f"image/{image.get('format')}", "data": data}}


_CONVERTERS: Final[dict[str, Callable[[Any], dict[str, Any] | None]]] = {
    "text": _convert_text,
    "reasoningContent": _convert_reasoning,
    "toolUse": _convert_call,
    "toolResult": _convert_result,
    "image": _convert_image,
}
